//! The MySQL client protocol: packets <-> values. No sockets, no clocks, no threads.
//!
//! # Layout
//!
//! * [`packet`]: framing; bytes as they arrive become whole packets, values become frames.
//! * [`field`]: integers and strings inside a payload, in both directions.
//! * [`handshake`]: the server's greeting and the client's answer.
//! * [`auth`]: scrambles and the RSA exchange; pure functions.
//! * [`login`]: the conversation from greeting to OK, as a state machine.
//! * [`command`]: what a client asks.
//! * [`response`]: OK, ERR, result sets and prepared statements, as state machines.
//!
//! # Promises
//!
//! Every malformed packet is an [`Error::Protocol`], never a panic. Nothing is allocated by a
//! length that a peer announces: buffers grow with the bytes that arrive, up to a limit.
//!
//! Protocol: MySQL internals manual, "Client/Server Protocol"; MariaDB knowledge base,
//! "Clientserver protocol". Deliberately not negotiated: compression, DEPRECATE_EOF, multiple
//! statements; LOCAL INFILE only where it is asked for. Of TLS only the request is here; its bytes are the caller's.

#![forbid(unsafe_code)]

pub mod auth;
pub mod command;
mod error;
pub mod field;
pub mod handshake;
pub mod login;
pub mod packet;
pub mod response;

pub use error::{Error, ServerError};
