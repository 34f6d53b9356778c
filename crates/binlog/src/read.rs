//! Events and transactions of a file, as far as a replica could read them: up to the first event that is
//! not whole. Nothing is judged here; [`check`](crate::check) does that.
//!
//! Sizes, checksums and the events' own content decide where a file ends, not log_pos: relay logs are read
//! as well, whose events tell the source's positions.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};

use crate::bytes::{fill, Malformed};
use crate::event::{
    checksum, EventType, Header, CHECKSUM_SIZE, FLAG_IN_USE, HEADER_SIZE, MAGIC, MAGIC_ENCRYPTED,
};
use crate::payload::{uncompressed_rows, Payload};
use crate::table::TableMap;
use crate::transaction::{Description, MariadbGtid, MysqlGtid, Query};
use crate::value::Value;
use crate::{Change, Rows};

/// A whole event.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Its header.
    pub header: Header,
    /// Its content without header and checksum.
    pub body: &'a [u8],
    /// Where it ends in its file; inside a compressed transaction, where that ends.
    pub end: u64,
    /// It is inside a compressed transaction, which comes before it.
    pub inside: bool,
}

/// How far a file was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Reached {
    /// Where the last event that was read ends.
    pub end: u64,
    /// Bytes follow that are no whole event.
    pub torn: bool,
    /// Why the events that follow cannot be read, although they may be whole.
    pub unreadable: Option<String>,
}

/// A transaction that commits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Committed {
    /// Where its last event ends.
    pub end: u64,
    /// Its GTID as the server writes it; empty if it has none.
    pub gtid: String,
    /// Rows inserted into the wanted table: the values of their integer columns.
    pub inserted: Vec<Vec<i64>>,
    /// Statements that name the wanted table.
    pub statements: Vec<String>,
}

/// Calls `each` with every event of a file, up to the first that is not whole or that `each` refuses.
///
/// # Errors
/// The file cannot be read.
pub fn read_events(
    file: impl Read,
    each: impl FnMut(&Event<'_>) -> Result<(), Malformed>,
) -> io::Result<Reached> {
    let mut file = file;
    let mut events = Events::new(each);
    let stop = match events.begin(&mut file)? {
        None => events.go_on(&mut file)?,
        Some(stop) => stop,
    };
    Ok(events.reached(stop))
}

/// The same for the file's description and the events from `start` on, the end of an event; those between are not
/// read.
///
/// # Errors
/// The file cannot be read.
pub fn read_events_from(
    mut file: impl Read + Seek,
    start: u64,
    each: impl FnMut(&Event<'_>) -> Result<(), Malformed>,
) -> io::Result<Reached> {
    let mut events = Events::new(each);
    let stop = match events.begin(&mut file)? {
        Some(stop) => stop,
        None => match events.next(&mut file)? {
            Some(stop) => stop,
            None => {
                if start > events.end {
                    file.seek(SeekFrom::Start(start))?;
                    events.end = start;
                }
                events.go_on(&mut file)?
            }
        },
    };
    Ok(events.reached(stop))
}

/// Calls `each` with every transaction of a file that ends in XID or COMMIT; their rows and statements as
/// far as they are of tables named `table`, in whatever schema.
///
/// # Errors
/// The file cannot be read.
pub fn read_transactions(
    file: impl Read,
    table: &str,
    mut each: impl FnMut(Committed),
) -> io::Result<Reached> {
    let mut open = Open {
        table: table.as_bytes(),
        tables: HashMap::new(),
        found: Committed::default(),
    };
    read_events(file, |event| {
        if open.take(event)? {
            let end = event.end;
            each(Committed {
                end,
                ..std::mem::take(&mut open.found)
            });
        }
        Ok(())
    })
}

enum Stop {
    File,
    Torn,
    Unreadable(String),
}

struct Events<F> {
    each: F,
    buffer: Vec<u8>,
    checksums: bool,
    described: bool,
    end: u64,
}

impl<F: FnMut(&Event<'_>) -> Result<(), Malformed>> Events<F> {
    fn new(each: F) -> Self {
        Self {
            each,
            buffer: Vec::new(),
            checksums: false,
            described: false,
            end: 0,
        }
    }

    fn reached(&self, stop: Stop) -> Reached {
        let (torn, unreadable) = match stop {
            Stop::File => (false, None),
            Stop::Torn => (true, None),
            Stop::Unreadable(reason) => (false, Some(reason)),
        };
        Reached {
            end: self.end,
            torn,
            unreadable,
        }
    }

    /// Reads what a file begins with.
    fn begin(&mut self, file: &mut impl Read) -> io::Result<Option<Stop>> {
        let mut bytes = Vec::new();
        fill(file, &mut bytes, MAGIC.len())?;
        if bytes != MAGIC {
            return Ok(Some(no_binlog(&bytes)));
        }
        self.end = MAGIC.len() as u64;
        Ok(None)
    }

    fn go_on(&mut self, file: &mut impl Read) -> io::Result<Stop> {
        loop {
            if let Some(stop) = self.next(file)? {
                return Ok(stop);
            }
        }
    }

    /// Reads an event.
    fn next(&mut self, file: &mut impl Read) -> io::Result<Option<Stop>> {
        let bytes = &mut std::mem::take(&mut self.buffer);
        bytes.clear();
        fill(file, bytes, HEADER_SIZE)?;
        if bytes.is_empty() {
            return Ok(Some(Stop::File));
        }
        let Ok(header) = Header::parse(bytes) else {
            return Ok(Some(Stop::Torn));
        };
        let size = header.size as usize;
        if size < HEADER_SIZE {
            return Ok(Some(Stop::Torn));
        }
        fill(file, bytes, size)?;
        if bytes.len() < size {
            return Ok(Some(Stop::Torn));
        }
        let stop = self.event(header, bytes);
        self.buffer = std::mem::take(bytes);
        Ok(stop)
    }

    fn event(&mut self, header: Header, bytes: &mut [u8]) -> Option<Stop> {
        let end = self.end + bytes.len() as u64;
        let content = match header.event_type {
            EventType::FORMAT_DESCRIPTION => match self.describe(bytes) {
                Ok(()) => &bytes[..],
                Err(error) if error.is_unknown() => return Some(Stop::Unreadable(error.to_string())),
                Err(_) => return Some(Stop::Torn),
            },
            EventType::START_V3 if !self.described => {
                return Some(Stop::Unreadable("its format is older than 4".to_owned()));
            }
            _ if !self.described => return Some(Stop::Torn),
            EventType::START_ENCRYPTION => return Some(Stop::Unreadable("it is encrypted".to_owned())),
            _ if self.checksums => match without_checksum(bytes) {
                Some(content) => content,
                None => return Some(Stop::Torn),
            },
            _ => &bytes[..],
        };
        let event = Event {
            header,
            body: &content[HEADER_SIZE..],
            end,
            inside: false,
        };
        match self.hand_over(&event) {
            Ok(()) => self.end = end,
            // Without checksums, an event that is not whole may look as if it were.
            Err(error) if self.checksums || error.is_unknown() => {
                return Some(Stop::Unreadable(error.to_string()));
            }
            Err(_) => return Some(Stop::Torn),
        }
        None
    }

    fn hand_over(&mut self, event: &Event<'_>) -> Result<(), Malformed> {
        (self.each)(event)?;
        if event.header.event_type != EventType::TRANSACTION_PAYLOAD {
            return Ok(());
        }
        Payload::parse(event.body)?.each_event(|header, body| {
            (self.each)(&Event {
                header: *header,
                body,
                end: event.end,
                inside: true,
            })
        })
    }

    /// Relay logs have a second description, the source's: it holds for what follows.
    fn describe(&mut self, bytes: &mut [u8]) -> Result<(), Malformed> {
        // The checksum was taken before the file was in use.
        bytes[17] &= !(FLAG_IN_USE as u8);
        let description = Description::parse(&bytes[HEADER_SIZE..])?;
        if description.checksums && without_checksum(bytes).is_none() {
            return Err(Malformed::new("the checksum of the description does not hold"));
        }
        self.checksums = description.checksums;
        self.described = true;
        Ok(())
    }
}

fn no_binlog(start: &[u8]) -> Stop {
    // Zeros are bytes that were never written out.
    match start.iter().any(|byte| *byte != 0) && !MAGIC.starts_with(start) {
        true if start == MAGIC_ENCRYPTED => Stop::Unreadable("it is encrypted".to_owned()),
        true => {
            let digits: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
            Stop::Unreadable(format!("its format is not known (it begins with {digits})"))
        }
        false => Stop::Torn,
    }
}

fn without_checksum(bytes: &[u8]) -> Option<&[u8]> {
    let (content, given) = bytes.split_last_chunk::<CHECKSUM_SIZE>()?;
    let holds = content.len() >= HEADER_SIZE && *given == checksum(content).to_le_bytes();
    holds.then_some(content)
}

/// The transaction that is being read.
struct Open<'a> {
    table: &'a [u8],
    /// The wanted tables by their ids.
    tables: HashMap<u64, TableMap>,
    found: Committed,
}

impl Open<'_> {
    /// Takes an event; `true` if the transaction commits with it.
    fn take(&mut self, event: &Event<'_>) -> Result<bool, Malformed> {
        let body = event.body;
        match event.header.event_type {
            EventType::GTID => self.begin(MysqlGtid::parse(body)?.to_string()),
            EventType::MARIADB_GTID => {
                let gtid = MariadbGtid::parse(body)?;
                let server_id = event.header.server_id;
                self.begin(format!("{}-{server_id}-{}", gtid.domain, gtid.number));
            }
            EventType::GTID_TAGGED => self.begin(MysqlGtid::parse_tagged(body)?.to_string()),
            EventType::ANONYMOUS_GTID => self.begin(String::new()),
            EventType::TABLE_MAP => self.table_map(body)?,
            EventType::WRITE_ROWS
            | EventType::WRITE_ROWS_V1
            | EventType::WRITE_ROWS_COMPRESSED
            | EventType::WRITE_ROWS_COMPRESSED_V1 => {
                let (plain, body) = uncompressed_rows(event.header.event_type, body)?;
                self.rows(Rows::parse(plain, &body)?)?;
            }
            EventType::QUERY | EventType::QUERY_COMPRESSED => {
                return self.query(&Query::parse(event.header.event_type, body)?);
            }
            EventType::XID => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    fn begin(&mut self, gtid: String) {
        self.found = Committed {
            gtid,
            ..Committed::default()
        };
    }

    fn table_map(&mut self, body: &[u8]) -> Result<(), Malformed> {
        let (id, name) = TableMap::id_and_name(body)?;
        if name == self.table {
            self.tables.insert(id, TableMap::parse(body)?);
        } else {
            self.tables.remove(&id);
        }
        Ok(())
    }

    fn rows(&mut self, mut rows: Rows<'_>) -> Result<(), Malformed> {
        let Some(table) = self.tables.get(&rows.table_id) else {
            return Ok(());
        };
        debug_assert_eq!(rows.change, Change::Write);
        while !rows.is_empty() {
            let mut integers = Vec::new();
            rows.read_row(&table.columns, |_, _, value| match value {
                Value::Int(value) => integers.push(value),
                Value::UInt(value) => integers.extend(i64::try_from(value)),
                _ => {}
            })?;
            self.found.inserted.push(integers);
        }
        Ok(())
    }

    fn query(&mut self, query: &Query<'_>) -> Result<bool, Malformed> {
        let text = query.text();
        if text == b"COMMIT" {
            return Ok(true);
        }
        if text == b"BEGIN" {
            self.found.inserted.clear();
            self.found.statements.clear();
        } else if text
            .windows(self.table.len().max(1))
            .any(|part| part == self.table)
        {
            self.found
                .statements
                .push(String::from_utf8_lossy(text).into_owned());
        }
        Ok(false)
    }
}
