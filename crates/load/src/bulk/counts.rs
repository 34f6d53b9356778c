//! What a load has done, counted by its threads and read by its owner.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

/// What threads add to as they go.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub rows: AtomicU64,
    pub committed: AtomicU64,
    pub bytes: AtomicU64,
    pub statements: AtomicU64,
    pub commits: AtomicU64,
    generate_ns: AtomicU64,
    send_ns: AtomicU64,
    answer_ns: AtomicU64,
    commit_ns: AtomicU64,
    cpu_ns: AtomicU64,
    /// Notes of the server on rows that it took, by what it says.
    pub notes: Mutex<BTreeMap<String, u64>>,
    /// Transactions that were sent again, by the server's error.
    pub retried: Mutex<BTreeMap<u16, u64>>,
}

/// What a thread spends its time on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// Making rows.
    Generate,
    /// Handing bytes to the kernel: waits where the server does not keep up.
    Send,
    /// Waiting for the answer to a statement.
    Answer,
    /// Waiting for a commit.
    Commit,
}

impl Counts {
    pub fn spent(&self, phase: Phase, time: Duration) {
        let counter = match phase {
            Phase::Generate => &self.generate_ns,
            Phase::Send => &self.send_ns,
            Phase::Answer => &self.answer_ns,
            Phase::Commit => &self.commit_ns,
        };
        add(counter, time);
    }

    pub fn used_cpu(&self, time: Duration) {
        add(&self.cpu_ns, time);
    }

    pub fn progress(&self, elapsed: Duration, running: bool) -> FillProgress {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let seconds = |counter: &AtomicU64| Duration::from_nanos(read(counter)).as_secs_f64();
        FillProgress {
            running,
            seconds: elapsed.as_secs_f64(),
            rows: read(&self.rows),
            committed: read(&self.committed),
            bytes: read(&self.bytes),
            statements: read(&self.statements),
            commits: read(&self.commits),
            generate_s: seconds(&self.generate_ns),
            send_s: seconds(&self.send_ns),
            answer_s: seconds(&self.answer_ns),
            commit_s: seconds(&self.commit_ns),
            cpu_s: seconds(&self.cpu_ns),
        }
    }

    pub fn result(&self, progress: FillProgress) -> FillResult {
        FillResult {
            progress,
            notes: self.notes.lock().clone(),
            retried: self.retried.lock().clone(),
        }
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        Ordering::Relaxed,
    );
}

/// How far a load is. Times are sums over its threads.
#[derive(Debug, Clone, Serialize)]
pub struct FillProgress {
    /// Threads are at work.
    pub running: bool,
    /// Since its start, or in all.
    pub seconds: f64,
    /// Rows sent.
    pub rows: u64,
    /// Rows committed.
    pub committed: u64,
    /// Bytes of rows sent.
    pub bytes: u64,
    /// Statements that brought rows.
    pub statements: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Making rows.
    pub generate_s: f64,
    /// Handing them to the kernel.
    pub send_s: f64,
    /// Waiting for answers to statements.
    pub answer_s: f64,
    /// Waiting for commits.
    pub commit_s: f64,
    /// Processor time.
    pub cpu_s: f64,
}

/// What a load has done.
#[derive(Debug, Clone, Serialize)]
pub struct FillResult {
    /// At its end.
    #[serde(flatten)]
    pub progress: FillProgress,
    /// The server's notes on rows that it took as they are, and how many statements had them.
    pub notes: BTreeMap<String, u64>,
    /// Transactions that were sent again, by the server's error.
    pub retried: BTreeMap<u16, u64>,
}
