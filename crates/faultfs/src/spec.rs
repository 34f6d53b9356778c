use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::delays::Delays;

/// A disk.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Socket on which the disk is told what to do; it appears once the disk can be opened.
    pub control: PathBuf,
    /// In bytes, a multiple of 4,096.
    pub size: u64,
    /// What it begins with.
    pub base: Base,
    /// Folder on whose file system the blocks lie that are written; nothing of them remains.
    pub overlay: PathBuf,
    /// Folder of the record: made already, and empty. Images record from the start, others when told to.
    pub record: Option<PathBuf>,
    /// Bytes that the record may take; writes beyond fail.
    pub record_limit: Option<u64>,
    /// Answers go before whatever else runs on the machine: for a disk that is to be as slow as asked, and no slower.
    pub punctual: bool,
    /// How slow it is; none: as fast as it can.
    pub delays: Option<Delays>,
}

/// What a disk begins with.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// Zeros.
    Zeros,
    /// The file `base` in the folder of the record.
    File,
    /// What a crash has left of another disk.
    Image(ImageSpec),
}

/// What a crash leaves of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ImageSpec {
    /// Folder of the record.
    pub record: PathBuf,
    /// The last record that was answered before the crash.
    pub at: u64,
    /// What crashed.
    pub failure: Failure,
    /// Chooses among what may have been left.
    pub seed: u64,
}

/// What crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The operating system: what reached the device stays, in its cache too.
    Os,
    /// The power: of what came after the last flush, anything may be left.
    Power,
    /// The power, and the device had not done its last flushes.
    LyingDisk,
    /// The power, in the middle of the last large write, unless a flush has made that durable; the device kept
    /// all others.
    Torn,
}

/// A crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What crashes.
    pub kind: FailureKind,
    /// Bytes that the device writes whole or not at all: 512 or 4,096; none: it tears no write.
    pub tear: Option<u32>,
    /// Flushes that a lying disk did not do, the last ones.
    #[serde(default)]
    pub lying_flushes: u64,
}
