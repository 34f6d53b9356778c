//! The load engine: drives a load against a server and measures it.
//!
//! # Layout
//!
//! Imports point down this list only, which `tests/unit/test_rust_modules.py` holds for all crates.
//!
//! * [`LoadRun`]: a running load: connections, threads, the measured window.
//! * [`prepare_tables`], `check_tables`: the tables of a load.
//! * [`run_script`]: the statements of an SQL script, timed by kind; [`script`] splits it.
//! * [`ScriptStream`]: a dump of any size, run while it is read; `dump`: what of it runs, when and on which connection.
//! * [`FillRun`] (`bulk`): rows of a plan into a table, on several connections.
//! * `drive`: who waits: `blocking` for one connection, `polling` for more.
//! * `reconnect`: opens lost connections anew; `handoff` gives them back to the thread that polls.
//! * `worker`: what a thread does besides its work.
//! * `session`: one connection with its workload: what is under way and what comes next; it never waits.
//! * `control`: what threads and their owner share.
//! * `dialer`: opens connections as a load needs them.
//! * `seconds`: the seconds of a window, written to files as they end.
//! * `closed`: from a window that was closed, or those of several load generators, to the [`result`], the JSON of
//!   `flushlab.record.load`.
//! * `meter`: what the load's thread counts; `histogram`: its latencies; `usage`: what the thread itself takes.
//! * [`spec`]: what goes in: the JSON of `flushlab.record.load`.
//! * `workload`: what one event says; one file per workload.
//! * `share`: the part of a load that one of several load generators drives.
//! * `layout`: what the tables of a workload look like.
//! * `schedule`: when events are due in an open loop; `transaction`: when a connection commits by itself;
//!   `streams`: whose random numbers are whose; `policy`: how the kernel schedules threads.
//! * `connection`: the protocol codec with a `stream` under it: unix socket, TCP or TLS.
//! * `connect`: from an `address` to a stream that is logged in; `tls` says which certificates will do;
//!   `endpoint`: how a server is reached, and as whom.
//! * [`Cancellation`]: ends blocked connections from another thread.
//!
//! # Promises
//!
//! A single thread drives all connections. Nothing is allocated per event. A window counts exactly the
//! events that ended inside it, rows only once their transaction is committed. A server that goes away
//! ends the load with a reason, never a panic, unless it was asked to reconnect; one that hangs does so
//! after [`READ_TIMEOUT`], a script's statement after the script's limit. No message contains a password.

#![deny(unsafe_code)]
// A lock that is taken in front of a `match` is held to its end.
#![warn(clippy::significant_drop_in_scrutinee)]

mod address;
mod bulk;
mod cancellation;
mod client_command;
mod closed;
mod connect;
mod connection;
mod control;
mod dialer;
mod drive;
mod dump;
mod endpoint;
mod error;
mod handoff;
mod histogram;
mod layout;
mod meter;
mod policy;
mod reconnect;
pub mod result;
mod run;
mod schedule;
pub mod script;
mod script_run;
mod script_stream;
mod script_survey;
#[cfg(test)]
mod scripted;
mod seconds;
mod session;
mod share;
pub mod spec;
mod stream;
mod streams;
mod sync;
mod tables;
mod tls;
mod transaction;
mod usage;
mod worker;
mod workload;

pub use bulk::{sample_rows, FillProgress, FillResult, FillRun};
pub use cancellation::Cancellation;
pub use closed::WindowPart;
pub use dump::late_indexes::late_parts;
pub use dump::queue::StreamProgress;
pub use endpoint::{CONNECT_TIMEOUT, READ_TIMEOUT};
pub use error::{Error, ErrorKind};
pub use run::LoadRun;
pub use schedule::check_schedule;
pub use script_run::{run_script, ScriptSpec};
pub use script_stream::ScriptStream;
pub use script_survey::ScriptSurvey;
pub use tables::prepare_tables;
