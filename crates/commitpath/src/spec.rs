//! What goes in and what comes out, as JSON. `flushlab._core.CommitPath` documents the keys.

use std::path::PathBuf;

use flushlab_binlog::{Format, Identity, Uuid};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::measure::LatencyUs;
use crate::settings::{BinlogStrategy, CommitSettings};

/// Most committers of one run, and most threads.
const MAX_COMMITTERS: u32 = 256;
/// Largest binlog file, as servers have it (`max_binlog_size`).
const MAX_FILE: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Who writes, as the binlogs say it.
const IDENTITY: Identity = Identity {
    server_id: 7,
    uuid: Uuid(*b"flushlab-commits"),
    domain: 0,
};

fn read_format<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Format, D::Error> {
    let text = String::deserialize(json)?;
    Format::new(&text, IDENTITY).map_err(serde::de::Error::custom)
}

/// Other settings, so long after the run's start, its warm-up included.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) after_seconds: Option<f64>,
    pub(crate) after_commits: Option<u64>,
    trx_commit: Option<u8>,
    sync_binlog: Option<u32>,
    binlog_strategy: Option<BinlogStrategy>,
}

impl Change {
    /// The settings that follow on `before`.
    pub(crate) fn of(&self, before: CommitSettings) -> CommitSettings {
        CommitSettings {
            trx_commit: self.trx_commit.unwrap_or(before.trx_commit),
            sync_binlog: self.sync_binlog.unwrap_or(before.sync_binlog),
            binlog_strategy: self.binlog_strategy.unwrap_or(before.binlog_strategy),
        }
    }
}

/// What each transaction is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// One row's `c` is changed.
    OltpUpdateNonIndex {
        /// Tables.
        tables: u32,
        /// Rows of each.
        rows: u32,
    },
    /// One row is inserted behind those that are there.
    OltpInsert {
        /// Tables.
        tables: u32,
        /// Rows of each before the run.
        rows: u32,
    },
    /// Rows with blobs of about as many bytes.
    Sizes {
        /// Redo bytes of each.
        redo_bytes: u32,
        /// Binlog bytes of each.
        binlog_bytes: u32,
        /// Every how manieth transaction of the first committer is large; 0 for none.
        #[serde(default)]
        large_every: u64,
        /// Binlog bytes of a large one; its redo was written before it commits, as servers do it.
        #[serde(default)]
        large_bytes: u32,
    },
}

/// One run, checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    pub(crate) directory: PathBuf,
    pub(crate) keep: bool,
    #[serde(deserialize_with = "read_format")]
    pub(crate) format: Format,
    trx_commit: u8,
    sync_binlog: u32,
    binlog_strategy: BinlogStrategy,
    pub(crate) threads: u32,
    /// Who have a transaction under way each, divided among the threads; 0: as many.
    pub(crate) committers: u32,
    pub(crate) shape: Shape,
    pub(crate) think_us: f64,
    pub(crate) warmup_seconds: f64,
    pub(crate) seconds: f64,
    pub(crate) transactions: u64,
    pub(crate) seed: u64,
    pub(crate) rotate_bytes: u64,
    pub(crate) redo_capacity_bytes: u64,
    pub(crate) changes: Vec<Change>,
    /// A run in which nothing has moved for so long is given up.
    pub(crate) stall_seconds: f64,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            keep: false,
            format: Format::new("9.7.4", IDENTITY).expect("a version that the binlog crate writes"),
            trx_commit: 1,
            sync_binlog: 1,
            binlog_strategy: BinlogStrategy::Serial,
            threads: 0,
            committers: 0,
            shape: Shape::OltpUpdateNonIndex {
                tables: 100,
                rows: 100_000,
            },
            think_us: 0.0,
            warmup_seconds: 0.0,
            seconds: 0.0,
            transactions: 0,
            seed: 0,
            rotate_bytes: MAX_FILE,
            redo_capacity_bytes: 128 * MIB,
            changes: Vec::new(),
            stall_seconds: 30.0,
        }
    }
}

/// Refuses `value` out of `low..=high`.
fn within(name: &str, value: f64, low: f64, high: f64) -> Result<(), Error> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(Error::usage(format!("{name} is {value}, not {low} to {high}"))
        .hint(format!("give {name} from {low} to {high}")))
}

impl Spec {
    /// Reads and checks a run's JSON.
    ///
    /// # Errors
    /// Usage: what is wrong, by which rule, and the way out.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let mut spec: Self = serde_json::from_slice(json).map_err(|error| {
            Error::usage(format!("the commit path's request is not understood: {error}"))
                .hint("give the fields that flushlab._core.CommitPath documents")
        })?;
        if spec.committers == 0 {
            spec.committers = spec.threads;
        }
        spec.check()?;
        Ok(spec)
    }

    /// What commits wait for at first.
    pub(crate) fn commit_settings(&self) -> CommitSettings {
        CommitSettings {
            trx_commit: self.trx_commit,
            sync_binlog: self.sync_binlog,
            binlog_strategy: self.binlog_strategy,
        }
    }

    /// As innodb_log_buffer_size of MySQL 8.0, less in a small redo log.
    pub(crate) fn log_buffer_bytes(&self) -> u64 {
        (self.redo_capacity_bytes / 4).min(16 * MIB)
    }

    fn check(&self) -> Result<(), Error> {
        let one_of = |what: &str, hint: &str| Err(Error::usage(format!("{what}, one of them")).hint(hint));
        if (self.seconds > 0.0) == (self.transactions > 0) {
            let hint = "give seconds or transactions above 0";
            return one_of("a run ends after seconds or after transactions", hint);
        }
        let mut settings = self.commit_settings();
        settings.check()?;
        for change in &self.changes {
            if change.after_seconds.is_some() == change.after_commits.is_some() {
                let hint = "give after_seconds or after_commits";
                return one_of("a change comes after seconds or after commits", hint);
            }
            settings = change.of(settings);
            settings.check()?;
        }
        let most = f64::from(MAX_COMMITTERS);
        let mib = MIB as f64;
        for (name, value, low, high) in [
            ("threads", f64::from(self.threads), 1.0, most),
            (
                "committers",
                f64::from(self.committers),
                f64::from(self.threads),
                most,
            ),
            ("think_us", self.think_us, 0.0, 1e6),
            ("warmup_seconds", self.warmup_seconds, 0.0, 3600.0),
            ("seconds", self.seconds, 0.0, 86_400.0),
            ("stall_seconds", self.stall_seconds, 0.1, 3600.0),
            ("rotate_bytes", self.rotate_bytes as f64, 4096.0, MAX_FILE as f64),
            (
                "redo_capacity_bytes",
                self.redo_capacity_bytes as f64,
                4.0 * mib,
                65_536.0 * mib,
            ),
        ] {
            within(name, value, low, high)?;
        }
        self.check_shape()
    }

    fn check_shape(&self) -> Result<(), Error> {
        match self.shape {
            Shape::OltpUpdateNonIndex { tables, rows } => {
                within("tables", f64::from(tables), 1.0, 10_000.0)?;
                within(
                    "rows",
                    f64::from(rows),
                    f64::from(self.committers),
                    1e9 / f64::from(tables),
                )
            }
            Shape::OltpInsert { tables, rows } => {
                within("tables", f64::from(tables), 1.0, 10_000.0)?;
                within("rows", f64::from(rows), 0.0, 1e9)
            }
            Shape::Sizes {
                redo_bytes,
                binlog_bytes,
                large_every,
                large_bytes,
            } => {
                let largest = 512.0 * MIB as f64;
                within(
                    "redo_bytes",
                    f64::from(redo_bytes),
                    0.0,
                    self.log_buffer_bytes() as f64 / 8.0,
                )?;
                within("binlog_bytes", f64::from(binlog_bytes), 300.0, largest)?;
                let least = if large_every > 0 { 300.0 } else { 0.0 };
                within("large_bytes", f64::from(large_bytes), least, largest)
            }
        }
    }
}

/// How far a run is: since its start.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // `flushlab._core.CommitPath.progress` has them.
pub struct Progress {
    pub phase: &'static str,
    pub seconds: f64,
    pub commits: u64,
}

/// What was reached under one setting of a commit's of a run, from the moment at which it held.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // `flushlab._core.CommitPath.wait` has them.
pub struct Phase {
    #[serde(flatten)]
    pub commit_settings: CommitSettings,
    pub switch_us: f64,
    pub seconds: f64,
    pub commits: u64,
}

/// What a run reached. Figures are those of the measured window; `switches` and `last_gtid` are of the whole run.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // `flushlab._core.CommitPath.wait` has them.
pub struct RunResult {
    pub commits: u64,
    pub seconds: f64,
    pub commits_per_s: f64,
    pub latency_us: Option<LatencyUs>,
    pub group_size: f64,
    pub fsyncs_per_s: f64,
    pub bytes_at_risk: u64,
    pub cpu_us_per_commit: f64,
    pub ordered_ns_per_commit: Option<f64>,
    pub encode_ns_per_commit: Option<f64>,
    pub write_ns_per_commit: Option<f64>,
    pub redo_bytes: u64,
    pub binlog_bytes: u64,
    pub phases: Vec<Phase>,
    pub switches: u64,
    pub last_gtid: u64,
}
