use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How a write becomes durable, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Write, then fsync.
    Fsync,
    /// Write, then fdatasync.
    Fdatasync,
    /// The file is open with O_DSYNC.
    Dsync,
    /// O_DIRECT and O_DSYNC.
    DirectDsync,
    /// O_DIRECT alone: the device has the data, perhaps in its cache.
    Direct,
    /// One commit of a server with a binlog: a write and an fdatasync on each of two files, one after the
    /// other, the second one growing.
    Pair,
}

/// The state of the blocks that are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Written and synced before: only data need to go to the device.
    Written,
    /// Allocated, never written (fallocate): a sync also converts the extent.
    Allocated,
    /// The file grows: a sync also writes its new size.
    Extending,
}

/// Which block is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The one behind the last, from the start again at the end.
    Sequential,
    /// Any.
    Random,
}

/// One measurement.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// An existing folder of the measurement's own; files in it are made, reused and left there.
    pub directory: PathBuf,
    /// How a write becomes durable.
    pub way: Way,
    /// Of one write.
    pub bytes: usize,
    /// The state of the blocks.
    pub layout: Layout,
    /// Which block is next.
    pub order: Order,
    /// Threads, each with one write under way.
    pub depth: usize,
    /// Of a file, at most.
    pub file_bytes: u64,
    /// Length of the measured window in seconds.
    pub seconds: f64,
    /// Beyond the window, it may take so long at most.
    #[serde(default = "stall_seconds")]
    pub stall_seconds: f64,
}

/// Preparing a file takes two seconds and one sync; a disk that takes longer than this is out of order.
fn stall_seconds() -> f64 {
    60.0
}

/// Latency of an operation, from the write to the end of its sync, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Of all operations; not told, because rate and depth say the same.
    #[serde(skip)]
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Slowest.
    pub max: f64,
}

/// What one measurement gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Operations that ended in the window.
    pub operations: u64,
    /// Its length as it was.
    pub seconds: f64,
    /// Of an operation.
    pub latency_us: Latency,
    /// Size of the file that was written over; less than asked for on a slow disk.
    pub file_bytes: u64,
}

/// What came of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Figures.
    Measured(Figure),
    /// This file system or device cannot do it; why, in words.
    Refused(String),
    /// It was told to stop.
    Stopped,
}

/// What stops a measurement.
#[derive(Debug)]
pub enum Error {
    /// The spec contradicts itself.
    Usage(String),
    /// The file system failed.
    Io {
        /// What was being done.
        what: String,
        /// The error.
        error: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => f.write_str(message),
            Self::Io { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl Spec {
    /// Refuses what makes no sense.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Usage(text));
        if self.bytes == 0 || !self.bytes.is_multiple_of(512) {
            return wrong(format!("{} bytes are no multiple of 512", self.bytes));
        }
        if self.depth == 0 || self.depth > 256 {
            return wrong(format!("a depth of {} is not within 1 and 256", self.depth));
        }
        if !(self.seconds > 0.0 && self.seconds <= 3600.0) {
            return wrong(format!("{} seconds are not within 0 and 3600", self.seconds));
        }
        if self.file_bytes < 16 * self.bytes as u64 {
            return wrong(format!("a file of {} bytes is too small", self.file_bytes));
        }
        let alone = self.way == Way::Pair || self.layout != Layout::Written;
        if alone && (self.depth > 1 || self.order == Order::Random) {
            return wrong("files that grow are written by one thread, in order".to_owned());
        }
        Ok(())
    }
}
