//! What one thread counts.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::time::{clock_gettime, ClockId};
use nix::unistd::{gettid, Pid};

use crate::spec::ErrorCount;
use crate::Error;

/// Longer latencies count as this; a read times out before.
const MAX_LATENCY: Duration = Duration::from_secs(120);
/// Significant digits of a histogram.
const DIGITS: u8 = 3;
/// Seconds that per-second counts have room for before they grow.
const SECONDS_ROOM: usize = 3600;

/// Latencies in nanoseconds.
pub(crate) type Latencies = Histogram<u32>;

/// CPU time of a thread, readable from other threads.
#[derive(Debug, Clone, Copy)]
enum Cpu {
    Running(Pid),
    Ended(Duration),
}

impl Cpu {
    fn used(self) -> Duration {
        match self {
            // MAKE_THREAD_CPUCLOCK(tid, CPUCLOCK_SCHED) of the kernel's ABI
            // (include/linux/posix-timers_types.h); glibc's pthread_getcpuclockid makes the same id.
            Self::Running(tid) => {
                let clock = ClockId::from_raw((!tid.as_raw() << 3) | 0b110);
                clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
            }
            Self::Ended(used) => used,
        }
    }
}

/// Events and errors of one measured window.
#[derive(Debug)]
pub(crate) struct Window {
    pub events: u64,
    pub per_second: Vec<u64>,
    pub latencies: Latencies,
    pub errors: Vec<ErrorCount>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            events: 0,
            per_second: Vec::with_capacity(SECONDS_ROOM),
            latencies: Histogram::new_with_bounds(1, MAX_LATENCY.as_nanos() as u64, DIGITS)
                .expect("the bounds are constants that hdrhistogram takes"),
            errors: Vec::new(),
        }
    }
}

/// What one thread counts, since start and in the window.
///
/// It lives under a lock that the thread takes once per event and others take rarely. An event ends at
/// the moment that is taken under that lock: whoever holds it knows that all earlier events are
/// counted and that none ends.
#[derive(Debug)]
pub(crate) struct Meter {
    start: Instant,
    pub events: u64,
    pub per_second: Vec<u64>,
    pub errors: u64,
    window: Option<(Instant, Window)>,
    cpu: Option<Cpu>,
}

impl Meter {
    pub fn new(start: Instant) -> Self {
        Self {
            start,
            events: 0,
            per_second: Vec::with_capacity(SECONDS_ROOM),
            errors: 0,
            window: None,
            cpu: None,
        }
    }

    /// Counts an event that began at `begun` and ends now.
    #[inline]
    pub fn completed(&mut self, begun: Instant) {
        let now = Instant::now();
        self.events += 1;
        count_second(&mut self.per_second, now.duration_since(self.start));
        if let Some((start, window)) = &mut self.window {
            window.events += 1;
            count_second(&mut window.per_second, now.duration_since(*start));
            window
                .latencies
                .saturating_record(now.duration_since(begun).as_nanos() as u64);
        }
    }

    /// Counts a server error that came just now.
    pub fn refused(&mut self, error: &Error) {
        self.errors += 1;
        if let Some((_, window)) = &mut self.window {
            count_error(&mut window.errors, error);
        }
    }

    /// Opens `window` at `start`, in place of the one that is open.
    pub fn open(&mut self, start: Instant, window: Window) {
        self.window = Some((start, window));
    }

    /// Closes the window; none if none is open.
    pub fn close(&mut self) -> Option<Window> {
        self.window.take().map(|(_, window)| window)
    }

    /// The calling thread is the one that counts here.
    pub fn thread_begins(&mut self) {
        self.cpu = Some(Cpu::Running(gettid()));
    }

    /// The calling thread ends and leaves its CPU time behind.
    pub fn thread_ends(&mut self) {
        self.cpu = self.cpu.map(|cpu| Cpu::Ended(cpu.used()));
    }

    /// User and system time of the thread so far.
    pub fn cpu(&self) -> Duration {
        self.cpu.map_or(Duration::ZERO, Cpu::used)
    }
}

#[inline]
fn count_second(per_second: &mut Vec<u64>, elapsed: Duration) {
    let second = elapsed.as_secs() as usize;
    if second >= per_second.len() {
        per_second.resize(second + 1, 0);
    }
    per_second[second] += 1;
}

fn count_error(errors: &mut Vec<ErrorCount>, error: &Error) {
    let errno = error.errno.unwrap_or_default();
    match errors.iter_mut().find(|known| known.errno == errno) {
        Some(known) => known.count += 1,
        None => errors.push(ErrorCount {
            errno,
            sqlstate: error.sqlstate.clone().unwrap_or_default(),
            message: error.message.clone(),
            count: 1,
        }),
    }
}

/// Adds the errors of one thread to those of others.
pub(crate) fn merge_errors(all: &mut Vec<ErrorCount>, some: Vec<ErrorCount>) {
    for error in some {
        match all.iter_mut().find(|known| known.errno == error.errno) {
            Some(known) => known.count += error.count,
            None => all.push(error),
        }
    }
}

/// Adds per-second counts, keeping the whole seconds of `elapsed` only.
pub(crate) fn merge_seconds<'a>(counts: impl Iterator<Item = &'a [u64]>, elapsed: Duration) -> Vec<u64> {
    let mut all = vec![0; elapsed.as_secs() as usize];
    for some in counts {
        for (total, count) in all.iter_mut().zip(some) {
            *total += count;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn deadlock() -> Error {
        Error {
            kind: Kind::Server,
            errno: Some(1213),
            sqlstate: Some("40001".into()),
            message: "Deadlock found".into(),
        }
    }

    #[test]
    fn events_outside_the_window_count_since_start_only() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.completed(now);
        meter.refused(&deadlock());
        meter.open(now, Window::default());
        meter.completed(now);
        let window = meter.close().unwrap();
        meter.completed(now);
        assert_eq!((meter.events, window.events, window.latencies.len()), (3, 1, 1));
        assert_eq!((meter.errors, window.errors.len()), (1, 0));
    }

    #[test]
    fn a_window_that_is_opened_anew_forgets() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.open(now, Window::default());
        meter.completed(now);
        meter.open(now, Window::default());
        assert_eq!(meter.close().unwrap().events, 0);
        assert!(meter.close().is_none());
    }

    #[test]
    fn errors_are_counted_by_errno_with_the_first_message() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.open(now, Window::default());
        meter.refused(&deadlock());
        meter.refused(&Error {
            message: "again".into(),
            ..deadlock()
        });
        let counted = meter.close().unwrap().errors;
        let mut all = Vec::new();
        merge_errors(&mut all, counted.clone());
        merge_errors(&mut all, counted);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].count, all[0].message.as_str()), (4, "Deadlock found"));
    }

    #[test]
    fn a_second_that_is_not_over_is_left_out() {
        let counts = [vec![1, 2, 3], vec![10]];
        let merged = merge_seconds(counts.iter().map(Vec::as_slice), Duration::from_millis(2999));
        assert_eq!(merged, [11, 2]);
        let quiet = merge_seconds(counts.iter().map(Vec::as_slice), Duration::from_secs(4));
        assert_eq!(quiet, [11, 2, 3, 0]);
    }

    #[test]
    fn a_threads_cpu_time_is_seen_by_another_and_survives_the_thread() {
        let mut meter = Meter::new(Instant::now());
        assert_eq!(meter.cpu(), Duration::ZERO);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                meter.thread_begins();
                let begun = meter.cpu();
                while meter.cpu() < begun + Duration::from_millis(5) {
                    std::hint::spin_loop();
                }
                meter.thread_ends();
            });
        });
        assert!(meter.cpu() >= Duration::from_millis(5));
        assert_eq!(meter.cpu(), meter.cpu());
    }

    #[test]
    fn latencies_keep_three_digits() {
        let mut window = Window::default();
        window.latencies.saturating_record(123_456_789);
        let read = window.latencies.value_at_quantile(0.5) as f64;
        assert!((read / 123_456_789.0 - 1.0).abs() < 0.001);
    }
}
