//! How long a disk takes to answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::mix::mix;

/// The 99th percentile of a standard normal distribution.
const Z99: f64 = 2.326_347_9;
/// Longest answer, as a multiple of the 99th percentile: longer ones are not drawn.
const LONGEST: f64 = 8.0;

/// How long one kind of request takes: log-normal, as the latencies of disks and networks are, roughly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 99th percentile, in microseconds; the median: always the same.
    pub p99_us: f64,
    /// What the way to the disk and back takes in any case, in microseconds; it is taken off.
    #[serde(default)]
    pub way_us: f64,
}

impl Latency {
    fn draw(&self, random: u64) -> Duration {
        let spread = (self.p99_us / self.p50_us).ln() / Z99;
        let us = if spread > 0.0 {
            (self.p50_us * (spread * normal(random)).exp()).min(self.p99_us * LONGEST)
        } else {
            self.p50_us
        };
        Duration::from_secs_f64((us - self.way_us).max(0.0) / 1e6)
    }
}

/// A standard normal deviate (Box and Muller, 1958).
fn normal(random: u64) -> f64 {
    let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * unit(random).ln()).sqrt() * (std::f64::consts::TAU * unit(mix(random))).cos()
}

/// A slow disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// Of a flush.
    pub flush: Option<Latency>,
    /// Of a write.
    pub write: Option<Latency>,
    /// Of a read.
    pub read: Option<Latency>,
    /// Reads and writes per second.
    pub iops: Option<f64>,
    /// Bytes per second, read and written.
    pub bytes_per_s: Option<f64>,
}

/// What is asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A flush.
    Flush,
    /// A write of so many bytes.
    Write(usize),
    /// A read of so many bytes.
    Read(usize),
}

/// Says when requests are answered.
pub struct Clock {
    delays: Mutex<Delays>,
    drawn: AtomicU64,
    /// When the disk takes the next request, going by its requests and its bytes per second.
    free: Mutex<Option<Instant>>,
}

impl Clock {
    pub fn new(delays: Delays) -> Self {
        Self {
            delays: Mutex::new(delays),
            drawn: AtomicU64::new(0),
            free: Mutex::new(None),
        }
    }

    /// From now on.
    pub fn set(&self, delays: Delays) {
        *self.delays.lock() = delays;
    }

    /// When a request that came at `now` is answered; none: at once.
    pub fn due(&self, request: Request, now: Instant) -> Option<Instant> {
        let delays = *self.delays.lock();
        let (latency, bytes) = match request {
            Request::Flush => (delays.flush, None),
            Request::Write(bytes) => (delays.write, Some(bytes)),
            Request::Read(bytes) => (delays.read, Some(bytes)),
        };
        let takes = latency.map_or(Duration::ZERO, |latency| {
            latency.draw(mix(self.drawn.fetch_add(1, Ordering::Relaxed)))
        });
        let due = match bytes {
            None => now + takes,
            Some(bytes) => {
                let carried = delays.bytes_per_s.map_or(0.0, |rate| bytes as f64 / rate);
                let carried = Duration::from_secs_f64(carried);
                let kept_busy = carried.max(delays.iops.map_or(Duration::ZERO, per_one));
                self.turn(now, kept_busy) + takes.max(carried)
            }
        };
        (due > now).then_some(due)
    }

    /// When a disk that is kept busy for so long by each request begins with one.
    fn turn(&self, now: Instant, kept_busy: Duration) -> Instant {
        if kept_busy.is_zero() {
            return now;
        }
        let mut free = self.free.lock();
        let begins = free.map_or(now, |free| free.max(now));
        *free = Some(begins + kept_busy);
        begins
    }
}

fn per_one(rate: f64) -> Duration {
    Duration::from_secs_f64(1.0 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p50_us: f64, p99_us: f64) -> Option<Latency> {
        Some(Latency {
            p50_us,
            p99_us,
            way_us: 0.0,
        })
    }

    #[test]
    fn latencies_have_the_median_and_the_tail_that_were_asked_for() {
        let clock = Clock::new(Delays {
            flush: latency(700.0, 2700.0),
            ..Delays::default()
        });
        let now = Instant::now();
        let mut us: Vec<f64> = (0..20_000)
            .map(|_| (clock.due(Request::Flush, now).unwrap() - now).as_secs_f64() * 1e6)
            .collect();
        us.sort_by(f64::total_cmp);
        assert!((us[10_000] / 700.0 - 1.0).abs() < 0.05, "{}", us[10_000]);
        assert!((us[19_800] / 2700.0 - 1.0).abs() < 0.1, "{}", us[19_800]);
    }

    #[test]
    fn requests_beyond_the_limit_wait_for_their_turn() {
        let clock = Clock::new(Delays {
            iops: Some(1000.0),
            ..Delays::default()
        });
        let now = Instant::now();
        let last = (0..50)
            .filter_map(|_| clock.due(Request::Write(512), now))
            .max()
            .unwrap();
        assert_eq!((last - now).as_millis(), 49);
        assert_eq!(clock.due(Request::Flush, now), None);
    }

    #[test]
    fn what_is_carried_takes_its_time_and_keeps_the_next_waiting() {
        let clock = Clock::new(Delays {
            bytes_per_s: Some(1e6),
            ..Delays::default()
        });
        let now = Instant::now();
        assert_eq!(
            (clock.due(Request::Write(10_000), now).unwrap() - now).as_millis(),
            10
        );
        assert_eq!(
            (clock.due(Request::Read(10_000), now).unwrap() - now).as_millis(),
            20
        );
    }

    #[test]
    fn what_the_way_takes_is_taken_off() {
        let way = Latency {
            p50_us: 1000.0,
            p99_us: 1000.0,
            way_us: 200.0,
        };
        let clock = Clock::new(Delays {
            write: Some(way),
            ..Delays::default()
        });
        let now = Instant::now();
        assert_eq!(
            (clock.due(Request::Write(512), now).unwrap() - now).as_micros(),
            800
        );
    }
}
