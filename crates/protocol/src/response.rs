//! What a server answers: OK, ERR, result sets and prepared statements, consumed packet by packet.

use crate::field::Reader;
use crate::{Error, ServerError};

/// Most columns that a result can have (MySQL manual, "Limits on Table Column Count").
const MAX_COLUMNS: u64 = 4096;

/// Another result follows this one.
const STATUS_MORE_RESULTS: u16 = 0x0008;

/// A backslash is an ordinary character in strings.
const STATUS_NO_BACKSLASH_ESCAPES: u16 = 0x0200;

/// The end of an answer: an OK packet, or the EOF behind the rows of a result set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completed {
    /// Rows changed; 0 for a result set.
    pub affected_rows: u64,
    /// Status flags.
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
}

impl Completed {
    /// Whether a backslash escapes in the session's strings: `sql_mode` is without NO_BACKSLASH_ESCAPES.
    pub fn backslash_escapes(&self) -> bool {
        self.status & STATUS_NO_BACKSLASH_ESCAPES == 0
    }

    fn from_ok(payload: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(payload);
        reader.u8()?;
        let affected_rows = reader.lenenc()?;
        reader.lenenc()?; // last insert id
        Ok(Self {
            affected_rows,
            status: reader.u16()?,
            warnings: reader.u16()?,
        })
    }

    fn from_eof(payload: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(payload);
        reader.u8()?;
        let warnings = reader.u16()?;
        Ok(Self {
            affected_rows: 0,
            status: reader.u16()?,
            warnings,
        })
    }
}

fn is_eof(payload: &[u8]) -> bool {
    payload.first() == Some(&0xFE) && payload.len() < 9
}

fn refuse_error(payload: &[u8]) -> Result<(), Error> {
    match payload.first() {
        Some(0xFF) => Err(Error::Server(ServerError::parse(payload)?)),
        Some(_) => Ok(()),
        None => Err(Error::protocol("the server answers with an empty packet")),
    }
}

/// What a packet of an answer meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Read on.
    More,
    /// A row; its columns are read with [`text_columns`] if the command was a query.
    Row(&'a [u8]),
    /// The server asks for what stands for a file: send it in packets, the last one empty, and read on.
    File,
    /// The answer is complete.
    Done(Completed),
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Head,
    Columns { left: u64 },
    ColumnsEnd,
    Rows,
}

/// The answer to a query or an execution.
#[derive(Debug, Clone, Copy)]
pub struct Response {
    phase: Phase,
    offers_file: bool,
}

impl Default for Response {
    fn default() -> Self {
        Self::new()
    }
}

impl Response {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self {
            phase: Phase::Head,
            offers_file: false,
        }
    }

    /// The same for a LOAD DATA LOCAL, whose rows the server is to ask for once.
    pub fn to_load() -> Self {
        Self {
            offers_file: true,
            ..Self::new()
        }
    }

    /// Takes the server's next payload. An [`Error::Server`] completes the answer as well.
    #[inline]
    pub fn step<'a>(&mut self, payload: &'a [u8]) -> Result<Step<'a>, Error> {
        refuse_error(payload)?;
        match self.phase {
            Phase::Head => match payload[0] {
                0x00 => self.completed(Completed::from_ok(payload)?),
                0xFB if std::mem::take(&mut self.offers_file) => Ok(Step::File),
                0xFB => Err(Error::protocol(
                    "the server asks for a local file, which was not offered",
                )),
                _ => {
                    let columns = Reader::new(payload).lenenc()?;
                    if columns == 0 || columns > MAX_COLUMNS {
                        return Err(Error::protocol(format!(
                            "a result set has {columns} columns; 1 to {MAX_COLUMNS} are possible"
                        )));
                    }
                    self.phase = Phase::Columns { left: columns };
                    Ok(Step::More)
                }
            },
            Phase::Columns { left } => {
                if is_eof(payload) {
                    return Err(Error::protocol(
                        "a result set has fewer columns than it announced",
                    ));
                }
                self.phase = match left {
                    1 => Phase::ColumnsEnd,
                    _ => Phase::Columns { left: left - 1 },
                };
                Ok(Step::More)
            }
            Phase::ColumnsEnd => {
                if !is_eof(payload) {
                    return Err(Error::protocol("a result set has more columns than it announced"));
                }
                self.phase = Phase::Rows;
                Ok(Step::More)
            }
            Phase::Rows if is_eof(payload) => self.completed(Completed::from_eof(payload)?),
            Phase::Rows => Ok(Step::Row(payload)),
        }
    }

    fn completed(&mut self, completed: Completed) -> Result<Step<'static>, Error> {
        if completed.status & STATUS_MORE_RESULTS != 0 {
            self.phase = Phase::Head;
            return Ok(Step::More);
        }
        Ok(Step::Done(completed))
    }
}

/// The columns of a text row; `None` is NULL.
pub fn text_columns(row: &[u8]) -> impl Iterator<Item = Result<Option<&[u8]>, Error>> {
    let mut reader = Reader::new(row);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let column = reader.column();
        if column.is_err() {
            reader = Reader::new(&[]);
        }
        Some(column)
    })
}

/// A prepared statement as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// Its id on this connection.
    pub id: u32,
    /// Number of `?`.
    pub params: u16,
    /// Columns of its result; 0 if it has none.
    pub columns: u16,
}

/// The answer to a preparation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Preparation {
    prepared: Option<Prepared>,
    left: u32,
}

impl Preparation {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the server's next payload; the statement once it is complete.
    pub fn step(&mut self, payload: &[u8]) -> Result<Option<Prepared>, Error> {
        refuse_error(payload)?;
        let prepared = match self.prepared {
            Some(prepared) => {
                self.left -= 1;
                prepared
            }
            None => {
                let mut reader = Reader::new(payload);
                if reader.u8()? != 0 {
                    return Err(Error::protocol(
                        "the answer to a preparation does not begin with 0",
                    ));
                }
                let id = reader.u32()?;
                let columns = reader.u16()?;
                let params = reader.u16()?;
                // Definitions come in two groups, each with an EOF behind it unless it is empty.
                let group = |count: u16| u32::from(count) + u32::from(count > 0);
                self.left = group(params) + group(columns);
                *self.prepared.insert(Prepared { id, params, columns })
            }
        };
        Ok((self.left == 0).then_some(prepared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::put_lenenc_bytes;
    use proptest::prelude::*;

    const OK: &[u8] = b"\x00\x01\x00\x02\x00\x00\x00";
    const EOF: &[u8] = b"\xfe\x00\x00\x02\x00";

    #[test]
    fn an_ok_completes_an_update() {
        let due = Completed {
            affected_rows: 1,
            status: 2,
            warnings: 0,
        };
        assert_eq!(Response::new().step(OK), Ok(Step::Done(due)));
    }

    #[test]
    fn rows_come_between_two_eofs() {
        let mut response = Response::new();
        for packet in [&b"\x02"[..], b"column a", b"column b", EOF] {
            assert_eq!(response.step(packet), Ok(Step::More));
        }
        let row = b"\x01x\xfb";
        assert_eq!(response.step(row), Ok(Step::Row(row)));
        let columns: Result<Vec<_>, _> = text_columns(row).collect();
        assert_eq!(columns, Ok(vec![Some(&b"x"[..]), None]));
        assert!(matches!(response.step(EOF), Ok(Step::Done(_))));
    }

    #[test]
    fn a_file_is_offered_once_and_only_to_a_load() {
        let asked = b"\xfbrows";
        assert!(matches!(Response::new().step(asked), Err(Error::Protocol(_))));
        let mut response = Response::to_load();
        assert_eq!(response.step(asked), Ok(Step::File));
        assert!(matches!(response.step(asked), Err(Error::Protocol(_))));
        assert!(matches!(response.step(OK), Ok(Step::Done(_))));
    }

    #[test]
    fn a_second_result_is_consumed_before_the_answer_is_done() {
        let mut response = Response::new();
        assert_eq!(response.step(b"\x00\x00\x00\x0a\x00\x00\x00"), Ok(Step::More));
        assert!(matches!(response.step(OK), Ok(Step::Done(_))));
    }

    #[test]
    fn an_error_among_the_rows_is_the_servers_error() {
        let mut response = Response::new();
        for packet in [&b"\x01"[..], b"column", EOF] {
            response.step(packet).unwrap();
        }
        assert!(matches!(
            response.step(b"\xff\x25\x05#70100killed"),
            Err(Error::Server(_))
        ));
    }

    #[test]
    fn impossible_answers_are_protocol_errors() {
        for packet in [
            &b""[..],
            b"\x00",
            b"\xfb/etc/passwd",
            b"\xfc\xff\xff",
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert!(
                matches!(Response::new().step(packet), Err(Error::Protocol(_))),
                "{packet:?}"
            );
        }
    }

    #[test]
    fn column_counts_that_do_not_hold_are_protocol_errors() {
        let mut fewer = Response::new();
        fewer.step(b"\x02").unwrap();
        fewer.step(b"column").unwrap();
        assert!(fewer.step(EOF).is_err());
        let mut more = Response::new();
        more.step(b"\x01").unwrap();
        more.step(b"column").unwrap();
        assert!(more.step(b"another").is_err());
    }

    #[test]
    fn a_preparation_is_complete_after_its_last_definition() {
        let mut preparation = Preparation::new();
        let head = b"\x00\x07\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00";
        assert_eq!(preparation.step(head), Ok(None));
        assert_eq!(preparation.step(b"param"), Ok(None));
        assert_eq!(preparation.step(b"param"), Ok(None));
        assert_eq!(
            preparation.step(EOF),
            Ok(Some(Prepared {
                id: 7,
                params: 2,
                columns: 0
            }))
        );
    }

    #[test]
    fn a_missing_table_is_the_servers_error() {
        let Err(Error::Server(error)) =
            Preparation::new().step(b"\xff\x7a\x04#42S02Table 'a.b' doesn't exist")
        else {
            panic!("a server's error was due");
        };
        assert_eq!(error.errno, 1146);
    }

    proptest! {
        #[test]
        fn text_rows_round_trip(columns in proptest::collection::vec(
            proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)), 1..20)) {
            let mut row = Vec::new();
            for column in &columns {
                match column {
                    Some(bytes) => put_lenenc_bytes(&mut row, bytes),
                    None => row.push(0xFB),
                }
            }
            let read: Vec<Option<Vec<u8>>> =
                text_columns(&row).map(|column| column.unwrap().map(<[u8]>::to_vec)).collect();
            prop_assert_eq!(read, columns);
        }

        #[test]
        fn arbitrary_packets_never_panic(
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..40),
        ) {
            let mut response = Response::new();
            let mut preparation = Preparation::new();
            let mut prepared = false;
            for packet in &packets {
                if let Ok(Step::Row(row)) = response.step(packet) {
                    prop_assert!(text_columns(row).count() <= row.len());
                }
                prepared = prepared || !matches!(preparation.step(packet), Ok(None));
                if prepared {
                    preparation = Preparation::new();
                    prepared = false;
                }
            }
        }
    }
}
