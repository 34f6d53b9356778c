//! What goes in and what comes out, as JSON.

use std::path::PathBuf;

use flushlab_binlog::{Format, Identity, Uuid};
use serde::{Deserialize, Serialize};

use crate::commit_settings::{BinlogStrategy, CommitSettings};
use crate::error::Error;
use crate::shape::Shape;

/// Most threads of one run.
pub const MAX_THREADS: u32 = 256;
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

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    directory: PathBuf,
    #[serde(default)]
    keep: bool,
    #[serde(default = "format")]
    format: String,
    trx_commit: u8,
    sync_binlog: u32,
    binlog_strategy: BinlogStrategy,
    threads: u32,
    #[serde(default = "shape")]
    shape: Shape,
    #[serde(default)]
    linger: Option<bool>,
    #[serde(default)]
    think_us: f64,
    #[serde(default)]
    warmup_seconds: f64,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    transactions: u64,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    rotate_bytes: u64,
    #[serde(default = "log_buffer_bytes")]
    log_buffer_bytes: u64,
    #[serde(default = "ring_bytes")]
    ring_bytes: u64,
    #[serde(default = "redo_bytes")]
    redo_capacity_bytes: u64,
    #[serde(default)]
    changes: Vec<JsonChange>,
    #[serde(default)]
    acknowledged: Option<PathBuf>,
    #[serde(default)]
    resume: bool,
    #[serde(default)]
    fixed_clock_us: Option<u64>,
    #[serde(default = "stall_seconds")]
    stall_seconds: f64,
}

fn format() -> String {
    "9.7.4".to_owned()
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

/// binlog_buffer_size of AliSQL.
fn ring_bytes() -> u64 {
    20 * MIB
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
struct JsonChange {
    after_seconds: Option<f64>,
    after_commits: Option<u64>,
    trx_commit: Option<u8>,
    sync_binlog: Option<u32>,
    binlog_strategy: Option<BinlogStrategy>,
}

/// When a commit_settings changes, counted from the run's start, its warm-up included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum When {
    Seconds(f64),
    Commits(u64),
}

/// One run, checked.
#[derive(Debug, Clone)]
pub struct Spec {
    pub(crate) directory: PathBuf,
    pub(crate) keep: bool,
    pub(crate) format: Format,
    pub(crate) commit_settings: CommitSettings,
    pub(crate) threads: u32,
    pub(crate) shape: Shape,
    pub(crate) linger: Option<bool>,
    pub(crate) think_us: f64,
    pub(crate) warmup_seconds: f64,
    pub(crate) seconds: f64,
    pub(crate) transactions: u64,
    pub(crate) seed: u64,
    pub(crate) rotate_bytes: u64,
    pub(crate) log_buffer_bytes: u64,
    pub(crate) ring_bytes: u64,
    pub(crate) redo_capacity_bytes: u64,
    pub(crate) changes: Vec<(When, CommitSettings)>,
    pub(crate) acknowledged: Option<PathBuf>,
    /// Recover what is in the folder and go on from there.
    pub(crate) resume: bool,
    pub(crate) fixed_clock_us: Option<u64>,
    /// A run in which nothing has moved for so long is given up.
    pub(crate) stall_seconds: f64,
}

impl Spec {
    /// Reads and checks a run's JSON.
    ///
    /// # Errors
    /// Usage: what is wrong, by which rule, and the way out.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let json: Json = serde_json::from_slice(json).map_err(|error| {
            Error::usage(format!("the commit path's request is not understood: {error}"))
                .hint("give the fields that flushlab._core.CommitPath documents")
        })?;
        json.checked()
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

impl Json {
    fn checked(self) -> Result<Spec, Error> {
        let commit_settings = CommitSettings {
            trx_commit: self.trx_commit,
            sync_binlog: self.sync_binlog,
            binlog_strategy: self.binlog_strategy,
        };
        commit_settings.check()?;
        self.check_sizes()?;
        self.check_shape()?;
        if (self.seconds > 0.0) == (self.transactions > 0) {
            return Err(
                Error::usage("a run ends after seconds or after transactions, one of them")
                    .hint("give seconds or transactions above 0"),
            );
        }
        let changes = changes(&self.changes, commit_settings)?;
        let text = server_version(&self.format);
        let format = Format::new(&text, IDENTITY).map_err(|error| {
            Error::usage(error.to_string()).hint("give the version of MySQL 8.0 or 9, MariaDB 10.11 or 11")
        })?;
        Ok(Spec {
            directory: self.directory,
            keep: self.keep,
            format,
            commit_settings,
            threads: self.threads,
            shape: self.shape,
            linger: self.linger,
            think_us: self.think_us,
            warmup_seconds: self.warmup_seconds,
            seconds: self.seconds,
            transactions: self.transactions,
            seed: self.seed,
            rotate_bytes: match self.rotate_bytes {
                0 => MAX_FILE,
                bytes => bytes,
            },
            log_buffer_bytes: self.log_buffer_bytes,
            ring_bytes: self.ring_bytes,
            redo_capacity_bytes: self.redo_capacity_bytes,
            changes,
            acknowledged: self.acknowledged,
            resume: self.resume,
            fixed_clock_us: self.fixed_clock_us,
            stall_seconds: self.stall_seconds,
        })
    }

    fn check_sizes(&self) -> Result<(), Error> {
        within("threads", f64::from(self.threads), 1.0, f64::from(MAX_THREADS))?;
        within("think_us", self.think_us, 0.0, 1e6)?;
        within("warmup_seconds", self.warmup_seconds, 0.0, 3600.0)?;
        within("seconds", self.seconds, 0.0, 86_400.0)?;
        within("stall_seconds", self.stall_seconds, 0.1, 3600.0)?;
        if self.rotate_bytes != 0 {
            within(
                "rotate_bytes",
                self.rotate_bytes as f64,
                MIN_FILE as f64,
                MAX_FILE as f64,
            )?;
        }
        let (small, large) = (MIB as f64, 1024.0 * MIB as f64);
        within("log_buffer_bytes", self.log_buffer_bytes as f64, small, large)?;
        within("ring_bytes", self.ring_bytes as f64, small, large)?;
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
                    f64::from(self.threads),
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

/// `10.11.19` and `11.8.6` are MariaDB's numbers, whether or not the text says so.
fn server_version(text: &str) -> String {
    let mariadb = text.starts_with("10.") || text.starts_with("11.") || text.starts_with("12.");
    match mariadb && !text.contains("MariaDB") {
        true => format!("{text}-MariaDB"),
        false => text.to_owned(),
    }
}

fn changes(
    changes: &[JsonChange],
    mut commit_settings: CommitSettings,
) -> Result<Vec<(When, CommitSettings)>, Error> {
    let mut checked = Vec::with_capacity(changes.len());
    for change in changes {
        let when = match (change.after_seconds, change.after_commits) {
            (Some(seconds), None) => When::Seconds(seconds),
            (None, Some(commits)) => When::Commits(commits),
            _ => {
                return Err(
                    Error::usage("a change comes after seconds or after commits, one of them")
                        .hint("give after_seconds or after_commits"),
                )
            }
        };
        commit_settings = CommitSettings {
            trx_commit: change.trx_commit.unwrap_or(commit_settings.trx_commit),
            sync_binlog: change.sync_binlog.unwrap_or(commit_settings.sync_binlog),
            binlog_strategy: change.binlog_strategy.unwrap_or(commit_settings.binlog_strategy),
        };
        commit_settings.check()?;
        checked.push((when, commit_settings));
    }
    Ok(checked)
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

/// A file that the run wrote.
#[derive(Debug, Clone, Serialize)]
pub struct WrittenFile {
    /// Its name in the run's folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// What was reached under one commit_settings of a run, from the moment at which it held.
#[derive(Debug, Clone, Serialize)]
pub struct Phase {
    /// The commit_settings.
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
    /// What decides the order and only one thread at a time can do: the log lock's flush stage, or the
    /// reservation.
    pub ordered_ns_per_commit: Option<f64>,
    /// Writing the events into their place, checksums included.
    pub encode_ns_per_commit: Option<f64>,
    /// Handing redo (unless it is synced) and binlog to the kernel: one thread at a time, part of the ordered
    /// section in `serial`; beside it in the others, with the answers to those who wait.
    pub write_ns_per_commit: Option<f64>,
    /// Redo that was written.
    pub redo_bytes: u64,
    /// Binlog that was written.
    pub binlog_bytes: u64,
    /// By commit_settings, in their order.
    pub phases: Vec<Phase>,
    /// Changes of the way of flushing in the whole run.
    pub switches: u64,
    /// Binlog files that were ended in the whole run because they were full.
    pub rotations: u64,
    /// Commits of the whole run, the warm-up included: the number of the last GTID.
    pub last_gtid: u64,
    /// What was left; empty unless `keep`.
    pub files: Vec<WrittenFile>,
}
