//! A disk in user space, under a real file system: it can be slow, fail, and say what a crash would have left.
//!
//! One file served over FUSE; a loop device and a file system of the kernel's stand on it, so that nothing of
//! fsync, direct I/O, memory maps or journals has to be imitated. A write arrives as a FUSE write, a flush of
//! the device's cache as a FUSE fsync.
//!
//! # Layout
//!
//! - `spec`: what a disk is asked to be;
//! - `layers`: its blocks: what it began with, and over that what was written since;
//! - `record`: every write and flush in a folder, numbered as they were answered;
//! - `index`: the versions of each block of a record;
//! - `failure`: which of them a crash leaves; `image`: the blocks that come of it;
//! - `delays`: how long a disk takes to answer; `timer`: answers that wait for their time;
//! - `mix`: random bits for both;
//! - `serve`: FUSE and the control socket.
//!
//! # Promises
//!
//! A record is whole up to its last entry at any moment, also after SIGKILL. An image depends on the record,
//! the number, the failure and the seed alone. Memory does not grow with what is written, except for a bit per
//! sector of the disk. No handler sleeps.

mod delays;
mod failure;
mod image;
mod index;
mod layers;
mod mix;
mod record;
mod serve;
mod spec;
mod timer;

pub use delays::{Delays, Latency};
pub use image::Image;
pub use layers::{ByteSource, Layers};
pub use record::{Entry, EntryKind, Recorder, Recording};
pub use serve::serve;
pub use spec::{Base, Failure, FailureKind, ImageSpec, Spec};

/// Smallest write of a disk, in bytes.
pub const SECTOR: u64 = 512;

/// What versions are kept of, in bytes.
pub const BLOCK: u64 = 4096;
