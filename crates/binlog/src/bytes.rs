//! Bytes: a bounded reader that never panics, and what is appended to a buffer.

use std::fmt;
use std::io::{self, Read};

/// What is wrong with bytes that were read: a rule that they break, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    what: String,
    /// It may be right, but is not known here.
    unknown: bool,
}

impl Malformed {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            unknown: false,
        }
    }

    pub(crate) fn unknown(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            unknown: true,
        }
    }

    /// The same, with the part that it is about in front.
    pub(crate) fn within(self, part: &str) -> Self {
        Self {
            what: format!("{part}: {}", self.what),
            ..self
        }
    }

    /// Whether the bytes are of a kind that this crate does not know, so that they may be right.
    pub fn is_unknown(&self) -> bool {
        self.unknown
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

impl std::error::Error for Malformed {}

/// Reads from the front of a slice; every method says what it missed instead of panicking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize, what: &str) -> Result<&'a [u8], Malformed> {
        if count > self.rest.len() {
            return Err(Malformed::new(format!(
                "{what} needs {count} bytes, {} are left",
                self.rest.len()
            )));
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    /// A little-endian number of up to eight bytes.
    pub(crate) fn uint(&mut self, bytes: usize, what: &str) -> Result<u64, Malformed> {
        Ok(little(self.bytes(bytes, what)?))
    }

    /// A big-endian number of up to eight bytes.
    pub(crate) fn uint_be(&mut self, bytes: usize, what: &str) -> Result<u64, Malformed> {
        let taken = self.bytes(bytes, what)?;
        Ok(taken.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, Malformed> {
        Ok(self.bytes(1, what)?[0])
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, Malformed> {
        Ok(self.uint(4, what)? as u32)
    }

    /// A length-encoded number: 1, 3, 4 or 9 bytes.
    pub(crate) fn lenenc(&mut self, what: &str) -> Result<u64, Malformed> {
        match self.u8(what)? {
            value @ 0..=250 => Ok(u64::from(value)),
            0xfc => self.uint(2, what),
            0xfd => self.uint(3, what),
            0xfe => self.uint(8, what),
            _ => Err(Malformed::new(format!("{what} is no length-encoded number"))),
        }
    }

    /// A number of MySQL's serialization library: as many ones at the low end of its first byte as bytes
    /// follow, then a zero, then the number, little-endian.
    pub(crate) fn varlen(&mut self, what: &str) -> Result<u64, Malformed> {
        let Some(first) = self.rest.first() else {
            return Err(Malformed::new(format!("{what} needs 1 bytes, 0 are left")));
        };
        match first.trailing_ones() as usize {
            8 => {
                self.u8(what)?;
                self.uint(8, what)
            }
            more => Ok(self.uint(more + 1, what)? >> (more + 1)),
        }
    }

    /// The same of a number that may be below zero: its sign is the lowest bit.
    pub(crate) fn signed_varlen(&mut self, what: &str) -> Result<i64, Malformed> {
        let value = self.varlen(what)?;
        let magnitude = (value >> 1) as i64;
        Ok(if value & 1 == 1 { -magnitude - 1 } else { magnitude })
    }

    /// A string behind its length in one byte, with a zero byte behind it.
    pub(crate) fn short_name(&mut self, what: &str) -> Result<&'a [u8], Malformed> {
        let length = self.u8(what)?;
        let name = self.bytes(usize::from(length), what)?;
        match self.u8(what)? {
            0 => Ok(name),
            _ => Err(Malformed::new(format!("{what} does not end in a zero byte"))),
        }
    }
}

pub(crate) fn little(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Bytes that a length-encoded number takes.
pub(crate) fn lenenc_size(value: u64) -> usize {
    match value {
        0..=250 => 1,
        251..=0xffff => 3,
        0x1_0000..=0xff_ffff => 4,
        _ => 9,
    }
}

/// Appends numbers and names to a buffer.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// The `bytes` low bytes of `value`, little-endian.
    fn put_uint(&mut self, value: u64, bytes: usize) {
        self.put(&value.to_le_bytes()[..bytes]);
    }

    /// The `bytes` low bytes of `value`, big-endian.
    fn put_uint_be(&mut self, value: u64, bytes: usize) {
        self.put(&value.to_be_bytes()[8 - bytes..]);
    }

    fn put_lenenc(&mut self, value: u64) {
        match lenenc_size(value) {
            1 => self.put_u8(value as u8),
            3 => {
                self.put_u8(0xfc);
                self.put_uint(value, 2);
            }
            4 => {
                self.put_u8(0xfd);
                self.put_uint(value, 3);
            }
            _ => {
                self.put_u8(0xfe);
                self.put_u64(value);
            }
        }
    }
}

/// Appends a number as [`Reader::varlen`] reads it.
pub(crate) fn put_varlen(out: &mut Vec<u8>, value: u64) {
    let bits = 64 - value.leading_zeros() as usize;
    match bits.div_ceil(7).max(1) {
        bytes @ 1..=8 => out.put_uint(value << bytes | ((1 << (bytes - 1)) - 1), bytes),
        _ => {
            out.put_u8(0xff);
            out.put_u64(value);
        }
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Fills a slice from the front. Its user has sized the slice: too small a one is a bug here.
pub(crate) struct Fill<'a> {
    out: &'a mut [u8],
    used: usize,
}

impl<'a> Fill<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, used: 0 }
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

impl Put for Fill<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        self.out[self.used..end].copy_from_slice(bytes);
        self.used = end;
    }
}

/// Reads until `buffer` has `size` bytes or the file ends; takes memory only for bytes that come.
pub(crate) fn fill(file: &mut impl Read, buffer: &mut Vec<u8>, size: usize) -> io::Result<()> {
    let missing = size.saturating_sub(buffer.len()) as u64;
    file.by_ref().take(missing).read_to_end(buffer).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_numbers_come_back_at_every_step() {
        for value in [
            0,
            250,
            251,
            255,
            0xffff,
            0x1_0000,
            0xff_ffff,
            0x100_0000,
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            bytes.put_lenenc(value);
            assert_eq!(bytes.len(), lenenc_size(value), "{value}");
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.lenenc("it"), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn serialized_numbers_come_back_at_every_step() {
        let steps = (0..64).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits]);
        for value in steps.chain([u64::MAX]) {
            let mut bytes = Vec::new();
            put_varlen(&mut bytes, value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.varlen("it"), Ok(value), "{bytes:02x?}");
            assert!(reader.is_empty());
        }
        // Two examples of MySQL's documentation: 65535 in three bytes, -1 as a sign without a magnitude.
        assert_eq!(Reader::new(&[0xfb, 0xff, 0x07]).varlen("it"), Ok(65535));
        assert_eq!(Reader::new(&[0x02]).signed_varlen("it"), Ok(-1));
        assert_eq!(
            Reader::new(&[0xff])
                .varlen("it")
                .map_err(|error| error.to_string()),
            Err("it needs 8 bytes, 0 are left".to_owned())
        );
    }

    #[test]
    fn reader_names_what_it_misses() {
        let mut reader = Reader::new(&[1, 2]);
        let missed = reader.uint(4, "the server id").map_err(|error| error.to_string());
        assert_eq!(missed, Err("the server id needs 4 bytes, 2 are left".to_owned()));
    }
}
