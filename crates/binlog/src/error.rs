//! What stops a writer.

use std::fmt;

/// A format that is not known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormatError {
    /// The server's version is none of those whose files were verified.
    Version(String),
    /// `server_id` is 0, which a replicating server cannot have.
    ServerId,
}

impl fmt::Display for FormatError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(text) => write!(
                formatter,
                "no binlogs are written for the server version {text:?}: known are MySQL 8.0.28 and \
                 later of 8.0, 9.x, MariaDB 10.11 and 11.x"
            ),
            Self::ServerId => formatter.write_str("the server id is 0"),
        }
    }
}

impl std::error::Error for FormatError {}

/// Rows or a transaction that cannot be written as they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodeError {
    /// A table, its name or a column has no form in a binlog.
    Table(String),
    /// A row has not one value for every column.
    Columns {
        /// Values that were given.
        given: usize,
        /// Columns of the table.
        wanted: usize,
    },
    /// A value does not fit its column.
    Value {
        /// The column, from 0.
        column: usize,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A row is larger than an event can be.
    TooLarge,
    /// The slice to be filled is not exactly as large as the transaction.
    Size {
        /// Bytes of the slice.
        given: usize,
        /// Bytes of the transaction.
        wanted: u64,
    },
    /// The calls came in an order that makes no transaction.
    Order(&'static str),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(reason) => formatter.write_str(reason),
            Self::Columns { given, wanted } => {
                write!(
                    formatter,
                    "a row has {given} values, the table has {wanted} columns"
                )
            }
            Self::Value { column, reason } => {
                write!(formatter, "the value of column {column} (from 0) {reason}")
            }
            Self::TooLarge => formatter.write_str("a row is larger than an event can be (1 GiB)"),
            Self::Size { given, wanted } => {
                write!(formatter, "a place of {given} bytes was given for {wanted} bytes")
            }
            Self::Order(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for EncodeError {}
