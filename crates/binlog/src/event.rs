//! Events: their types, their common header and their checksum.

use std::fmt;

use crate::bytes::{Malformed, Put, Reader};

/// What a binlog file begins with.
pub const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];

/// How MySQL's encrypted files begin.
pub(crate) const MAGIC_ENCRYPTED: [u8; 4] = [0xfd, b'b', b'i', b'n'];

/// Bytes of an event's common header.
pub const HEADER_SIZE: usize = 19;

/// Bytes of an event's checksum, where there is one.
pub const CHECKSUM_SIZE: usize = 4;

/// Where a file's IN_USE flag is: bit 0 of the low byte of its first event's flags.
pub const IN_USE_OFFSET: u64 = 4 + 17;

/// The file is open for writing, or was when its writer died (FORMAT_DESCRIPTION).
pub const FLAG_IN_USE: u16 = 0x01;
/// The event was made up for a replica and stands in no file.
pub const FLAG_ARTIFICIAL: u16 = 0x20;
/// The event was written by a replica into its relay log.
pub const FLAG_RELAY_LOG: u16 = 0x40;
/// The event is of the server's own logs: replicas skip what they do not know.
pub const FLAG_IGNORABLE: u16 = 0x80;
/// A QUERY that needs no default database.
pub const FLAG_SUPPRESS_USE: u16 = 0x08;

/// A code that stands in the header's type byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(pub u8);

macro_rules! event_types {
    ($($(#[$doc:meta])* $name:ident = $code:literal),+ $(,)?) => {
        impl EventType {
            $($(#[$doc])* pub const $name: Self = Self($code);)+

            /// Its name in the servers' sources, or `None` for a code that is not known here.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)+
                    _ => None,
                }
            }
        }
    };
}

event_types! {
    /// The first event of formats 1 and 3 (MySQL before 5.0).
    START_V3 = 1,
    /// A statement, `BEGIN` or `COMMIT`.
    QUERY = 2,
    /// The server stopped in good order.
    STOP = 3,
    /// The log goes on in another file.
    ROTATE = 4,
    /// An integer that a statement uses.
    INTVAR = 5,
    /// LOAD DATA (MySQL 3.23).
    LOAD = 6,
    /// A replica's state (MySQL 4.0).
    SLAVE = 7,
    /// A file that LOAD DATA reads begins (MySQL before 5.0.3).
    CREATE_FILE = 8,
    /// More of a file that LOAD DATA reads.
    APPEND_BLOCK = 9,
    /// LOAD DATA itself (MySQL before 5.0.3).
    EXEC_LOAD = 10,
    /// A file that LOAD DATA does not need any more.
    DELETE_FILE = 11,
    /// LOAD DATA with longer separators (MySQL before 5.0.3).
    NEW_LOAD = 12,
    /// The seeds of RAND() in a statement.
    RAND = 13,
    /// A user variable that a statement uses.
    USER_VAR = 14,
    /// What the file's events look like; always the first.
    FORMAT_DESCRIPTION = 15,
    /// The end of a transaction in transactional engines.
    XID = 16,
    /// A file that LOAD DATA reads begins.
    BEGIN_LOAD_QUERY = 17,
    /// LOAD DATA itself.
    EXECUTE_LOAD_QUERY = 18,
    /// The table that the row events behind it refer to.
    TABLE_MAP = 19,
    /// Inserted rows, version 1.
    WRITE_ROWS_V1 = 23,
    /// Updated rows, version 1.
    UPDATE_ROWS_V1 = 24,
    /// Deleted rows, version 1.
    DELETE_ROWS_V1 = 25,
    /// Something happened that replicas must stop at.
    INCIDENT = 26,
    /// Nothing was written for a while; not in files.
    HEARTBEAT = 27,
    /// Something that may be skipped.
    IGNORABLE = 28,
    /// The statement that caused the row events.
    ROWS_QUERY = 29,
    /// Inserted rows, version 2.
    WRITE_ROWS = 30,
    /// Updated rows, version 2.
    UPDATE_ROWS = 31,
    /// Deleted rows, version 2.
    DELETE_ROWS = 32,
    /// The beginning of a transaction with a GTID (MySQL).
    GTID = 33,
    /// The beginning of a transaction without a GTID (MySQL).
    ANONYMOUS_GTID = 34,
    /// All GTIDs of the files before (MySQL).
    PREVIOUS_GTIDS = 35,
    /// A transaction's context for group replication.
    TRANSACTION_CONTEXT = 36,
    /// A change of a group's members.
    VIEW_CHANGE = 37,
    /// A transaction that is prepared by XA.
    XA_PREPARE = 38,
    /// Updated rows with changes inside JSON documents.
    PARTIAL_UPDATE_ROWS = 39,
    /// A whole transaction, compressed.
    TRANSACTION_PAYLOAD = 40,
    /// Nothing was written for a while, version 2; not in files.
    HEARTBEAT_V2 = 41,
    /// The beginning of a transaction whose GTID may have a tag (MySQL 8.3 and later).
    GTID_TAGGED = 42,
    /// Padding, which replicas skip (Amazon Aurora).
    AURORA_PADDING = 100,
    /// All that follows is encrypted (Percona Server).
    PERCONA_START_ENCRYPTION = 159,
    /// The statement that caused the row events (MariaDB).
    ANNOTATE_ROWS = 160,
    /// The oldest file that recovery may need (MariaDB).
    BINLOG_CHECKPOINT = 161,
    /// The beginning of a transaction (MariaDB).
    MARIADB_GTID = 162,
    /// The last GTIDs of the files before (MariaDB).
    GTID_LIST = 163,
    /// All that follows is encrypted (MariaDB).
    START_ENCRYPTION = 164,
    /// A compressed statement (MariaDB).
    QUERY_COMPRESSED = 165,
    /// Inserted rows, version 1, compressed (MariaDB).
    WRITE_ROWS_COMPRESSED_V1 = 166,
    /// Updated rows, version 1, compressed (MariaDB).
    UPDATE_ROWS_COMPRESSED_V1 = 167,
    /// Deleted rows, version 1, compressed (MariaDB).
    DELETE_ROWS_COMPRESSED_V1 = 168,
    /// Inserted rows, version 2, compressed (MariaDB).
    WRITE_ROWS_COMPRESSED = 169,
    /// Updated rows, version 2, compressed (MariaDB).
    UPDATE_ROWS_COMPRESSED = 170,
    /// Deleted rows, version 2, compressed (MariaDB).
    DELETE_ROWS_COMPRESSED = 171,
}

impl EventType {
    /// Whether a compressed transaction may have it: events that frame files and transactions stay outside.
    pub(crate) fn may_be_in_payload(self) -> bool {
        !matches!(
            self,
            Self::START_V3
                | Self::STOP
                | Self::ROTATE
                | Self::FORMAT_DESCRIPTION
                | Self::HEARTBEAT
                | Self::INCIDENT
                | Self::GTID
                | Self::ANONYMOUS_GTID
                | Self::PREVIOUS_GTIDS
                | Self::TRANSACTION_PAYLOAD
                | Self::HEARTBEAT_V2
                | Self::GTID_TAGGED
                | Self::PERCONA_START_ENCRYPTION
        ) && self < Self::ANNOTATE_ROWS
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "type {}", self.0),
        }
    }
}

/// An event's common header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// When the statement began, in seconds since 1970.
    pub timestamp: u32,
    /// What the event is.
    pub event_type: EventType,
    /// The server that first wrote it.
    pub server_id: u32,
    /// Bytes of the whole event: header, body and checksum.
    pub size: u32,
    /// Where the event ends in its file, modulo 2^32; 0 where the server leaves it open.
    pub log_pos: u32,
    /// `FLAG_…` bits.
    pub flags: u16,
}

impl Header {
    pub(crate) fn put(&self, out: &mut impl Put) {
        out.put_u32(self.timestamp);
        out.put_u8(self.event_type.0);
        out.put_u32(self.server_id);
        out.put_u32(self.size);
        out.put_u32(self.log_pos);
        out.put_u16(self.flags);
    }

    /// Reads a header from the front of `bytes`.
    ///
    /// # Errors
    /// There are fewer than [`HEADER_SIZE`] bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        Ok(Self {
            timestamp: reader.u32("the timestamp")?,
            event_type: EventType(reader.u8("the type")?),
            server_id: reader.u32("the server id")?,
            size: reader.u32("the size")?,
            log_pos: reader.u32("log_pos")?,
            flags: reader.uint(2, "the flags")? as u16,
        })
    }
}

/// The checksum of an event's bytes before it: CRC-32 as in zlib.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Appends a whole event that starts at `position` in its file, with a checksum if there is one.
pub(crate) fn put_event(
    out: &mut Vec<u8>,
    position: u64,
    mut header: Header,
    with_checksum: bool,
    body: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    header.put(out);
    body(out);
    let size = out.len() - start + if with_checksum { CHECKSUM_SIZE } else { 0 };
    header.size = size as u32;
    header.log_pos = (position + size as u64) as u32;
    let mut fixed = crate::bytes::Fill::new(&mut out[start..start + HEADER_SIZE]);
    header.put(&mut fixed);
    if with_checksum {
        let crc = checksum(&out[start..]);
        out.put_u32(crc);
    }
}
