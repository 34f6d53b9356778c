//! What a client asks. Each function appends one whole packet under sequence number 0.

use crate::field::put_lenenc_bytes;
use crate::packet::frame;
use crate::Error;

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0E;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;

const TYPE_LONG: u8 = 0x03;
const TYPE_LONGLONG: u8 = 0x08;
const TYPE_STRING: u8 = 0xFE;

/// For [`execute_written`]: a text in the connection's character set, also of a number.
pub const TYPE_VAR_STRING: u8 = 0xFD;
/// For [`execute_written`]: bytes.
pub const TYPE_BLOB: u8 = 0xFC;

/// A value bound to a `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Param<'a> {
    /// INTEGER, as sysbench binds ids.
    Int(i32),
    /// BIGINT.
    BigInt(i64),
    /// CHAR, as sysbench binds `c` and `pad`.
    Char(&'a [u8]),
    /// BLOB: bytes that the server does not convert, or NULL.
    Bytes(Option<&'a [u8]>),
}

impl Param<'_> {
    fn wire_type(self) -> u8 {
        match self {
            Self::Int(_) => TYPE_LONG,
            Self::BigInt(_) => TYPE_LONGLONG,
            Self::Char(_) => TYPE_STRING,
            Self::Bytes(_) => TYPE_BLOB,
        }
    }
}

/// Ends the connection; the server does not answer.
pub fn quit(out: &mut Vec<u8>) -> Result<(), Error> {
    frame(out, 0, |out| out.push(COM_QUIT))
}

/// Asks for an answer, and nothing else.
pub fn ping(out: &mut Vec<u8>) -> Result<(), Error> {
    frame(out, 0, |out| out.push(COM_PING))
}

/// Runs `sql` in the text protocol.
pub fn query(out: &mut Vec<u8>, sql: &[u8]) -> Result<(), Error> {
    frame(out, 0, |out| {
        out.push(COM_QUERY);
        out.extend_from_slice(sql);
    })
}

/// Prepares `sql`.
pub fn prepare(out: &mut Vec<u8>, sql: &[u8]) -> Result<(), Error> {
    frame(out, 0, |out| {
        out.push(COM_STMT_PREPARE);
        out.extend_from_slice(sql);
    })
}

/// Forgets a prepared statement; the server does not answer.
pub fn close(out: &mut Vec<u8>, statement: u32) -> Result<(), Error> {
    frame(out, 0, |out| {
        out.push(COM_STMT_CLOSE);
        out.extend_from_slice(&statement.to_le_bytes());
    })
}

/// Runs a prepared statement. `with_types` must be true the first time; the server then remembers
/// the types.
#[inline]
pub fn execute<'a>(
    out: &mut Vec<u8>,
    statement: u32,
    with_types: bool,
    params: impl Iterator<Item = Param<'a>> + Clone,
) -> Result<(), Error> {
    let count = params.clone().count();
    frame(out, 0, |out| {
        out.push(COM_STMT_EXECUTE);
        out.extend_from_slice(&statement.to_le_bytes());
        out.push(0); // no cursor
        out.extend_from_slice(&1u32.to_le_bytes()); // iterations, always 1
        if count == 0 {
            return;
        }
        let nulls = out.len();
        out.resize(nulls + count.div_ceil(8), 0);
        for (number, param) in params.clone().enumerate() {
            if param == Param::Bytes(None) {
                out[nulls + number / 8] |= 1 << (number % 8);
            }
        }
        out.push(u8::from(with_types));
        if with_types {
            for param in params.clone() {
                out.extend_from_slice(&[param.wire_type(), 0]);
            }
        }
        for param in params {
            match param {
                Param::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
                Param::BigInt(value) => out.extend_from_slice(&value.to_le_bytes()),
                Param::Char(bytes) | Param::Bytes(Some(bytes)) => put_lenenc_bytes(out, bytes),
                Param::Bytes(None) => {}
            }
        }
    })
}

/// Runs a prepared statement with values that are written already, as strings behind their lengths.
///
/// `nulls` has a bit for each value that is NULL and not among them; `types`, two bytes for each, go along the
/// first time.
pub fn execute_written(
    out: &mut Vec<u8>,
    statement: u32,
    nulls: &[u8],
    types: Option<&[u8]>,
    values: &[u8],
) -> Result<(), Error> {
    frame(out, 0, |out| {
        out.push(COM_STMT_EXECUTE);
        out.extend_from_slice(&statement.to_le_bytes());
        out.push(0); // no cursor
        out.extend_from_slice(&1u32.to_le_bytes()); // iterations, always 1
        out.extend_from_slice(nulls);
        out.push(u8::from(types.is_some()));
        out.extend_from_slice(types.unwrap_or_default());
        out.extend_from_slice(values);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_a_bit_and_keeps_its_type() {
        let mut out = Vec::new();
        let params = [Param::BigInt(7), Param::Bytes(None), Param::Bytes(Some(b"\xff"))];
        execute(&mut out, 5, true, params.into_iter()).unwrap();
        let payload = b"\x17\x05\0\0\0\x00\x01\0\0\0\x02\x01\x08\0\xfc\0\xfc\0\x07\0\0\0\0\0\0\0\x01\xff";
        assert_eq!(&out[4..], payload);
    }

    #[test]
    fn an_execution_has_the_manuals_bytes() {
        let mut out = Vec::new();
        let params = [Param::Char(b"abc"), Param::Int(258)];
        execute(&mut out, 5, true, params.into_iter()).unwrap();
        let payload = b"\x17\x05\0\0\0\x00\x01\0\0\0\x00\x01\xfe\0\x03\0\x03abc\x02\x01\0\0";
        assert_eq!(&out[..4], [payload.len() as u8, 0, 0, 0]);
        assert_eq!(&out[4..], payload);
    }

    #[test]
    fn types_are_left_out_once_the_server_knows_them() {
        let mut out = Vec::new();
        execute(&mut out, 5, false, [Param::Int(-1)].into_iter()).unwrap();
        assert_eq!(&out[4..], b"\x17\x05\0\0\0\x00\x01\0\0\0\x00\x00\xff\xff\xff\xff");
    }

    #[test]
    fn written_values_are_sent_as_they_are() {
        let (mut written, mut bound) = (Vec::new(), Vec::new());
        execute_written(&mut written, 5, &[0], Some(&[TYPE_STRING, 0]), b"\x03abc").unwrap();
        execute(&mut bound, 5, true, [Param::Char(b"abc")].into_iter()).unwrap();
        assert_eq!(written, bound);
        written.clear();
        execute_written(&mut written, 5, &[2], None, b"\x03abc").unwrap();
        assert_eq!(&written[4..], b"\x17\x05\0\0\0\x00\x01\0\0\0\x02\x00\x03abc");
    }

    #[test]
    fn a_statement_without_parameters_has_no_bitmap() {
        let mut out = Vec::new();
        execute(&mut out, 1, true, std::iter::empty()).unwrap();
        assert_eq!(&out[4..], b"\x17\x01\0\0\0\x00\x01\0\0\0");
    }

    #[test]
    fn a_bigint_has_eight_bytes_of_its_own_type() {
        let mut out = Vec::new();
        execute(&mut out, 5, true, [Param::BigInt(1 << 32)].into_iter()).unwrap();
        assert_eq!(
            &out[4..],
            b"\x17\x05\0\0\0\x00\x01\0\0\0\x00\x01\x08\0\0\0\0\0\x01\0\0\0"
        );
    }

    #[test]
    fn queries_and_closings_are_framed() {
        let mut out = Vec::new();
        query(&mut out, b"SELECT 1").unwrap();
        close(&mut out, 9).unwrap();
        quit(&mut out).unwrap();
        assert_eq!(
            out,
            b"\x09\0\0\0\x03SELECT 1\x05\0\0\0\x19\x09\0\0\0\x01\0\0\0\x01"
        );
    }
}
