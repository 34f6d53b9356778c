//! What comes out: the JSON of `flushlab.record.load`.

use serde::{Deserialize, Serialize};

use crate::histogram::Latencies;

/// A client whose thread was on a CPU for this share of the window was saturated: what it measured is
/// itself. (The rest of a saturated thread's time goes into waiting for a CPU and into system calls that
/// sleep for a moment.)
pub const CLIENT_BOUND: f64 = 0.9;

/// Latency of events in microseconds (`flushlab.record.Latency`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
}

impl Latency {
    /// What a histogram says; nothing if it is empty.
    pub(crate) fn of(latencies: &Latencies) -> Option<Self> {
        if latencies.is_empty() {
            return None;
        }
        let us = |ns: u64| (ns + 500) / 1000;
        let at = |quantile| us(latencies.value_at_quantile(quantile));
        Some(Self {
            mean: latencies.mean() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: us(latencies.max()),
        })
    }
}

/// How often a server error came (`flushlab.record.ErrorCount`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The server's error number.
    pub errno: u16,
    /// Its SQLSTATE.
    pub sqlstate: String,
    /// The first message seen.
    pub message: String,
    /// How often it came.
    pub count: u64,
}

/// A glance at a running load (`flushlab.record.LoadProgress`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadProgress {
    /// Seconds since start, up to the end if it has ended.
    pub elapsed_s: f64,
    /// Events completed since start.
    pub events: u64,
    /// What events of the last whole seconds since start add to the figure, committed or not.
    pub per_second: Vec<u64>,
    /// Server errors since start.
    pub errors: u64,
    /// Why the load stopped by itself.
    pub failed: Option<String>,
    /// The way out, if one is known.
    pub hint: Option<String>,
}

/// All that a running load has done since start (`flushlab.record.LoadSeen`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSeen {
    /// Events completed.
    pub events: u64,
    /// Server errors by their number.
    pub errors: Vec<(u16, u64)>,
    /// Latencies in microseconds, ascending, and how many events took so long.
    pub latencies_us: Vec<(u64, u64)>,
    /// Latency of all events together.
    pub latency_sum_s: f64,
    /// Events that are due and not begun; none in a closed loop.
    pub backlog: Option<u64>,
    /// How late 99 of 100 events of the open window were begun at most; none in a closed loop.
    pub lag_p99_us: Option<u64>,
}

/// What became of rows (`flushlab.record.RowCounts`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowCounts {
    /// Rows whose statement ended in the window and whose transaction was committed.
    pub committed: u64,
    /// Those among them that were there already.
    pub updated: u64,
    /// Rows whose statement ended in the window and whose transaction was rolled back.
    pub rolled_back: u64,
    /// Commits that ended in the window.
    pub commits: u64,
    /// Latency of these commits; none in autocommit, where it is part of the statement's.
    pub commit_latency_us: Option<Latency>,
}

/// Time of the statements of one kind (`flushlab.record.KindTime`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindTime {
    /// `CREATE TABLE`, `INSERT`, …
    pub kind: String,
    /// How many there were.
    pub count: u64,
    /// Time of all.
    pub seconds: f64,
    /// Time of the slowest.
    pub slowest_s: f64,
    /// Where the slowest begins in the script, from 1.
    pub slowest_line: u32,
}

/// How fast the statements of one kind were (`flushlab.record.StatementLatency`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementLatency {
    /// As the workload calls it.
    pub statement: String,
    /// Answers in the window.
    pub count: u64,
    /// From sending it to the end of its answer.
    pub latency_us: Latency,
}

/// How fast the transactions of one kind were (`flushlab.record.TransactionLatency`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransactionLatency {
    /// As the workload calls it.
    pub transaction: String,
    /// Those that ended in the window.
    pub count: u64,
    /// The same per second.
    pub throughput: f64,
    /// Latency of these; none if there were none.
    pub latency_us: Option<Latency>,
}

/// How long what ended in an error had taken (`flushlab.record.FailedAttempts`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedAttempts {
    /// How many there were.
    pub count: u64,
    /// From the beginning of the attempt to the error.
    pub latency_us: Latency,
}

/// What became of an open loop (`flushlab.record.OpenLoop`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenLoop {
    /// What was due in the window, per second.
    pub intended: f64,
    /// Most events that were due and not begun.
    pub backlog_max: u64,
    /// Events that were due and not begun at the window's end.
    pub backlog_end: u64,
    /// How late events were begun although a connection was free.
    pub lag_us: Option<Latency>,
}

/// What the load's thread took in a window (`flushlab.record.ClientCost`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientCost {
    /// Its time in user space per event; none if no event ended, or the kernel's clock ticked at no moment of it.
    pub user_us_per_event: Option<f64>,
    /// Its time in the kernel per event.
    pub system_us_per_event: Option<f64>,
    /// How often it gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// How often its CPU was taken from it.
    pub involuntary_switches: u64,
    /// How often it waited for several connections at once; 0 with one connection.
    pub waits: u64,
    /// Connections that were ready when such a wait ended, on average.
    pub answers_per_wait: Option<f64>,
}

/// What one measured window gave (`flushlab.record.LoadResult`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadResult {
    /// Length of the window.
    pub seconds: f64,
    /// Events that ended inside it.
    pub events: u64,
    /// Transactions or committed rows per second.
    pub throughput: f64,
    /// Transactions or committed rows of each whole second.
    pub per_second: Vec<u64>,
    /// Latency of these events; none if there were none.
    pub latency_us: Option<Latency>,
    /// Latency per kind of statement, in the workload's order; those that were not answered are absent.
    pub statements: Vec<StatementLatency>,
    /// The kinds of transactions of a workload that has kinds, in its order.
    pub transactions: Vec<TransactionLatency>,
    /// Commits that were acknowledged in the window.
    pub commits: u64,
    /// Server errors inside the window, by errno and SQLSTATE.
    pub errors: Vec<ErrorCount>,
    /// Attempts at an event, and COMMITs, that ended in an error in the window; none if there were none.
    pub failed: Option<FailedAttempts>,
    /// Events whose latency was longer than a day, which it counts as.
    pub capped: u64,
    /// User and system time of the load's thread per event.
    pub client_cpu_us_per_event: Option<f64>,
    /// How the thread took it; none where the system has no `/proc`.
    pub client: Option<ClientCost>,
    /// Share of the window that this thread was on a CPU.
    pub client_busy: Option<f64>,
    /// The client was the limit: see [`CLIENT_BOUND`].
    pub client_bound: bool,
    /// Whole seconds of the window, from 0, that added less than a tenth of the median second to the figure.
    pub stalls: Vec<u64>,
    /// What became of the rate; none in a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// Connections that were lost in the window.
    pub lost_connections: u64,
    /// Why the files of the window's seconds are not whole, if they are not.
    pub unwritten: Option<String>,
    /// What became of the rows, where rows are counted.
    pub rows: Option<RowCounts>,
    /// Time per kind of statement of a script, the most time first.
    pub kinds: Vec<KindTime>,
}
