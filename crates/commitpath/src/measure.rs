//! What a run counts and how its costs are sampled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::LazyLock;
use std::time::Instant;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::Serialize;

/// Longer times count as this.
const MAX_NS: u64 = 600_000_000_000;
/// One of so many commits or groups is timed: looking at the clock must not be what is measured.
const SAMPLED: u64 = 32;
/// Share of the samples, the smallest ones, that count: the rest are those during which the kernel gave the
/// processor to another thread.
const UNDISTURBED: f64 = 0.98;

/// Times in nanoseconds, three digits.
pub(crate) type Times = Histogram<u32>;

pub(crate) fn times() -> Times {
    Histogram::new_with_bounds(1, MAX_NS, 3).expect("the bounds are constants that hdrhistogram takes")
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LatencyUs {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

/// Percentiles of all threads' times; `None` without any.
pub(crate) fn latency_us<'a>(of: impl IntoIterator<Item = &'a Times>) -> Option<LatencyUs> {
    let mut sum = times();
    for one in of {
        sum.add(one).expect("all have the same bounds");
    }
    let us = |ns: u64| ns as f64 / 1000.0;
    (!sum.is_empty()).then(|| LatencyUs {
        p50: us(sum.value_at_quantile(0.5)),
        p99: us(sum.value_at_quantile(0.99)),
        max: us(sum.max()),
    })
}

/// Times of one kind of work, per commit.
#[derive(Debug)]
pub(crate) struct Samples(Mutex<Times>);

impl Default for Samples {
    fn default() -> Self {
        Self(Mutex::new(times()))
    }
}

impl Samples {
    /// `commits` took `ns` together, between two looks at the clock.
    pub(crate) fn record(&self, ns: u64, commits: usize) {
        let ns = ns.saturating_sub(*CLOCK_NS);
        self.0.lock().saturating_record(ns / commits as u64);
    }

    /// Mean of the undisturbed ones.
    pub(crate) fn mean(&self) -> Option<f64> {
        let samples = self.0.lock();
        let limit = samples.value_at_quantile(UNDISTURBED);
        let (mut sum, mut count) = (0.0, 0.0);
        for step in samples
            .iter_recorded()
            .take_while(|step| step.value_iterated_to() <= limit)
        {
            sum += step.value_iterated_to() as f64 * step.count_at_value() as f64;
            count += step.count_at_value() as f64;
        }
        (count > 0.0).then(|| sum / count)
    }
}

/// What looking at the clock twice takes, in nanoseconds: the least of many.
static CLOCK_NS: LazyLock<u64> = LazyLock::new(|| {
    let pair = |_| Instant::now().elapsed().as_nanos() as u64;
    (0..1000).map(pair).min().unwrap_or(0)
});

/// Counted for the whole run; windows are differences.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) groups: AtomicU64,
    pub(crate) grouped: AtomicU64,
    pub(crate) switches: AtomicU64,
    pub(crate) bytes_at_risk: AtomicU64,
    /// What one thread at a time can do, and decides the order: placing, in `serial` and `two-syncs` with writing.
    pub(crate) ordered: Samples,
    /// Writing events into their buffer.
    pub(crate) encode: Samples,
    /// Handing redo (unless it is synced) and binlog to the kernel: one thread at a time.
    pub(crate) write: Samples,
}

impl Counters {
    /// Forgets what was sampled and the worst moment.
    pub(crate) fn open_window(&self) {
        for samples in [&self.ordered, &self.encode, &self.write] {
            samples.0.lock().reset();
        }
        self.bytes_at_risk.store(0, Ordering::Relaxed);
    }
}

/// Looks at the clock every now and then.
#[derive(Debug)]
pub(crate) struct Watch(Option<Instant>);

impl Watch {
    /// Starts if the `number`-th commit or group is to be timed.
    pub(crate) fn start(number: u64) -> Self {
        Self(number.is_multiple_of(SAMPLED).then(Instant::now))
    }

    /// What has passed since the start or the last split, if this is timed; starts again.
    pub(crate) fn split(&mut self) -> Option<u64> {
        let start = self.0.as_mut()?;
        let passed = start.elapsed().as_nanos() as u64;
        *start = Instant::now();
        Some(passed)
    }

    /// Notes what has passed for one commit.
    pub(crate) fn lap(&mut self, samples: &Samples) {
        if let Some(ns) = self.split() {
            samples.record(ns, 1);
        }
    }
}
