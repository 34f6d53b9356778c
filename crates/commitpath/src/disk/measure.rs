//! The loop and its clock.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::files::{next_random, Buffer, Target, Unfit};
use super::spec::{Error, Figure, Latency, Layout, Order, Outcome, Spec, Way};

/// Operations of each thread before the clock starts: the first finds the journal as preparation left it.
const WARM_UP: usize = 3;
const SIGNIFICANT_DIGITS: u8 = 3;
/// Slower operations count as this slow.
const SLOWEST_NS: u64 = 600_000_000_000;

/// Measures, until the window is over or `stop` says so.
///
/// # Errors
///
/// Usage for a spec that contradicts itself; Io where the file system fails.
pub fn measure(spec: &Spec, stop: &(dyn Fn() -> bool + Sync)) -> Result<Outcome, Error> {
    spec.check()?;
    match run(spec, stop) {
        Ok(_) if stop() => Ok(Outcome::Stopped),
        Ok(figure) => Ok(Outcome::Measured(figure)),
        Err(Unfit::Refused(reason)) => Ok(Outcome::Refused(reason)),
        Err(Unfit::Failed(error)) => Err(error),
    }
}

/// Where the next write goes.
struct Places {
    order: Order,
    blocks: u64,
    bytes: u64,
    next: AtomicU64,
}

impl Places {
    fn next(&self, random: &mut u64) -> u64 {
        let block = match self.order {
            Order::Sequential => self.next.fetch_add(1, Ordering::Relaxed) % self.blocks,
            Order::Random => {
                *random = next_random(*random);
                (*random >> 16) % self.blocks
            }
        };
        block * self.bytes
    }
}

fn run(spec: &Spec, stop: &(dyn Fn() -> bool + Sync)) -> Result<Figure, Unfit> {
    let (target, file_bytes) = Target::open(spec, stop)?;
    let places = Places {
        order: spec.order,
        blocks: (file_bytes / spec.bytes as u64).max(1),
        bytes: spec.bytes as u64,
        next: AtomicU64::new(0),
    };
    let failure: Mutex<Option<io::Error>> = Mutex::new(None);
    let ended = AtomicBool::new(false);
    let one = |index: usize| -> (Histogram<u64>, f64) {
        let worker = Worker {
            spec,
            target: &target,
            places: &places,
            ended: &|| ended.load(Ordering::Relaxed) || stop(),
        };
        worker.run(index).unwrap_or_else(|error| {
            ended.store(true, Ordering::Relaxed);
            if let Ok(mut first) = failure.lock() {
                first.get_or_insert(error);
            }
            (histogram(), 0.0)
        })
    };
    let (total, seconds) = if spec.depth == 1 {
        one(0)
    } else {
        together(spec.depth, &one)
    };
    if let Some(error) = failure.into_inner().unwrap_or_default() {
        return Err(target.judge(spec, error));
    }
    target.settle(spec)?;
    let us = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
    Ok(Figure {
        operations: total.len(),
        seconds,
        latency_us: Latency {
            mean: total.mean() / 1000.0,
            p50: us(total.value_at_quantile(0.5)),
            p99: us(total.value_at_quantile(0.99)),
            max: us(total.max()),
        },
        file_bytes,
    })
}

/// As many threads as the depth; the window is as long as the longest.
fn together(depth: usize, one: &(dyn Fn(usize) -> (Histogram<u64>, f64) + Sync)) -> (Histogram<u64>, f64) {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..depth).map(|index| scope.spawn(move || one(index))).collect();
        let mut total = histogram();
        let mut longest = 0.0_f64;
        for thread in threads {
            // A panic is a bug; it goes on where the threads are joined.
            let (part, seconds) = match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            // Both have the same precision, so nothing is out of range.
            let _ = total.add(part);
            longest = longest.max(seconds);
        }
        (total, longest)
    })
}

struct Worker<'a> {
    spec: &'a Spec,
    target: &'a Target,
    places: &'a Places,
    ended: &'a dyn Fn() -> bool,
}

impl Worker<'_> {
    /// Latencies in nanoseconds, and how long the window was.
    fn run(&self, index: usize) -> io::Result<(Histogram<u64>, f64)> {
        let buffer = Buffer::new(self.spec.bytes);
        let mut random = next_random(0x5851_f42d_4c95_7f2d ^ (index as u64) << 32);
        for _ in 0..WARM_UP {
            self.operation(&buffer, &mut random)?;
        }
        let window = Duration::from_secs_f64(self.spec.seconds);
        let mut latencies = histogram();
        let start = Instant::now();
        let mut before = start;
        while before.duration_since(start) < window && !(self.ended)() {
            self.operation(&buffer, &mut random)?;
            let after = Instant::now();
            let took = after.duration_since(before).as_nanos() as u64;
            latencies.saturating_record(took.max(1));
            before = after;
        }
        Ok((latencies, before.duration_since(start).as_secs_f64()))
    }

    fn operation(&self, buffer: &Buffer, random: &mut u64) -> io::Result<()> {
        let offset = self.places.next(random);
        let grows = self.spec.layout == Layout::Extending || self.spec.way == Way::Pair;
        if offset == 0 && grows {
            self.target.rewind(self.spec.layout)?;
        }
        self.target.write(buffer.get(), offset, offset)
    }
}

fn histogram() -> Histogram<u64> {
    match Histogram::new_with_max(SLOWEST_NS, SIGNIFICANT_DIGITS) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("three digits and a bound above 2 are always accepted"),
    }
}
