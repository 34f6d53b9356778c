//! The load engine: drives an OLTP load against a server and measures it.
//!
//! # Layout
//!
//! * [`spec`]: what goes in and what comes out, as the JSON of `flushlab.record.load`.
//! * [`LoadRun`]: a running load: connections, threads, the measured window.
//! * [`prepare_tables`]: sysbench's tables.
//! * `workload`: what one event does; one file per workload.
//! * `connection`: one blocking connection; the wire codec with a socket under it.
//! * `meter`: what one thread counts.
//! * [`Cutoff`]: ends blocked connections from another thread.
//!
//! # Promises
//!
//! One blocking connection per thread. Nothing is allocated per event. A window counts exactly the
//! events that ended inside it. A server that goes away ends the load with a reason, never a panic;
//! one that hangs does so after [`READ_TIMEOUT`]. No message contains a password.

#![forbid(unsafe_code)]

mod connection;
mod cutoff;
mod error;
mod meter;
mod run;
pub mod spec;
mod tables;
mod workload;

pub use connection::{CONNECT_TIMEOUT, READ_TIMEOUT};
pub use cutoff::Cutoff;
pub use error::{Error, Kind};
pub use run::LoadRun;
pub use tables::prepare_tables;
