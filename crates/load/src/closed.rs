//! From a window that was closed to its result.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::meter::Window;
use crate::result::{
    FailedAttempts, Latency, LoadResult, OpenLoop, RowCounts, StatementLatency, TransactionLatency,
    CLIENT_BOUND,
};
use crate::schedule::OfferedLoad;
use crate::usage::Usage;
use crate::{Error, ErrorKind};

/// A second that adds less than this share of the median second is a stall.
const STALL: f64 = 0.1;

/// A window that was closed, with what it takes to make sense of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Closed {
    pub window: Window,
    pub length: Duration,
    /// Length of the shortest window of those that are in it.
    pub shortest: Duration,
    /// What the load's thread had taken at the window's beginning and at its end.
    pub usage: (Usage, Usage),
    /// Share of the window that the busiest thread was on a CPU.
    pub busy: f64,
    /// Names of the kinds of statements.
    pub statements: Vec<String>,
    /// The kinds of transactions, with their numbers of statements.
    pub transactions: Vec<(String, usize)>,
    pub counts_rows: bool,
    /// Whether the driver commits; its COMMIT is then the last kind.
    pub commits_itself: bool,
    /// What an event adds to the figure.
    pub amount: u32,
    pub offered: Option<OfferedLoad>,
    pub unwritten: Option<String>,
}

/// Share of a window of that length that a thread was on a CPU.
pub(crate) fn busy(usage: &(Usage, Usage), length: Duration) -> f64 {
    let cpu = usage.1.cpu.saturating_sub(usage.0.cpu);
    cpu.as_secs_f64() / length.as_secs_f64().max(f64::MIN_POSITIVE)
}

impl Closed {
    /// Adds the window of another load generator of the same load. The length is then the mean; seconds count as
    /// far as all windows have them.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if it was another load; [`ErrorKind::Measurement`] if a counter overflows.
    fn add(&mut self, other: Self, number: u32) -> Result<(), Error> {
        if (&self.statements, &self.transactions) != (&other.statements, &other.transactions)
            || self.offered.is_some() != other.offered.is_some()
            || (self.amount, self.counts_rows, self.commits_itself)
                != (other.amount, other.counts_rows, other.commits_itself)
        {
            return Err(Error::usage("windows of different loads cannot be merged"));
        }
        if self.window.add(&other.window) {
            let message = "more events took as long as each other than a histogram can count";
            return Err(Error::new(ErrorKind::Measurement, message).hint("measure a shorter window"));
        }
        self.length = (self.length * number + other.length) / (number + 1);
        self.shortest = self.shortest.min(other.shortest);
        self.usage = (self.usage.0.and(other.usage.0), self.usage.1.and(other.usage.1));
        self.busy = self.busy.max(other.busy);
        if let (Some(offered), Some(more)) = (&mut self.offered, other.offered) {
            offered.due += more.due;
            offered.backlog_most += more.backlog_most;
            offered.backlog_end += more.backlog_end;
        }
        self.unwritten = self.unwritten.take().or(other.unwritten);
        Ok(())
    }

    /// What the window gave.
    pub fn result(self) -> LoadResult {
        let window = self.window;
        let seconds = self.length.as_secs_f64();
        let (events, acknowledged) = (window.events, window.acknowledged);
        let per_second = whole_seconds(&window.per_second, self.shortest, usize::MAX);
        let mut errors = window.errors;
        errors.sort_by(|one, other| (one.errno, &one.sqlstate).cmp(&(other.errno, &other.sqlstate)));
        let (before, after) = self.usage;
        let cpu_s = after.cpu.saturating_sub(before.cpu).as_secs_f64();
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
            client_busy: Some(self.busy),
            client_bound: self.busy >= CLIENT_BOUND,
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

/// What one load generator measured in a window, in full, so that windows of several can be merged exactly.
#[derive(Debug, Serialize, Deserialize)]
pub struct WindowPart(pub(crate) Closed);

impl WindowPart {
    /// What the window gave.
    #[must_use]
    pub fn result(self) -> LoadResult {
        self.0.result()
    }

    /// What several load generators gave together in windows that began and ended at the same moments: histograms
    /// are added bin by bin.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if there is none, or they were different loads; [`ErrorKind::Measurement`] if a counter overflows.
    pub fn merged(parts: Vec<Self>) -> Result<LoadResult, Error> {
        let mut parts = parts.into_iter();
        let Some(Self(mut whole)) = parts.next() else {
            return Err(Error::usage("no window to merge"));
        };
        for (number, Self(other)) in (1..).zip(parts) {
            whole.add(other, number)?;
        }
        Ok(whole.result())
    }

    /// From its JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if it is none.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(json)
            .map_err(|error| Error::new(ErrorKind::Protocol, format!("no window: {error}")))
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
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::record;
    use crate::meter::Shape;
    use crate::result::ErrorCount;

    /// An event: which load generator it belongs to, its latency, the second in which it ended, and whether it failed.
    type Event = (usize, u64, usize, bool);

    fn shape() -> Shape {
        Shape {
            statements: 1,
            transaction_of: vec![0],
            sessions: 1,
            open_loop: true,
            seconds: false,
        }
    }

    fn part(events: impl Iterator<Item = Event>, millis: u64) -> Closed {
        let mut window = Window::new(shape());
        let mut per_second = vec![0; 4];
        for (_, ns, second, failed) in events {
            let took = Duration::from_nanos(ns);
            if failed {
                record(&mut window.failed, took);
                window.errors = vec![ErrorCount {
                    errno: 1213,
                    sqlstate: "40001".to_owned(),
                    message: "Deadlock found".to_owned(),
                    count: window.failed.len(),
                }];
                continue;
            }
            window.events += 1;
            window.acknowledged += 1;
            per_second[second] += 1;
            let lag = window.lag.as_mut().unwrap();
            let histograms = [
                &mut window.latencies,
                &mut window.statements[0],
                &mut window.transactions[0],
                lag,
            ];
            for some in histograms {
                record(some, took);
            }
        }
        window.per_second = per_second;
        let length = Duration::from_millis(millis);
        let usage = Usage {
            cpu: Duration::ZERO,
            accounts: None,
            waits: (0, 0),
        };
        Closed {
            length,
            shortest: length,
            usage: (usage, usage),
            busy: 0.0,
            statements: vec!["UPDATE".to_owned()],
            transactions: vec![("all".to_owned(), 1)],
            counts_rows: false,
            commits_itself: false,
            amount: 1,
            offered: Some(OfferedLoad {
                due: window.events,
                backlog_most: 0,
                backlog_end: 0,
            }),
            unwritten: None,
            window,
        }
    }

    fn sent(part: Closed) -> WindowPart {
        WindowPart::from_json(&serde_json::to_vec(&WindowPart(part)).unwrap()).unwrap()
    }

    proptest! {
        #[test]
        fn parts_that_are_sent_and_merged_give_the_result_of_the_union(
            events in prop::collection::vec(
                (0..4_usize, 1..90_000_000_000_000_u64, 0..4_usize, prop::bool::weighted(0.1)), 0..400
            ),
        ) {
            let of = |number| events.iter().copied().filter(move |event| event.0 == number);
            let parts = (0..4).map(|number| sent(part(of(number), 4000))).collect();
            let whole = part(events.iter().copied(), 4000).result();
            prop_assert_eq!(WindowPart::merged(parts).unwrap(), whole);
        }
    }

    #[test]
    fn windows_of_different_length_count_whole_seconds_that_all_have() {
        let event = |second| (0, 1000, second, false);
        let long = part([event(0), event(3)].into_iter(), 4100);
        let short = part([event(0), event(2)].into_iter(), 3900);
        let merged = WindowPart::merged(vec![sent(long), sent(short)]).unwrap();
        assert_eq!((merged.seconds, merged.events), (4.0, 4));
        assert_eq!(merged.per_second, [2, 0, 1]);
        assert!((merged.throughput - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_saturated_client_says_that_the_client_binds() {
        let mut busy = part(std::iter::empty(), 1000);
        busy.busy = 0.97;
        let merged = WindowPart::merged(vec![sent(part(std::iter::empty(), 1000)), sent(busy)]).unwrap();
        assert!(merged.client_bound && merged.client_busy == Some(0.97));
    }

    #[test]
    fn a_counter_that_overflows_and_windows_of_other_loads_are_refused() {
        let full = || {
            let mut full = part([(0, 1000, 0, false)].into_iter(), 1000);
            full.window.latencies.record_n(1000, u32::MAX - 1).unwrap();
            full
        };
        let error = WindowPart::merged(vec![sent(full()), sent(full())]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Measurement);
        let mut other = part(std::iter::empty(), 1000);
        other.statements = vec!["INSERT".to_owned()];
        let different = WindowPart::merged(vec![sent(part(std::iter::empty(), 1000)), sent(other)]);
        assert_eq!(different.unwrap_err().kind, ErrorKind::Usage);
        assert_eq!(WindowPart::merged(Vec::new()).unwrap_err().kind, ErrorKind::Usage);
    }

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
