//! Compressed events, read inside: MySQL's transaction payloads (zstd), MariaDB's statements and rows (zlib).
//!
//! A few bytes can stand for very many. An event takes [`LARGEST_EVENT`] at most, and a payload of more than
//! [`LARGEST_PAYLOAD`] is refused: it is not read, and not called damaged.
//!
//! Formats: MySQL, `libs/mysql/binlog/event/codecs/binary.cpp`; MariaDB, `sql/log_event.cc`
//! (`binlog_buf_compress`).

use std::borrow::Cow;
use std::io::Read;

use crate::bytes::{fill, Malformed, Reader};
use crate::event::{EventType, Header, HEADER_SIZE};
use crate::rows::Rows;

/// Largest event that is taken from compressed bytes.
pub const LARGEST_EVENT: u64 = 64 << 20;

/// Largest payload that is read, which is the largest `max_binlog_cache_size` that MySQL's manual recommends.
pub const LARGEST_PAYLOAD: u64 = 4 << 30;

/// Largest window of zstd as a power of two: its level 22 uses as much.
pub(crate) const LARGEST_WINDOW_LOG: u32 = 27;

/// The content of a TRANSACTION_PAYLOAD event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload<'a> {
    is_compressed: bool,
    uncompressed_size: u64,
    content: &'a [u8],
}

impl<'a> Payload<'a> {
    /// Reads the body of a TRANSACTION_PAYLOAD event (without header and checksum).
    ///
    /// # Errors
    /// The rule that the bytes break, or a payload that is not read here.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        const END: u64 = 0;
        const SIZE: u64 = 1;
        const COMPRESSION: u64 = 2;
        const UNCOMPRESSED_SIZE: u64 = 3;
        let (mut size, mut compression, mut uncompressed_size) = (None, None, None);
        let mut reader = Reader::new(body);
        loop {
            let field = reader.lenenc("a field of the payload")?;
            if field == END {
                break;
            }
            let length = reader.lenenc("the size of a field of the payload")? as usize;
            let mut value = Reader::new(reader.bytes(length, "a field of the payload")?);
            let known = match field {
                SIZE => &mut size,
                COMPRESSION => &mut compression,
                UNCOMPRESSED_SIZE => &mut uncompressed_size,
                _ => continue,
            };
            *known = Some(value.lenenc("a field of the payload")?);
        }
        let content = reader.rest();
        let missing = |what| Malformed::new(format!("the payload does not tell its {what}"));
        let size = size.ok_or_else(|| missing("size"))?;
        if size != content.len() as u64 {
            let left = content.len();
            return Err(Malformed::new(format!(
                "the payload has {left} bytes, but says {size}"
            )));
        }
        let is_compressed = match compression.ok_or_else(|| missing("compression"))? {
            0 => true,
            255 => false,
            other => {
                let message = format!("the payload has the compression {other}, which is unknown");
                return Err(Malformed::unknown(message));
            }
        };
        let uncompressed_size = match is_compressed {
            true => uncompressed_size.ok_or_else(|| missing("uncompressed size"))?,
            false => size,
        };
        if uncompressed_size > LARGEST_PAYLOAD {
            return Err(Malformed::unknown(format!(
                "the payload has {uncompressed_size} bytes uncompressed; at most {LARGEST_PAYLOAD} are read"
            )));
        }
        Ok(Self {
            is_compressed,
            uncompressed_size,
            content,
        })
    }

    /// Calls `each` with header and body of every event inside; they have no checksums.
    ///
    /// # Errors
    /// The rule that the bytes break, or an event that is not read here, or the error of `each`.
    pub fn each_event(
        &self,
        each: impl FnMut(&Header, &[u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if !self.is_compressed {
            return self.events_of(self.content, each);
        }
        let mut decoder = zstd::stream::read::Decoder::with_buffer(self.content).map_err(broken)?;
        decoder.window_log_max(LARGEST_WINDOW_LOG).map_err(broken)?;
        self.events_of(decoder, each)
    }

    fn events_of(
        &self,
        mut source: impl Read,
        mut each: impl FnMut(&Header, &[u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut left = self.uncompressed_size;
        let mut event = Vec::new();
        loop {
            event.clear();
            fill(&mut source, &mut event, HEADER_SIZE).map_err(broken)?;
            if event.is_empty() {
                break;
            }
            let header = Header::parse(&event)?;
            let size = u64::from(header.size);
            if size < HEADER_SIZE as u64 || size > left {
                let message = format!("an event of {size} bytes where the payload has {left} left");
                return Err(Malformed::new(message));
            }
            within_largest_event(size)?;
            fill(&mut source, &mut event, size as usize).map_err(broken)?;
            if (event.len() as u64) < size {
                return Err(Malformed::new("the payload ends inside an event"));
            }
            left -= size;
            each(&header, &event[HEADER_SIZE..])?;
        }
        match left {
            0 => Ok(()),
            _ => Err(Malformed::new(format!(
                "the payload ends {left} bytes before its uncompressed size"
            ))),
        }
    }
}

fn broken(error: std::io::Error) -> Malformed {
    Malformed::new(format!("the payload cannot be decompressed: {error}"))
}

fn within_largest_event(size: u64) -> Result<(), Malformed> {
    match size > LARGEST_EVENT {
        true => Err(Malformed::unknown(format!(
            "an event has {size} bytes uncompressed; at most {LARGEST_EVENT} are read"
        ))),
        false => Ok(()),
    }
}

/// A row event's type and body as they were before MariaDB compressed the rows; other events as they are.
///
/// # Errors
/// The rule that the bytes break, or rows that are not read here.
pub fn uncompressed_rows(
    event_type: EventType,
    body: &[u8],
) -> Result<(EventType, Cow<'_, [u8]>), Malformed> {
    if !Rows::is_compressed(event_type) {
        return Ok((event_type, Cow::Borrowed(body)));
    }
    let first_v2 = EventType::WRITE_ROWS_COMPRESSED;
    let plain = match event_type >= first_v2 {
        true => EventType(event_type.0 - first_v2.0 + EventType::WRITE_ROWS.0),
        false => EventType(event_type.0 - EventType::WRITE_ROWS_COMPRESSED_V1.0 + EventType::WRITE_ROWS_V1.0),
    };
    let rows = Rows::parse(plain, body)?;
    let head = &body[..body.len() - rows.rest().len()];
    let mut whole = head.to_vec();
    inflate(rows.rest(), &mut whole)?;
    Ok((plain, Cow::Owned(whole)))
}

/// Appends the bytes that MariaDB compressed: a byte of algorithm and width, the size, zlib's stream.
pub(crate) fn inflate(compressed: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut reader = Reader::new(compressed);
    let kind = reader.u8("the kind of compression")?;
    let width = usize::from(kind & 0x07);
    if kind & 0x80 == 0 || !(1..=4).contains(&width) {
        return Err(Malformed::new(format!("{kind:#04x} is no kind of compression")));
    }
    if kind & 0x78 != 0 {
        return Err(Malformed::unknown(format!(
            "the kind of compression {kind:#04x} is unknown"
        )));
    }
    let size = reader.uint_be(width, "the uncompressed size")?;
    within_largest_event(size)?;
    let before = out.len();
    let mut decoder = flate2::bufread::ZlibDecoder::new(reader.rest());
    // A byte more than there should be shows that there are more.
    let read = decoder.by_ref().take(size + 1).read_to_end(out);
    read.map_err(|error| Malformed::new(format!("the rest cannot be decompressed: {error}")))?;
    let given = (out.len() - before) as u64;
    if given != size {
        let more = if given > size { "more than " } else { "" };
        let least = given.min(size);
        return Err(Malformed::new(format!(
            "{more}{least} bytes uncompressed where {size} were given"
        )));
    }
    match decoder.into_inner().len() {
        0 => Ok(()),
        left => Err(Malformed::new(format!(
            "{left} extra bytes after compressed ones"
        ))),
    }
}
