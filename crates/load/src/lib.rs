//! The load engine: drives a load against a server and measures it.
//!
//! # Layout
//!
//! * [`spec`]: what goes in and what comes out, as the JSON of `flushlab.record.load`.
//! * [`LoadRun`]: a running load: connections, threads, the measured window.
//! * [`prepare_tables`]: the tables of a load; what they look like is in `tables::layout`.
//! * [`run_script`]: the statements of an SQL script, timed by kind; [`script`] splits it.
//! * `workload`: what one event does; one file per workload.
//! * `transaction`: when a connection commits.
//! * `connection`: one blocking connection; the wire codec with a socket under it.
//! * `meter`: what one thread counts.
//! * [`Cutoff`]: ends blocked connections from another thread.
//!
//! # Promises
//!
//! One blocking connection per thread. Nothing is allocated per event. A window counts exactly the
//! events that ended inside it, rows only once their transaction is committed. A server that goes away
//! ends the load with a reason, never a panic; one that hangs does so after [`READ_TIMEOUT`], a script's
//! statement after the script's limit. No message contains a password.

#![forbid(unsafe_code)]

mod connection;
mod cutoff;
mod error;
mod meter;
mod run;
pub mod script;
mod script_run;
pub mod spec;
mod tables;
mod transaction;
mod workload;

pub use connection::{CONNECT_TIMEOUT, READ_TIMEOUT};
pub use cutoff::Cutoff;
pub use error::{Error, Kind};
pub use run::LoadRun;
pub use script_run::{run_script, ScriptSpec};
pub use tables::prepare_tables;
