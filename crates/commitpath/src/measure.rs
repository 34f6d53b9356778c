//! What a run counts and how its costs are sampled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::LazyLock;
use std::time::Instant;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// Longer times count as this.
const MAX_NS: u64 = 120_000_000_000;
/// One of so many commits or groups is timed: looking at the clock must not be what is measured.
const SAMPLED: u64 = 32;
/// Share of the samples, the smallest ones, that count: the rest are those during which the kernel gave the
/// processor to another thread.
const UNDISTURBED: f64 = 0.98;

/// Latencies in nanoseconds, two digits.
pub(crate) type Latencies = Histogram<u32>;

pub(crate) fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, MAX_NS, 2).expect("the bounds are constants that hdrhistogram takes")
}

/// Times of one kind of work, in nanoseconds per commit.
#[derive(Debug)]
pub(crate) struct Samples(Mutex<Histogram<u64>>);

impl Default for Samples {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_NS, 2);
        Self(Mutex::new(
            histogram.expect("the bounds are constants that hdrhistogram takes"),
        ))
    }
}

impl Samples {
    /// `commits` took `ns` together, between two looks at the clock.
    pub(crate) fn record(&self, ns: u64, commits: usize) {
        if commits > 0 {
            let ns = ns.saturating_sub(*CLOCK_NS);
            self.0.lock().saturating_record(ns / commits as u64);
        }
    }

    fn reset(&self) {
        self.0.lock().reset();
    }

    /// Mean of the undisturbed ones.
    pub(crate) fn mean(&self) -> Option<f64> {
        let samples = self.0.lock();
        let limit = samples.value_at_quantile(UNDISTURBED);
        let (mut sum, mut count) = (0.0, 0.0);
        for step in samples
            .iter_recorded()
            .filter(|step| step.value_iterated_to() <= limit)
        {
            sum += step.value_iterated_to() as f64 * step.count_at_value() as f64;
            count += step.count_at_value() as f64;
        }
        (count > 0.0).then(|| sum / count)
    }
}

/// What looking at the clock twice takes, in nanoseconds: the least of many.
static CLOCK_NS: LazyLock<u64> = LazyLock::new(|| {
    let pair = |_| {
        let start = Instant::now();
        start.elapsed().as_nanos() as u64
    };
    (0..1000).map(pair).min().unwrap_or(0)
});

/// Counted for the whole run; windows are differences.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) groups: AtomicU64,
    pub(crate) grouped: AtomicU64,
    pub(crate) rotations: AtomicU64,
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
        self.ordered.reset();
        self.encode.reset();
        self.write.reset();
        self.bytes_at_risk.store(0, Ordering::Relaxed);
    }
}

/// Looks at the clock every now and then.
#[derive(Debug, Default)]
pub(crate) struct Watch(Option<Instant>);

impl Watch {
    /// Starts if the `number`-th commit or group is to be timed.
    #[inline]
    pub(crate) fn start(number: u64) -> Self {
        Self(number.is_multiple_of(SAMPLED).then(Instant::now))
    }

    /// Notes what has passed since the start or the last lap.
    #[inline]
    pub(crate) fn lap(&mut self, samples: &Samples, commits: usize) {
        let passed = self.split();
        self.record(samples, passed, commits);
    }

    /// Notes a time, if this is timed.
    #[inline]
    pub(crate) fn record(&self, samples: &Samples, ns: u64, commits: usize) {
        if self.0.is_some() {
            samples.record(ns, commits);
        }
    }

    /// What has passed since the start or the last lap; starts again.
    #[inline]
    pub(crate) fn split(&mut self) -> u64 {
        let passed = self.0.map_or(0, |start| start.elapsed().as_nanos() as u64);
        self.skip();
        passed
    }

    /// Starts again, as after a wait that does not count.
    #[inline]
    pub(crate) fn skip(&mut self) {
        self.0 = self.0.map(|_| Instant::now());
    }
}
