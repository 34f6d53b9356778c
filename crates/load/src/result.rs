//! What comes out: the JSON of `flushlab.record.load`.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use hdrhistogram::serialization::V2DeflateSerializer;
use serde::Serialize;

use crate::meter::{latencies, merge_errors, merge_seconds, Latencies, Window};
use crate::schedule::Kept;

/// A thread of the client that was on a CPU for this share of the window was saturated: what it measured is
/// itself. (The rest of a saturated thread's time goes into waiting for a CPU and into system calls that
/// sleep for a moment.)
pub const CLIENT_BOUND: f64 = 0.9;

/// A second that adds less than this share of the median second is a stall.
const STALL: f64 = 0.1;

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

/// How often a server error came (`flushlab.record.ErrorCount`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// What events of each whole second since start add to the figure, committed or not.
    pub per_second: Vec<u64>,
    /// Server errors since start.
    pub errors: u64,
    /// Why the load stopped by itself.
    pub failed: Option<String>,
    /// The way out, if one is known.
    pub hint: Option<String>,
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

/// One second of a window (`flushlab.record.Interval`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interval {
    /// From 0; the last may be shorter.
    pub second: u64,
    /// What its events added to the figure.
    pub figure: u64,
    /// Events that ended in it.
    pub events: u64,
    /// Server errors in it.
    pub errors: u64,
    /// Latency of its events; none if there were none.
    pub latency_us: Option<Latency>,
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
    /// Commits that were acknowledged in the window.
    pub commits: u64,
    /// Server errors inside the window, by errno and SQLSTATE.
    pub errors: Vec<ErrorCount>,
    /// User and system time of the load's threads per event.
    pub client_cpu_us_per_event: Option<f64>,
    /// Share of the window that its busiest thread was on a CPU.
    pub client_busy: Option<f64>,
    /// The client was the limit: see [`CLIENT_BOUND`].
    pub client_bound: bool,
    /// Whole seconds of the window, from 0, that added less than a tenth of the median second to the figure.
    pub stalls: Vec<u64>,
    /// What became of the rate; none in a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// Connections that were lost in the window.
    pub lost_connections: u64,
    /// The window by seconds, where that was asked for.
    pub intervals: Vec<Interval>,
    /// The latencies of each second in HdrHistogram's log format, where that was asked for.
    pub hdr_log: Option<String>,
    /// What became of the rows, where rows are counted.
    pub rows: Option<RowCounts>,
    /// Time per kind of statement of a script, the most time first.
    pub kinds: Vec<KindTime>,
}

/// A window that was closed, with what it takes to make sense of it.
#[derive(Debug)]
pub(crate) struct Closed<'a> {
    pub windows: Vec<Window>,
    pub length: Duration,
    /// CPU time of each thread in the window.
    pub cpu: Vec<Duration>,
    /// Names of the kinds of statements.
    pub statements: &'a [String],
    pub counts_rows: bool,
    /// Whether the driver commits; its COMMIT is then the last kind.
    pub commits_itself: bool,
    /// What an event adds to the figure.
    pub amount: u32,
    pub kept: Option<Kept>,
    /// When it was opened, for the log.
    pub opened: SystemTime,
}

impl Closed<'_> {
    /// The result of all threads together.
    pub fn result(self) -> LoadResult {
        let Self { length, .. } = self;
        let seconds = length.as_secs_f64();
        let sum = |count: fn(&Window) -> u64| self.windows.iter().map(count).sum::<u64>();
        let (events, acknowledged) = (sum(|window| window.events), sum(|window| window.acknowledged));
        let commits = sum(|window| window.commits);
        let per_second = merge_seconds(self.windows.iter().map(|window| &window.per_second[..]), length);
        let statements: Vec<_> = (0..self.statements.len())
            .map(|kind| added(self.windows.iter().map(|window| &window.statements[kind])))
            .collect();
        let (intervals, hdr_log) = self.intervals();
        let mut errors = Vec::new();
        for window in &self.windows {
            merge_errors(&mut errors, window.errors.clone());
        }
        errors.sort_by(|one, other| (one.errno, &one.sqlstate).cmp(&(other.errno, &other.sqlstate)));
        let cpu: Duration = self.cpu.iter().sum();
        let busiest = self.cpu.iter().max();
        let client_busy = busiest.map(|cpu| cpu.as_secs_f64() / seconds.max(f64::MIN_POSITIVE));
        let commit_latency = statements
            .last()
            .filter(|_| self.commits_itself)
            .and_then(latency);
        LoadResult {
            seconds,
            events,
            throughput: acknowledged as f64 / seconds,
            stalls: stalls(&per_second),
            per_second,
            latency_us: latency(&added(self.windows.iter().map(|window| &window.latencies))),
            statements: self
                .statements
                .iter()
                .zip(&statements)
                .filter_map(|(name, some)| {
                    Some(StatementLatency {
                        statement: name.clone(),
                        count: some.len(),
                        latency_us: latency(some)?,
                    })
                })
                .collect(),
            commits,
            errors,
            client_cpu_us_per_event: (events > 0).then(|| cpu.as_secs_f64() * 1e6 / events as f64),
            client_busy,
            client_bound: client_busy.is_some_and(|busy| busy >= CLIENT_BOUND),
            open_loop: self.kept.map(|kept| OpenLoop {
                intended: kept.due as f64 * f64::from(self.amount) / seconds,
                backlog_max: kept.backlog_most,
                backlog_end: kept.backlog_end,
                lag_us: latency(&added(
                    self.windows.iter().filter_map(|window| window.lag.as_ref()),
                )),
            }),
            lost_connections: sum(|window| window.lost_connections),
            rows: self.counts_rows.then(|| RowCounts {
                committed: acknowledged,
                updated: sum(|window| window.updated),
                rolled_back: sum(|window| window.rolled_back),
                commits,
                commit_latency_us: commit_latency,
            }),
            kinds: Vec::new(),
            intervals,
            hdr_log,
        }
    }

    /// Seconds and their log, if they were kept.
    fn intervals(&self) -> (Vec<Interval>, Option<String>) {
        let kept: Vec<_> = self
            .windows
            .iter()
            .filter_map(|window| Some((window, window.intervals.as_ref()?)))
            .collect();
        if kept.is_empty() {
            return (Vec::new(), None);
        }
        let all = self.length.as_nanos().div_ceil(1_000_000_000) as usize;
        let seconds: Vec<Latencies> = (0..all)
            .map(|second| {
                let ended = kept.iter().flat_map(|(_, intervals)| &intervals.ended);
                added(ended.filter(|(at, _)| *at == second).map(|(_, some)| some))
            })
            .collect();
        let at = |counts: &[u64], second: usize| counts.get(second).copied().unwrap_or_default();
        let intervals = seconds.iter().enumerate().map(|(second, latencies)| Interval {
            second: second as u64,
            figure: kept
                .iter()
                .map(|(window, _)| at(&window.per_second, second))
                .sum(),
            events: latencies.len(),
            errors: kept
                .iter()
                .map(|(_, intervals)| at(&intervals.errors, second))
                .sum(),
            latency_us: latency(latencies),
        });
        (intervals.collect(), Some(self.hdr_log(&seconds)))
    }

    /// HdrHistogram's interval log: one histogram of nanoseconds per second; maxima in milliseconds.
    fn hdr_log(&self, seconds: &[Latencies]) -> String {
        const INTO_MEMORY: &str = "a log in memory takes every histogram of these bounds";
        let mut log = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder
            .add_comment("flushlab: latencies in nanoseconds")
            .with_start_time(self.opened)
            .with_base_time(self.opened)
            .with_max_value_divisor(1e6);
        let mut writer = builder
            .begin_log_with(&mut log, &mut serializer)
            .expect(INTO_MEMORY);
        for (second, latencies) in seconds.iter().enumerate() {
            let start = Duration::from_secs(second as u64);
            let length = (self.length - start).min(Duration::from_secs(1));
            writer
                .write_histogram(latencies, start, length, None)
                .expect(INTO_MEMORY);
        }
        String::from_utf8(log).expect("the log's format is ASCII")
    }
}

fn added<'a>(some: impl Iterator<Item = &'a Latencies>) -> Latencies {
    let mut sum = latencies();
    for one in some {
        sum.add(one).expect("all histograms have the same bounds");
    }
    sum
}

/// What a histogram says; nothing if it is empty.
fn latency(latencies: &Latencies) -> Option<Latency> {
    if latencies.is_empty() {
        return None;
    }
    let us = |ns: u64| (ns + 500) / 1000;
    let at = |quantile| us(latencies.value_at_quantile(quantile));
    Some(Latency {
        mean: latencies.mean() / 1000.0,
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: us(latencies.max()),
    })
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
    use crate::meter::{Answered, Ended, Meter, Shape};
    use crate::workload::Effect;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use hdrhistogram::serialization::Deserializer;
    use std::time::Instant;

    #[test]
    fn a_second_under_a_tenth_of_the_median_is_a_stall() {
        assert_eq!(stalls(&[100, 9, 100, 10, 0, 120, 100]), [1, 4]);
        assert_eq!(stalls(&[0, 0, 0, 5]), Vec::<u64>::new());
        assert_eq!(stalls(&[]), Vec::<u64>::new());
    }

    /// Three events: two in the first second, one of them slow, none in the second, one in the third.
    fn three_seconds() -> Window {
        let ago = |millis| Instant::now().checked_sub(Duration::from_millis(millis)).unwrap();
        let shape = Shape {
            statements: 1,
            lanes: 1,
            open_loop: false,
            intervals: true,
        };
        let mut meter = Meter::new(ago(5000));
        let answer = |meter: &mut Meter, took| {
            let begun = ago(took);
            meter.answered(Answered {
                lane: 0,
                statement: 0,
                sent: begun,
                commits: true,
                event: Some(Ended {
                    begun,
                    effect: Effect::TRANSACTION,
                    waits: false,
                }),
            });
        };
        let window = Window::new(shape);
        meter.open(ago(100), window);
        answer(&mut meter, 3);
        answer(&mut meter, 40);
        meter.close();
        let mut window = meter.take_settled().unwrap();
        meter.open(ago(2100), Window::new(shape));
        answer(&mut meter, 7);
        meter.close();
        let later = meter.take_settled().unwrap().intervals.unwrap();
        window.intervals.as_mut().unwrap().ended.extend(later.ended);
        window
    }

    #[test]
    fn the_hdr_log_is_read_by_hdrhistograms_own_reader() {
        let closed = Closed {
            windows: vec![three_seconds()],
            length: Duration::from_millis(2500),
            cpu: vec![Duration::from_millis(2300)],
            statements: &["UPDATE".to_owned()],
            counts_rows: false,
            commits_itself: false,
            amount: 1,
            kept: None,
            opened: SystemTime::now(),
        };
        let result = closed.result();
        assert!(result.client_bound && result.client_busy.unwrap() > 0.91);
        let events: Vec<_> = result.intervals.iter().map(|interval| interval.events).collect();
        assert_eq!(events, [2, 0, 1]);
        let log = result.hdr_log.unwrap();
        let mut histograms = Vec::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let bytes = base64(interval.encoded_histogram());
                let read: Latencies = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                histograms.push((
                    interval.start_timestamp(),
                    interval.duration(),
                    interval.max(),
                    read,
                ));
            }
        }
        assert_eq!(histograms.len(), 3);
        let (start, length, max, last) = &histograms[2];
        assert_eq!(
            (*start, *length),
            (Duration::from_secs(2), Duration::from_millis(500))
        );
        assert!((7.0..8.0).contains(max), "{max}");
        assert!((7_000_000..8_000_000).contains(&last.max()));
        assert!(histograms[0].3.max() >= 40_000_000 && histograms[1].3.is_empty());
    }

    fn base64(text: &str) -> Vec<u8> {
        let digit = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let mut bytes = Vec::new();
        for four in text.trim_end_matches('=').as_bytes().chunks(4) {
            let bits = four
                .iter()
                .fold(0u32, |bits, &byte| bits << 6 | u32::from(digit(byte)));
            let bits = bits << (6 * (4 - four.len()) + 8);
            bytes.extend(&bits.to_be_bytes()[..four.len() * 6 / 8]);
        }
        bytes
    }
}
