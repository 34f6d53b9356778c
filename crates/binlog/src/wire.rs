//! Bytes: a bounded reader that never panics, and what is appended to a buffer.

use std::fmt;

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
    fn reader_names_what_it_misses() {
        let mut reader = Reader::new(&[1, 2]);
        let missed = reader.uint(4, "the server id").map_err(|error| error.to_string());
        assert_eq!(missed, Err("the server id needs 4 bytes, 2 are left".to_owned()));
    }
}
