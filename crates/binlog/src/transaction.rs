//! Bodies of the events that frame transactions, read.

use std::borrow::Cow;
use std::fmt;

use crate::bytes::{Malformed, Reader};
use crate::event::EventType;
use crate::format::{is_supported, leaves_inner_positions, Flavor, Uuid, Version};
use crate::gtid::Tag;
use crate::payload::inflate;

/// What a file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) flavor: Flavor,
    pub(crate) version_text: String,
    pub(crate) checksums: bool,
    /// This event carries one, as in all servers that know checksums, even where others do not.
    pub(crate) has_own_checksum: bool,
    /// Events inside transactions have no log_pos.
    pub(crate) leaves_log_pos: bool,
    /// Every transaction begins with an event of its own.
    pub(crate) has_gtids: bool,
    /// All that the version writes is known here.
    pub(crate) is_supported: bool,
}

/// Bytes of FORMAT_DESCRIPTION before the lengths of the post-headers.
const BEFORE_LENGTHS: usize = 57;

impl Description {
    /// Reads the body of FORMAT_DESCRIPTION with all that is behind it: servers that know checksums
    /// (MySQL 5.6, MariaDB 5.3 and later) append the algorithm and always a CRC-32, older ones nothing.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let format = reader.uint(2, "the format's number")?;
        if format != 4 {
            return Err(Malformed::unknown(format!(
                "the file has binlog format {format}, not 4"
            )));
        }
        let text = reader.bytes(50, "the server's version")?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let version_text = String::from_utf8_lossy(&text[..end]).into_owned();
        let version = Version::parse(&version_text);
        if version.is_some_and(|version| (Version(5, 1, 0)..Version(5, 1, 23)).contains(&version)) {
            // Their TABLE_MAPs have no metadata, and events inside a transaction have another log_pos.
            return Err(Malformed::unknown(format!(
                "events of the pre-release {version_text} have another form"
            )));
        }
        if version_text.contains("-a_drop") {
            // Servers know these versions and translate the numbers; nobody else has such files.
            return Err(Malformed::unknown(format!(
                "events of the pre-release {version_text} have other numbers"
            )));
        }
        reader.uint(4, "the time")?;
        let header_size = reader.u8("the header's size")?;
        if header_size != 19 {
            let message = format!("headers have {header_size} bytes, not 19");
            // Format 4 allows longer ones, which only a fork of 5.1 writes.
            return Err(match header_size < 19 {
                true => Malformed::new(message),
                false => Malformed::unknown(message),
            });
        }
        let (lengths, algorithm) = Self::lengths(reader.rest())?;
        let flavor = match version_text.contains("MariaDB") || lengths.len() > 160 {
            true => Flavor::Mariadb,
            false => Flavor::Mysql,
        };
        let since = |first: Version| version.is_none_or(|version| version >= first);
        let length_of = |event_type: EventType| lengths.get(usize::from(event_type.0) - 1);
        let has_gtids = match flavor {
            Flavor::Mysql => length_of(EventType::ANONYMOUS_GTID) == Some(&42) && since(Version(5, 7, 6)),
            Flavor::Mariadb => length_of(EventType::MARIADB_GTID).is_some(),
        };
        Ok(Self {
            flavor,
            version_text,
            checksums: algorithm == Some(1),
            has_own_checksum: algorithm.is_some(),
            leaves_log_pos: version.is_some_and(|version| leaves_inner_positions(flavor, version)),
            has_gtids,
            is_supported: version.is_some_and(|version| is_supported(flavor, version)),
        })
    }

    /// The lengths of the post-headers, and the checksums' algorithm. The event's own length, which
    /// stands among them, tells how many there are.
    fn lengths(rest: &[u8]) -> Result<(&[u8], Option<u8>), Malformed> {
        let own = rest.get(usize::from(EventType::FORMAT_DESCRIPTION.0) - 1);
        let count = own.and_then(|own| usize::from(*own).checked_sub(BEFORE_LENGTHS));
        let split = count
            .filter(|count| *count >= 15)
            .and_then(|count| rest.split_at_checked(count));
        match split {
            Some((lengths, [])) => Ok((lengths, None)),
            Some((lengths, [algorithm @ 0..=1, _, _, _, _])) => Ok((lengths, Some(*algorithm))),
            Some((_, [algorithm, _, _, _, _])) => Err(Malformed::unknown(format!(
                "the checksum algorithm {algorithm} is unknown"
            ))),
            _ => Err(Malformed::new(format!(
                "it has {} bytes, its own length is given as {own:?}",
                BEFORE_LENGTHS + rest.len()
            ))),
        }
    }
}

/// GTID, ANONYMOUS_GTID and GTID_TAGGED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MysqlGtid {
    pub(crate) uuid: Uuid,
    pub(crate) tag: Tag,
    pub(crate) number: u64,
    pub(crate) last_committed: u64,
    pub(crate) sequence_number: u64,
    /// Told since 8.0.2.
    pub(crate) transaction_length: Option<u64>,
}

impl MysqlGtid {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        reader.u8("the flags")?;
        let mut uuid = Uuid([0; 16]);
        uuid.0.copy_from_slice(reader.bytes(16, "the UUID")?);
        let number = reader.uint(8, "the number")?;
        if reader.is_empty() {
            // MySQL 5.6 ends here.
            return Ok(Self {
                uuid,
                tag: Tag::default(),
                number,
                last_committed: 0,
                sequence_number: 0,
                transaction_length: None,
            });
        }
        let clock = reader.u8("the logical clock's type")?;
        if clock != 2 {
            return Err(Malformed::new(format!(
                "the logical clock has the type {clock}, not 2"
            )));
        }
        let last_committed = reader.uint(8, "last_committed")?;
        let sequence_number = reader.uint(8, "sequence_number")?;
        let transaction_length = Self::parse_times(&mut reader)?;
        Ok(Self {
            uuid,
            tag: Tag::default(),
            number,
            last_committed,
            sequence_number,
            transaction_length,
        })
    }

    /// Reads the body of GTID_TAGGED, a message of MySQL's serialization library: its version and size, then
    /// fields, each behind its number.
    pub(crate) fn parse_tagged(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let version = reader.varlen("the message's version")?;
        if version != 1 {
            return Err(Malformed::unknown(format!(
                "a message has the version {version}, not 1"
            )));
        }
        let size = reader.varlen("the message's size")?;
        if size != body.len() as u64 {
            let left = body.len();
            return Err(Malformed::new(format!(
                "a message has {left} bytes, but says {size}"
            )));
        }
        reader.varlen("the last field that must be known")?;
        let mut gtid = Self {
            uuid: Uuid([0; 16]),
            tag: Tag::default(),
            number: 0,
            last_committed: 0,
            sequence_number: 0,
            transaction_length: None,
        };
        let mut next = 0;
        while !reader.is_empty() {
            let field = reader.varlen("a field's number")?;
            if field < next {
                return Err(Malformed::new(format!(
                    "the field {field} of a message is out of order"
                )));
            }
            next = field + 1;
            gtid.read_field(field, &mut reader)?;
        }
        Ok(gtid)
    }

    /// Fields in the order of `Gtid_event::define_fields` (MySQL, `libs/mysql/binlog/event/control_events.h`).
    fn read_field(&mut self, field: u64, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let mut count = |what: &str| {
            let value = reader.signed_varlen(what)?;
            u64::try_from(value).map_err(|_| Malformed::new(format!("{what} is {value}")))
        };
        match field {
            1 => {
                for byte in &mut self.uuid.0 {
                    let value = reader.varlen("a byte of the UUID")?;
                    *byte =
                        u8::try_from(value).map_err(|_| Malformed::new("a byte of the UUID is above 255"))?;
                }
            }
            2 => self.number = count("the number")?,
            3 => self.tag = Tag::read(reader)?,
            4 => self.last_committed = count("last_committed")?,
            5 => self.sequence_number = count("sequence_number")?,
            8 => self.transaction_length = Some(reader.varlen("transaction_length")?),
            // Flags, commit timestamps, the servers' versions, the commit group's ticket.
            0 | 6 | 7 | 9..=11 => {
                reader.varlen("a field")?;
            }
            _ => {
                return Err(Malformed::unknown(format!(
                    "the field {field} of a message is unknown"
                )))
            }
        }
        Ok(())
    }

    /// What 8.0 added: commit timestamps, the length, then the server's version.
    fn parse_times(reader: &mut Reader<'_>) -> Result<Option<u64>, Malformed> {
        if reader.is_empty() {
            return Ok(None);
        }
        if reader.uint(7, "the commit timestamp")? >> 55 == 1 {
            reader.uint(7, "the original commit timestamp")?;
        }
        let length = reader.lenenc("transaction_length")?;
        if !reader.is_empty() && reader.u32("the server's version")? >> 31 == 1 {
            reader.u32("the original server's version")?;
        }
        match reader.rest().len() {
            // Nothing, or the commit group's ticket.
            0 | 8 => Ok(Some(length)),
            left => Err(Malformed::new(format!(
                "{left} extra bytes after a GTID event's fields"
            ))),
        }
    }
}

impl fmt::Display for MysqlGtid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag.is_empty() {
            true => write!(formatter, "{}:{}", self.uuid, self.number),
            false => write!(formatter, "{}:{}:{}", self.uuid, self.tag, self.number),
        }
    }
}

/// MariaDB's GTID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MariadbGtid {
    pub(crate) domain: u32,
    pub(crate) number: u64,
    /// One event follows, and no COMMIT.
    pub(crate) standalone: bool,
}

impl MariadbGtid {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        const STANDALONE: u8 = 1;
        const GROUP_COMMIT_ID: u8 = 2;
        let mut reader = Reader::new(body);
        let number = reader.uint(8, "the number")?;
        let domain = reader.u32("the domain")?;
        let flags = reader.u8("the flags")?;
        reader.bytes(if flags & GROUP_COMMIT_ID == 0 { 6 } else { 8 }, "the commit id")?;
        Ok(Self {
            domain,
            number,
            standalone: flags & STANDALONE != 0,
        })
    }
}

/// What a QUERY means for its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Begins,
    Ends,
    Neither,
}

/// QUERY and QUERY_COMPRESSED: their text.
#[derive(Debug, Clone)]
pub(crate) struct Query<'a> {
    /// The default database.
    pub(crate) schema: &'a [u8],
    text: Cow<'a, [u8]>,
}

impl<'a> Query<'a> {
    pub(crate) fn parse(event_type: EventType, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        reader.bytes(8, "the thread and the time")?;
        let schema = usize::from(reader.u8("the schema's length")?);
        reader.uint(2, "the error")?;
        let variables = reader.uint(2, "the variables' size")? as usize;
        reader.bytes(variables, "the variables")?;
        let schema = reader.bytes(schema, "the schema")?;
        if reader.u8("the end of the schema")? != 0 {
            return Err(Malformed::new("QUERY's schema does not end in a zero byte"));
        }
        let mut text = Cow::Borrowed(reader.rest());
        if event_type == EventType::QUERY_COMPRESSED {
            let mut whole = Vec::new();
            inflate(&text, &mut whole)?;
            text = Cow::Owned(whole);
        }
        Ok(Self { schema, text })
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(crate) fn end(&self) -> End {
        let starts = |word: &[u8]| {
            let start = self.text.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        if self.text.eq_ignore_ascii_case(b"BEGIN") || starts(b"XA START") {
            End::Begins
        } else if self.text.eq_ignore_ascii_case(b"COMMIT")
            || self.text.eq_ignore_ascii_case(b"ROLLBACK")
            || starts(b"XA COMMIT")
            || starts(b"XA ROLLBACK")
        {
            End::Ends
        } else {
            End::Neither
        }
    }
}
