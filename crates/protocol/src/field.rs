//! Integers and strings inside a payload.

use crate::Error;

/// Reads fields from a payload, front to back; every shortfall is a protocol error.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

fn short() -> Error {
    Error::protocol("a packet ends inside a field")
}

impl<'a> Reader<'a> {
    /// A reader at the start of `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little endian.
    pub fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little endian.
    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A length-encoded integer.
    pub fn lenenc(&mut self) -> Result<u64, Error> {
        Ok(match self.u8()? {
            byte @ 0..=0xFA => u64::from(byte),
            0xFC => u64::from(self.u16()?),
            0xFD => {
                let [a, b, c] = self.array()?;
                u64::from(u32::from_le_bytes([a, b, c, 0]))
            }
            0xFE => u64::from_le_bytes(self.array()?),
            0xFB => return Err(Error::protocol("a NULL stands where an integer must be")),
            0xFF => return Err(Error::protocol("0xFF stands where an integer must be")),
        })
    }

    /// A length-encoded string.
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = self.lenenc()?;
        self.bytes(usize::try_from(length).map_err(|_| short())?)
    }

    /// A column of a text row: a length-encoded string, or `None` for NULL.
    pub fn column(&mut self) -> Result<Option<&'a [u8]>, Error> {
        if let [0xFB, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(None);
        }
        self.lenenc_bytes().map(Some)
    }

    /// Bytes up to a NUL, which is consumed.
    pub fn null_terminated(&mut self) -> Result<&'a [u8], Error> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or_else(short)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

/// Appends a length-encoded integer.
#[inline]
pub fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=0xFA => out.push(bytes[0]),
        0xFB..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a length-encoded string.
#[inline]
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lenenc_integers_have_the_manuals_bytes() {
        for (value, bytes) in [
            (0xFA, &b"\xfa"[..]),
            (0xFB, b"\xfc\xfb\x00"),
            (0xFFFF, b"\xfc\xff\xff"),
            (0x1_0000, b"\xfd\x00\x00\x01"),
            (0x100_0000, b"\xfe\x00\x00\x00\x01\x00\x00\x00\x00"),
        ] {
            let mut out = Vec::new();
            put_lenenc(&mut out, value);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_string_longer_than_its_packet_is_a_protocol_error() {
        let announced = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7fabc";
        assert!(Reader::new(announced).lenenc_bytes().is_err());
    }

    proptest! {
        #[test]
        fn lenenc_round_trips(value: u64) {
            let mut out = Vec::new();
            put_lenenc(&mut out, value);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.lenenc(), Ok(value));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn strings_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..70_000)) {
            let mut out = Vec::new();
            put_lenenc_bytes(&mut out, &bytes);
            prop_assert_eq!(Reader::new(&out).column(), Ok(Some(&bytes[..])));
        }
    }
}
