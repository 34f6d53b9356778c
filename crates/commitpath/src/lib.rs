//! Commits through a redo log and a binary log on a real disk, in four ways that can be measured and read.
//!
//! # Layout
//!
//! * [`Spec`], [`CommitPath`], [`RunResult`]: a run, from JSON to JSON.
//! * [`CommitSettings`], [`BinlogStrategy`]: what a commit waits for, and which way it takes; changed while a run goes on.
//! * `serial`, `leader`, `parallel`: the ways of flushing, each a few methods of the `engine`.
//! * `section`, `log_buffer`, `redo_log`, `combining`, `stage`, `session`, `unsynced`: the concurrency core: one atomic
//!   addition that gives places, a ring with a ready prefix, the redo log over it, the lock whose holder works for
//!   all, queues before stages, answers, what is synced. Tested with loom.
//! * [`redo`]: the redo log's file format and its reader; `files`: the binlog's; [`recover`](mod@recover): both after a crash.
//! * [`shape`]: what is committed.
//!
//! # Promises
//!
//! * A transaction is acknowledged once it is as safe as the commit_settings says: with redo 1, 2 or 3 it survives the
//!   death of the process at any moment.
//! * Binlog files are genuine: GTIDs without gaps in the order of the file, each log_pos and checksum right,
//!   also where the way of flushing changes in the middle.
//! * In the steady state a commit allocates nothing.
//! * Whoever holds the only right to make room in a buffer makes room while it waits, and nobody waits for the redo
//!   log's circle who already has a place. Should nothing move all the same, a watchdog ends the run with an error.

// Under loom only the concurrency core is there: the rest uses the standard library's threads.
#![cfg_attr(feature = "loom", allow(dead_code))]

mod combining;
mod log_buffer;
#[cfg(all(test, feature = "loom"))]
mod models;
mod section;
mod session;
mod stage;
mod sync;
mod unsynced;

#[cfg(not(feature = "loom"))]
pub mod recover;
pub mod redo;
pub mod shape;

#[cfg(not(feature = "loom"))]
mod commit_settings;
#[cfg(not(feature = "loom"))]
mod engine;
#[cfg(not(feature = "loom"))]
mod error;
#[cfg(not(feature = "loom"))]
mod files;
#[cfg(all(test, not(feature = "loom")))]
mod interleavings;
#[cfg(not(feature = "loom"))]
mod leader;
#[cfg(not(feature = "loom"))]
mod measure;
#[cfg(not(feature = "loom"))]
mod parallel;
mod redo_log;
#[cfg(not(feature = "loom"))]
mod run;
#[cfg(all(test, not(feature = "loom")))]
mod same_bytes;
#[cfg(not(feature = "loom"))]
mod serial;
#[cfg(not(feature = "loom"))]
mod spec;

#[cfg(not(feature = "loom"))]
pub use {
    commit_settings::{BinlogStrategy, CommitSettings},
    error::{Error, Kind},
    files::BASENAME,
    parallel::PERSIST_LIMIT,
    run::CommitPath,
    spec::{LatencyUs, Phase, Progress, RunResult, Spec, WrittenFile, IDENTITY, MAX_THREADS},
};
