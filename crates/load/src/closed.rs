//! From a window that was closed to its result.

use std::time::Duration;

use crate::meter::Window;
use crate::result::{
    FailedAttempts, Latency, LoadResult, OpenLoop, RowCounts, StatementLatency, TransactionLatency,
    CLIENT_BOUND,
};
use crate::schedule::OfferedLoad;
use crate::usage::Usage;

/// A second that adds less than this share of the median second is a stall.
const STALL: f64 = 0.1;

/// A window that was closed, with what it takes to make sense of it.
#[derive(Debug)]
pub(crate) struct Closed<'a> {
    pub window: Window,
    pub length: Duration,
    /// What the load's thread had taken at the window's beginning and at its end.
    pub usage: (Usage, Usage),
    /// Names of the kinds of statements.
    pub statements: &'a [String],
    /// The kinds of transactions, with their numbers of statements.
    pub transactions: &'a [(String, usize)],
    pub counts_rows: bool,
    /// Whether the driver commits; its COMMIT is then the last kind.
    pub commits_itself: bool,
    /// What an event adds to the figure.
    pub amount: u32,
    pub offered: Option<OfferedLoad>,
    pub unwritten: Option<String>,
}

impl Closed<'_> {
    /// What the window gave.
    pub fn result(self) -> LoadResult {
        let window = self.window;
        let seconds = self.length.as_secs_f64();
        let (events, acknowledged) = (window.events, window.acknowledged);
        let per_second = whole_seconds(&window.per_second, self.length, usize::MAX);
        let mut errors = window.errors;
        errors.sort_by(|one, other| (one.errno, &one.sqlstate).cmp(&(other.errno, &other.sqlstate)));
        let (before, after) = self.usage;
        let cpu_s = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        let busy = cpu_s / seconds.max(f64::MIN_POSITIVE);
        let commit_latency = window.statements.last().filter(|_| self.commits_itself);
        let statements = self.statements.iter().zip(&window.statements);
        LoadResult {
            seconds,
            events,
            throughput: acknowledged as f64 / seconds,
            stalls: stalls(&per_second),
            per_second,
            latency_us: Latency::of(&window.latencies),
            statements: statements
                .filter_map(|(name, some)| {
                    Some(StatementLatency {
                        statement: name.clone(),
                        count: some.len(),
                        latency_us: Latency::of(some)?,
                    })
                })
                .collect(),
            transactions: self
                .transactions
                .iter()
                .zip(&window.transactions)
                .map(|((name, _), some)| TransactionLatency {
                    transaction: name.clone(),
                    count: some.len(),
                    throughput: some.len() as f64 / seconds,
                    latency_us: Latency::of(some),
                })
                .collect(),
            commits: window.commits,
            errors,
            failed: Latency::of(&window.failed).map(|latency_us| FailedAttempts {
                count: window.failed.len(),
                latency_us,
            }),
            capped: window.capped,
            client_cpu_us_per_event: (events > 0).then(|| cpu_s * 1e6 / events as f64),
            client: after.cost_since(&before, events),
            client_busy: Some(busy),
            client_bound: busy >= CLIENT_BOUND,
            open_loop: self.offered.map(|offered| OpenLoop {
                intended: offered.due as f64 * f64::from(self.amount) / seconds,
                backlog_max: offered.backlog_most,
                backlog_end: offered.backlog_end,
                lag_us: window.lag.as_ref().and_then(Latency::of),
            }),
            lost_connections: window.lost_connections,
            rows: self.counts_rows.then(|| RowCounts {
                committed: acknowledged,
                updated: window.updated,
                rolled_back: window.rolled_back,
                commits: window.commits,
                commit_latency_us: commit_latency.and_then(Latency::of),
            }),
            kinds: Vec::new(),
            unwritten: self.unwritten,
        }
    }
}

/// What the whole seconds of `elapsed` count, the last `most` of them.
pub(crate) fn whole_seconds(counts: &[u64], elapsed: Duration, most: usize) -> Vec<u64> {
    let whole = elapsed.as_secs() as usize;
    let at = |second: usize| counts.get(second).copied().unwrap_or_default();
    (whole.saturating_sub(most)..whole).map(at).collect()
}

fn stalls(per_second: &[u64]) -> Vec<u64> {
    let mut sorted = per_second.to_vec();
    sorted.sort_unstable();
    let Some(&median) = sorted.get(sorted.len() / 2) else {
        return Vec::new();
    };
    let stalled = |amount: u64| (amount as f64) < median as f64 * STALL;
    let seconds = per_second.iter().enumerate();
    seconds
        .filter(|(_, &amount)| stalled(amount))
        .map(|(second, _)| second as u64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_under_a_tenth_of_the_median_is_a_stall() {
        assert_eq!(stalls(&[100, 9, 100, 10, 0, 120, 100]), [1, 4]);
        assert_eq!(stalls(&[0, 0, 0, 5]), Vec::<u64>::new());
        assert_eq!(stalls(&[]), Vec::<u64>::new());
    }

    #[test]
    fn a_second_that_is_not_over_is_left_out() {
        let counts = [11, 2, 3];
        let elapsed = Duration::from_millis(2999);
        assert_eq!(whole_seconds(&counts, elapsed, usize::MAX), [11, 2]);
        assert_eq!(
            whole_seconds(&counts, Duration::from_secs(4), usize::MAX),
            [11, 2, 3, 0]
        );
        assert_eq!(whole_seconds(&counts, Duration::from_secs(4), 2), [3, 0]);
    }
}
