//! What a check comes to: rules, problems, the torn tail, a file's report.

use std::collections::BTreeMap;
use std::fmt;

use crate::format::Flavor;

/// Which rule of the format a problem breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Rule {
    /// The file begins with the magic number and a FORMAT_DESCRIPTION.
    Format,
    /// Every event lies inside the file and has the size that its content needs.
    Size,
    /// Every event says where it ends.
    LogPos,
    /// Every event's checksum is that of its bytes.
    Checksum,
    /// Events come in the order that makes transactions.
    Structure,
    /// A transaction is as long as its GTID event says.
    TransactionLength,
    /// Every GTID is one, and no other transaction of the log has it.
    Gtid,
    /// Sequence numbers follow each other.
    SequenceNumber,
    /// A transaction waits for an earlier one only.
    LastCommitted,
    /// Every TABLE_MAP describes a table.
    TableMap,
    /// Every row is one of its table.
    Rows,
    /// Every event's body is one of its type.
    Body,
    /// The file goes on where the one before it ended.
    Series,
}

impl Rule {
    /// Its name in reports: `log-pos`.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Size => "size",
            Self::LogPos => "log-pos",
            Self::Checksum => "checksum",
            Self::Structure => "structure",
            Self::TransactionLength => "transaction-length",
            Self::Gtid => "gtid",
            Self::SequenceNumber => "sequence-number",
            Self::LastCommitted => "last-committed",
            Self::TableMap => "table-map",
            Self::Rows => "rows",
            Self::Body => "body",
            Self::Series => "series",
        }
    }

    /// Whether it holds in every version: it is about the frame of events, not about their content.
    pub(super) fn is_of_frame(self) -> bool {
        matches!(self, Self::Format | Self::Size | Self::LogPos | Self::Checksum)
    }
}

/// A rule that a file breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Problem {
    /// Where the event begins.
    pub offset: u64,
    /// Which rule.
    pub rule: Rule,
    /// What is wrong, in words.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "at {}: {} ({})",
            self.offset,
            self.message,
            self.rule.slug()
        )
    }
}

/// Why a check saw less than all of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum LimitKind {
    /// The server's version is not supported: what is not known of its events is not checked.
    Version,
    /// Events carry no checksums: a change inside a value is not seen.
    Checksums,
    /// The logical clock does not begin at 1: what was before it is not known.
    LogicalClock,
    /// A compressed event is larger than those that are read, or compressed in an unknown way.
    Compression,
    /// A relay log: sizes, checksums, statements and tables are checked, not transactions.
    RelayLog,
    /// All from here is encrypted.
    Encrypted,
    /// The format is not known from here.
    Format,
    /// A file that is not in use ends without ROTATE and STOP: transactions behind its end may be missing.
    End,
}

impl LimitKind {
    /// Whether nothing behind it was checked, so that the file is not proven to be whole.
    pub(super) fn ends_the_check(self) -> bool {
        matches!(self, Self::Encrypted | Self::Format)
    }
}

/// A limit of the check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Limit {
    /// The event that brings it.
    pub offset: u64,
    /// Which limit.
    pub kind: LimitKind,
    /// The reason, in words.
    pub message: String,
}

/// A whole transaction of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where its first event begins.
    pub start: u64,
    /// Where its last event ends.
    pub end: u64,
    /// The number of its GTID; 0 for none, or one that was not read.
    pub gtid_number: u64,
    /// The number of its XID event; 0 if it ends otherwise.
    pub xid: u64,
}

/// How a torn tail looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum TailKind {
    /// The file ends inside an event.
    Event,
    /// The file ends between two events of a transaction.
    Transaction,
    /// Nothing but zero bytes: space that was allocated and not written.
    Zeros,
}

/// A file's end that makes no whole transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Tail {
    /// Where it begins: all before it is whole.
    pub offset: u64,
    /// How it looks.
    pub kind: TailKind,
    /// Bytes from there to the end of the file.
    pub bytes: u64,
}

/// Rows that were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RowCounts {
    /// Inserted.
    pub written: u64,
    /// Updated: pairs of before and after.
    pub updated: u64,
    /// Deleted.
    pub deleted: u64,
}

/// What a check comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Verdict {
    /// Every rule holds to the last byte, as far as the limits allow.
    Whole,
    /// Every rule holds up to a tail that is not whole, in a file that was in use: what a crash leaves.
    Torn,
    /// Whole or torn, but it does not go on where the file before it ended.
    Misplaced,
    /// A tail that is not whole in a file that was not in use: its end is lost, or it is a copy of a part.
    Cut,
    /// The format is not known well enough to tell, or the file ends before it is known.
    Unknown,
    /// Bytes break a rule of a known format.
    Damaged,
}

/// What a file is packed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Packing {
    /// RFC 1952, one member or several.
    Gzip,
    /// RFC 8878, one frame or several.
    Zstd,
}

impl Packing {
    /// By a file's first four bytes.
    pub(super) fn of(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// What is known of a file after its check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FileReport {
    /// The file, as the caller names it.
    pub name: String,
    /// What it comes to.
    pub verdict: Verdict,
    /// What it is packed with; all that follows is about the binlog inside.
    pub packing: Option<Packing>,
    /// Whose file it is.
    pub flavor: Option<Flavor>,
    /// The server's version text.
    pub server_version: String,
    /// Whether events carry a CRC-32.
    pub checksums: bool,
    /// Whether it is marked as open: it is being written, or its writer died.
    pub in_use: bool,
    /// Bytes that were read.
    pub bytes: u64,
    /// Where the last whole transaction before any damage ends; of a relay log, the last whole event.
    pub whole_until: u64,
    /// Events.
    pub events: u64,
    /// Events by their type's name.
    pub event_types: BTreeMap<String, u64>,
    /// Transactions that are whole, before and behind damage.
    pub transactions: u64,
    /// Rows in them.
    pub rows: RowCounts,
    /// Events whose content was not read: too large, or of a type or with a column that is not known.
    pub opaque_events: u64,
    /// GTIDs of the files before, as the file says.
    pub previous_gtids: String,
    /// GTIDs up to `whole_until`.
    pub gtids: String,
    /// The file that it says comes next.
    pub next: Option<String>,
    /// The torn tail, if there is one.
    pub tail: Option<Tail>,
    /// Why the check saw less than all of it.
    pub limits: Vec<Limit>,
    /// Rules that it breaks, the first [`KEPT_PROBLEMS`](super::KEPT_PROBLEMS) of them.
    pub problems: Vec<Problem>,
    /// How many there are.
    pub problem_count: u64,
}
