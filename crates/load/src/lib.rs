//! The load engine: drives a load against a server and measures it.
//!
//! # Layout
//!
//! * [`spec`]: what goes in; [`result`]: what comes out; both as the JSON of `flushlab.record.load`.
//! * [`LoadRun`]: a running load: connections, threads, the measured window.
//! * [`prepare_tables`]: the tables of a load; what they look like is in `tables::layout`.
//! * [`run_script`]: the statements of an SQL script, timed by kind; [`script`] splits it.
//! * `workload`: what one event says; one file per workload.
//! * `lane`: one connection of a load: what is under way and what comes next; it never waits.
//! * `drive`: who waits: `blocking` for one connection, `polling` for more.
//! * `schedule`: when events are due in an open loop.
//! * `transaction`: when a connection commits by itself.
//! * `reconnect`: opens lost connections anew.
//! * `address`: where connections go, and by which transport.
//! * `connect`: from an address to a connection that is logged in; `tls` says which certificates will do.
//! * `stream`: the bytes of a connection: unix socket, TCP or TLS.
//! * `connection`: the wire codec with a stream under it.
//! * `meter`: what one thread counts.
//! * `policy`: how the kernel schedules the threads.
//! * [`Cutoff`]: ends blocked connections from another thread.
//!
//! # Promises
//!
//! A single thread drives all connections. Nothing is allocated per event. A window counts exactly the
//! events that ended inside it, rows only once their transaction is committed. A server that goes away
//! ends the load with a reason, never a panic, unless it was asked to reconnect; one that hangs does so
//! after [`READ_TIMEOUT`], a script's statement after the script's limit. No message contains a password.

#![deny(unsafe_code)]

mod address;
mod connect;
mod connection;
mod cutoff;
mod drive;
mod error;
mod lane;
mod meter;
mod policy;
mod reconnect;
pub mod result;
mod run;
mod schedule;
pub mod script;
mod script_run;
pub mod spec;
mod stream;
mod sync;
mod tables;
mod tls;
mod transaction;
mod workload;

pub use connect::CONNECT_TIMEOUT;
pub use connection::READ_TIMEOUT;
pub use cutoff::Cutoff;
pub use error::{Error, Kind};
pub use run::LoadRun;
pub use schedule::check_schedule;
pub use script_run::{run_script, ScriptSpec};
pub use tables::prepare_tables;
