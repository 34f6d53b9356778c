//! Writes and strictly checks the binary logs of MySQL and MariaDB.
//!
//! # Layout
//!
//! * [`Format`]: whose files (MySQL 8.0, 9.x, MariaDB 10.11, 11), and who writes.
//! * [`Table`], [`Column`], [`Value`], [`Json`]: rows.
//! * [`Body`]: a transaction's events, encoded once; [`Place`]: where it stands;
//!   [`Body::finish_into`] brings the two together.
//! * [`file_head`], [`rotate_event`], [`stop_event`]: what else stands in a file.
//! * [`Log`]: files on disk with an index, for one writer.
//! * [`sample`]: a small log of every column type.
//! * [`check`]: the strict checker; [`TableMap`] and [`Rows`] read rows back.
//! * [`read_events`], [`read_transactions`]: a file up to its first event that is not whole.
//! * [`invert`]: row events that take back what a file says was committed.
//!
//! # Promises
//!
//! * The size of a transaction is exact before a byte of it is written, so that a place can be
//!   reserved; many threads may then finish theirs at once, each into its own slice.
//! * In the steady state nothing is allocated per event.
//! * What is checked may be anything: the checker never panics and never takes memory because a
//!   number in a file says so.
//!
//! ```
//! use flushlab_binlog::{
//!     Body, Change, Column, ColumnType, Format, Identity, Place, Table, Uuid, Value,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Identity { server_id: 1, uuid: Uuid([7; 16]), domain: 0 };
//! let format = Format::new("9.7.4", identity)?;
//! let id = Column::new(ColumnType::Int { bytes: 4, unsigned: false });
//! let table = Table::new(&format, 100, "shop", "orders", &[id])?;
//!
//! let mut body = Body::new(&format);
//! body.begin(1_790_000_000, 8);
//! let mut insert = body.statement(&table, Change::Write)?;
//! insert.row(&[Value::Int(1)])?;
//! insert.row(&[Value::Int(2)])?;
//! insert.end();
//! body.commit(42)?;
//!
//! let mut out = vec![0; body.size(false) as usize];
//! let place = Place {
//!     position: 4711,
//!     gtid_number: 1,
//!     last_committed: 0,
//!     sequence_number: 1,
//!     commit_us: 1_790_000_000_000_000,
//!     commit_id: 0,
//! };
//! body.finish_into(&place, &mut out)?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod body;
mod bytes;
pub mod check;
mod decimal;
mod error;
mod event;
mod format;
mod gtid;
mod head;
mod inverse;
mod json;
mod log;
mod payload;
mod read;
mod rows;
pub mod sample;
mod table;
mod transaction;
mod value;

/// The README's examples, which are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use body::{Body, Change, LoggedStatement, Origin, Place};
pub use bytes::Malformed;
pub use decimal::decimal_text;
pub use error::{EncodeError, FormatError};
pub use event::{
    EventType, Header, CHECKSUM_SIZE, FLAG_ARTIFICIAL, FLAG_IGNORABLE, FLAG_IN_USE, FLAG_SUPPRESS_USE,
    HEADER_SIZE, IN_USE_OFFSET, MAGIC,
};
pub use format::{Flavor, Format, Identity, Uuid, Version};
pub use gtid::{GtidList, GtidSet, Tag};
pub use head::{file_head, rotate_event, stop_event, Head, Previous};
pub use inverse::{invert, Changed, Inverse, TableName};
pub use json::Json;
pub use log::{clear_in_use, file_name, Log, LogError, LogOptions};
pub use payload::{uncompressed_rows, Payload, LARGEST_EVENT, LARGEST_PAYLOAD};
pub use read::{read_events, read_events_from, read_transactions, Committed, Event, Reached};
pub use rows::{Rows, DUMMY_TABLE_ID, STATEMENT_END};
pub use table::{
    Column, ColumnType, Table, TableMap, BINARY, LATIN1_SWEDISH_CI, UTF8MB4_0900_AI_CI, UTF8MB4_GENERAL_CI,
};
pub use value::Value;
