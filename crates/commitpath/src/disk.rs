//! What a disk gives to small writes that must be durable.
//!
//! # Layout
//!
//! - `spec`: one measurement, as it is asked for, and what came of it;
//! - `files`: the files that are written, and the ways in which a write becomes durable;
//! - `measure`: the loop and its clock.
//!
//! Promises: a measurement ends within its seconds (and the one operation that is under way); what a file
//! system cannot do is a value, [`Outcome::Refused`]; no file grows beyond the size that was asked for.

mod files;
mod measure;
mod spec;

pub use measure::measure;
pub use spec::{Error, Figure, Latency, Layout, Order, Outcome, Spec, Way};
