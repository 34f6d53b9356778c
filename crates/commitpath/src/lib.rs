//! Commits through a redo log and a binary log on a real disk, in the pipelines that servers have or propose; and the
//! disk alone.
//!
//! # Layout
//!
//! * [`Spec`], [`CommitPath`], [`RunResult`]: a run, from JSON to JSON; `run` has its threads and its window.
//! * [`CommitSettings`], [`BinlogStrategy`]: what a commit waits for and which pipeline it takes; changed while a run
//!   goes on.
//! * `engine`: order, queue, flush, sync and commit stages; `transaction`: what goes through them; [`shape`]: what is
//!   committed.
//! * `redo`: the redo log and its file format; `files`: the binlog's.
//! * [`disk`]: what a disk gives to small writes that must be durable.
//!
//! # Two instruments
//!
//! * *As in a server*: a thread per committer, which spends the server's own time before each commit and sleeps until
//!   it is answered (`threads` = `committers`, `think_us`).
//! * *The disk's ceiling*: one or two threads drive all committers and poll, so that no commit costs a wake-up.
//!
//! # Promises
//!
//! * A transaction is acknowledged once it is as safe as the settings say: with redo 1, 2 or 3 it survives the
//!   death of the process at any moment. `tests/logs` reads both logs as a restart would.
//! * Binlog files are genuine: GTIDs without gaps in the order of the file, each log_pos and checksum right,
//!   also where the pipeline changes in the middle.
//! * Should nothing move, the run ends with an error. Only files that the run made are removed.

// A transaction stays where it is while its pointer goes from queue to queue.
#![allow(clippy::vec_box)]

pub mod disk;
pub mod shape;

mod engine;
mod error;
mod files;
mod measure;
mod redo;
mod run;
mod settings;
mod spec;
mod transaction;

pub use {
    error::{Error, ErrorKind},
    measure::LatencyUs,
    run::CommitPath,
    settings::{BinlogStrategy, CommitSettings},
    spec::{Phase, Progress, RunResult, Spec},
};
