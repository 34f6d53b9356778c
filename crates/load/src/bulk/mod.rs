//! Bulk loading: rows of a plan into a table, as fast as the server takes them.
//!
//! Each connection has a thread that generates rows straight into the packets that it sends, and takes ranges of
//! rows until none is left. A transaction holds at most `chunk_bytes`, and with them the note of how far its
//! range has come: what is committed is exactly what the notes say, whoever is killed and when.

mod batch;
mod counts;
mod run;
mod sample;
mod shared;
mod spec;
mod statement;
mod worker;

pub use counts::{FillProgress, FillResult};
pub use run::FillRun;
pub use sample::sample_rows;
