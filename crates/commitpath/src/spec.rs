//! What goes in and what comes out, as JSON.

use std::path::PathBuf;

use flushlab_binlog::{Format, FormatError, Identity, Uuid};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::settings::{BinlogStrategy, CommitSettings};
use crate::shape::Shape;

/// Most committers of one run, and most threads.
pub const MAX_COMMITTERS: u32 = 256;
/// Largest binlog file, as servers have it (`max_binlog_size`).
const MAX_FILE: u64 = 1 << 30;
const MIN_FILE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Who writes, as the binlogs say it.
pub const IDENTITY: Identity = Identity {
    server_id: 7,
    uuid: Uuid(*b"flushlab-commits"),
    domain: 0,
};

fn format() -> Format {
    format_of("9.7.4").expect("a version that the binlog crate writes")
}

fn read_format<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Format, D::Error> {
    let text = String::deserialize(json)?;
    format_of(&text).map_err(serde::de::Error::custom)
}

fn format_of(text: &str) -> Result<Format, FormatError> {
    // MariaDB's numbers, whether or not the text says so.
    let is_mariadb = ["10.", "11.", "12."].iter().any(|major| text.starts_with(major));
    match is_mariadb && !text.contains("MariaDB") {
        true => Format::new(&format!("{text}-MariaDB"), IDENTITY),
        false => Format::new(text, IDENTITY),
    }
}

fn rotate_bytes() -> u64 {
    MAX_FILE
}

fn shape() -> Shape {
    Shape::OltpUpdateNonIndex {
        tables: 100,
        rows: 100_000,
    }
}

/// innodb_log_buffer_size of MySQL 8.0.
fn log_buffer_bytes() -> u64 {
    16 * MIB
}

/// A disk that lets one sync wait longer is out of order.
fn stall_seconds() -> f64 {
    30.0
}

/// innodb_redo_log_capacity of MySQL 8.0.30 is 100 MiB.
fn redo_bytes() -> u64 {
    128 * MIB
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    after_seconds: Option<f64>,
    after_commits: Option<u64>,
    trx_commit: Option<u8>,
    sync_binlog: Option<u32>,
    binlog_strategy: Option<BinlogStrategy>,
}

/// When the settings change, counted from the run's start, its warm-up included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum When {
    Seconds(f64),
    Commits(u64),
}

/// One run, checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub(crate) directory: PathBuf,
    #[serde(default)]
    pub(crate) keep: bool,
    #[serde(default = "format", deserialize_with = "read_format")]
    pub(crate) format: Format,
    trx_commit: u8,
    sync_binlog: u32,
    binlog_strategy: BinlogStrategy,
    pub(crate) threads: u32,
    /// Who have a transaction under way each, divided among the threads; 0: as many.
    #[serde(default)]
    pub(crate) committers: u32,
    #[serde(default = "shape")]
    pub(crate) shape: Shape,
    #[serde(default)]
    pub(crate) think_us: f64,
    #[serde(default)]
    pub(crate) warmup_seconds: f64,
    #[serde(default)]
    pub(crate) seconds: f64,
    #[serde(default)]
    pub(crate) transactions: u64,
    #[serde(default)]
    pub(crate) seed: u64,
    #[serde(default = "rotate_bytes")]
    pub(crate) rotate_bytes: u64,
    #[serde(default = "log_buffer_bytes")]
    pub(crate) log_buffer_bytes: u64,
    #[serde(default = "redo_bytes")]
    pub(crate) redo_capacity_bytes: u64,
    #[serde(default)]
    changes: Vec<Change>,
    /// A run in which nothing has moved for so long is given up.
    #[serde(default = "stall_seconds")]
    pub(crate) stall_seconds: f64,
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
    /// What commits wait for at first.
    pub(crate) fn commit_settings(&self) -> CommitSettings {
        CommitSettings {
            trx_commit: self.trx_commit,
            sync_binlog: self.sync_binlog,
            binlog_strategy: self.binlog_strategy,
        }
    }

    /// What they wait for later, and from when on.
    pub(crate) fn changes(&self) -> Vec<(When, CommitSettings)> {
        let mut settings = self.commit_settings();
        let change = |one: &Change| {
            settings = CommitSettings {
                trx_commit: one.trx_commit.unwrap_or(settings.trx_commit),
                sync_binlog: one.sync_binlog.unwrap_or(settings.sync_binlog),
                binlog_strategy: one.binlog_strategy.unwrap_or(settings.binlog_strategy),
            };
            let when = match one.after_commits {
                Some(commits) => When::Commits(commits),
                None => When::Seconds(one.after_seconds.unwrap_or(0.0)),
            };
            (when, settings)
        };
        self.changes.iter().map(change).collect()
    }

    fn check(&self) -> Result<(), Error> {
        self.commit_settings().check()?;
        self.check_sizes()?;
        self.check_shape()?;
        let one_of = |what: &str, hint: &str| Err(Error::usage(format!("{what}, one of them")).hint(hint));
        if (self.seconds > 0.0) == (self.transactions > 0) {
            return one_of(
                "a run ends after seconds or after transactions",
                "give seconds or transactions above 0",
            );
        }
        if self
            .changes
            .iter()
            .any(|one| one.after_seconds.is_some() == one.after_commits.is_some())
        {
            return one_of(
                "a change comes after seconds or after commits",
                "give after_seconds or after_commits",
            );
        }
        self.changes()
            .iter()
            .try_for_each(|(_, settings)| settings.check())
    }

    fn check_sizes(&self) -> Result<(), Error> {
        let most = f64::from(MAX_COMMITTERS);
        within("threads", f64::from(self.threads), 1.0, most)?;
        within(
            "committers",
            f64::from(self.committers),
            f64::from(self.threads),
            most,
        )?;
        within("think_us", self.think_us, 0.0, 1e6)?;
        within("warmup_seconds", self.warmup_seconds, 0.0, 3600.0)?;
        within("seconds", self.seconds, 0.0, 86_400.0)?;
        within("stall_seconds", self.stall_seconds, 0.1, 3600.0)?;
        within(
            "rotate_bytes",
            self.rotate_bytes as f64,
            MIN_FILE as f64,
            MAX_FILE as f64,
        )?;
        let (small, large) = (MIB as f64, 1024.0 * MIB as f64);
        within("log_buffer_bytes", self.log_buffer_bytes as f64, small, large)?;
        let least = 4 * self.log_buffer_bytes.next_power_of_two();
        within(
            "redo_capacity_bytes",
            self.redo_capacity_bytes as f64,
            least as f64,
            64.0 * large,
        )
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
                    self.log_buffer_bytes as f64 / 8.0,
                )?;
                within("binlog_bytes", f64::from(binlog_bytes), 300.0, largest)?;
                if large_every > 0 {
                    within("large_bytes", f64::from(large_bytes), 300.0, largest)?;
                }
                Ok(())
            }
        }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Serialize)]
pub struct Progress {
    /// `warmup`, `measuring` or `done`.
    pub phase: &'static str,
    /// Since the start.
    pub seconds: f64,
    /// Commits since the start.
    pub commits: u64,
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LatencyUs {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

/// What was reached under one setting of a commit's of a run, from the moment at which it held.
#[derive(Debug, Clone, Serialize)]
pub struct Phase {
    /// The settings.
    #[serde(flatten)]
    pub commit_settings: CommitSettings,
    /// How long the change to it took, threads running; 0 for the first.
    pub switch_us: f64,
    /// Length.
    pub seconds: f64,
    /// Commits that were acknowledged.
    pub commits: u64,
}

/// What a run reached. Figures are those of the measured window.
#[derive(Debug, Clone, Serialize)]
pub struct RunResult {
    /// Commits that were acknowledged.
    pub commits: u64,
    /// Length of the window.
    pub seconds: f64,
    /// Commits per second.
    pub commits_per_s: f64,
    /// From handing the transaction over until it is acknowledged.
    pub latency_us: Option<LatencyUs>,
    /// Commits that were acknowledged together, on average.
    pub group_size: f64,
    /// Such groups.
    pub groups: u64,
    /// Syncs of the redo log.
    pub redo_fsyncs: u64,
    /// Syncs of the binlog.
    pub binlog_fsyncs: u64,
    /// Both per second.
    pub fsyncs_per_s: f64,
    /// Most bytes of acknowledged transactions that an OS crash would have taken at once.
    pub bytes_at_risk: u64,
    /// Processor time of the whole process.
    pub cpu_us_per_commit: f64,
    /// What decides the order and only one thread at a time can do: the flush stage, or giving a place.
    pub ordered_ns_per_commit: Option<f64>,
    /// Writing the events into their buffer, checksums included.
    pub encode_ns_per_commit: Option<f64>,
    /// Handing redo (unless it is synced) and binlog to the kernel: one thread at a time; part of the ordered
    /// section where the leader writes the events.
    pub write_ns_per_commit: Option<f64>,
    /// Redo that was written.
    pub redo_bytes: u64,
    /// Binlog that was written.
    pub binlog_bytes: u64,
    /// By settings, in their order.
    pub phases: Vec<Phase>,
    /// Changes of the pipeline in the whole run.
    pub switches: u64,
    /// Binlog files that were ended in the whole run because they were full.
    pub rotations: u64,
    /// Commits of the whole run, the warm-up included: the number of the last GTID.
    pub last_gtid: u64,
}
