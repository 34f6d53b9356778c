//! What one thread counts.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::time::{clock_gettime, ClockId};
use nix::unistd::{gettid, Pid};

use crate::spec::ErrorCount;
use crate::workload::Effect;
use crate::Error;

/// Longer latencies count as this; a read times out before.
const MAX_LATENCY: Duration = Duration::from_secs(120);
/// Significant digits of a histogram.
const DIGITS: u8 = 3;
/// Seconds that per-second counts have room for before they grow.
const SECONDS_ROOM: usize = 3600;

/// Latencies in nanoseconds.
pub(crate) type Latencies = Histogram<u32>;

/// The clock of a thread's CPU time, readable from other threads while it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadCpu(Pid);

impl ThreadCpu {
    pub fn of_this_thread() -> Self {
        Self(gettid())
    }

    /// User and system time so far.
    pub fn used(self) -> Duration {
        // MAKE_THREAD_CPUCLOCK(tid, CPUCLOCK_SCHED) of the kernel's ABI
        // (include/linux/posix-timers_types.h); glibc's pthread_getcpuclockid makes the same id.
        let clock = ClockId::from_raw((!self.0.as_raw() << 3) | 0b110);
        clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
    }
}

#[derive(Debug, Clone, Copy)]
enum Cpu {
    Running(ThreadCpu),
    Ended(Duration),
}

impl Cpu {
    fn used(self) -> Duration {
        match self {
            Self::Running(cpu) => cpu.used(),
            Self::Ended(used) => used,
        }
    }
}

/// An empty histogram.
pub(crate) fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, MAX_LATENCY.as_nanos() as u64, DIGITS)
        .expect("the bounds are constants that hdrhistogram takes")
}

/// Events and errors of one measured window.
///
/// An event counts where it ended; what it adds to the figure counts there too, but only once its
/// transaction is committed, however late. So neither end of a window favours or punishes a
/// transaction that lies across it.
#[derive(Debug)]
pub(crate) struct Window {
    pub events: u64,
    /// What was acknowledged, by the second in which its event ended.
    pub per_second: Vec<u64>,
    pub acknowledged: u64,
    pub updated: u64,
    pub rolled_back: u64,
    pub latencies: Latencies,
    pub commits: u64,
    /// None in autocommit.
    pub commit_latencies: Option<Latencies>,
    pub errors: Vec<ErrorCount>,
    /// What waits for a commit, by second.
    waiting: Vec<(usize, Effect)>,
    closed: bool,
}

impl Window {
    /// A window over events that `wait` for a COMMIT, or do not.
    pub fn new(wait: bool) -> Self {
        Self {
            events: 0,
            per_second: Vec::with_capacity(SECONDS_ROOM),
            acknowledged: 0,
            updated: 0,
            rolled_back: 0,
            latencies: latencies(),
            commits: 0,
            commit_latencies: wait.then(latencies),
            errors: Vec::new(),
            waiting: Vec::new(),
            closed: false,
        }
    }

    fn acknowledge(&mut self, second: usize, effect: Effect) {
        self.acknowledged += effect.amount;
        self.updated += effect.updated;
        add_second(&mut self.per_second, second, effect.amount);
    }

    fn wait(&mut self, second: usize, effect: Effect) {
        match self.waiting.last_mut() {
            Some((last, sum)) if *last == second => {
                sum.amount += effect.amount;
                sum.updated += effect.updated;
            }
            _ => self.waiting.push((second, effect)),
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

    /// Counts an event that began at `begun` and ends now; `waits` if it is not committed yet. Now.
    #[inline]
    pub fn completed(&mut self, begun: Instant, effect: Effect, waits: bool) -> Instant {
        let now = Instant::now();
        self.events += 1;
        let second = now.duration_since(self.start).as_secs() as usize;
        add_second(&mut self.per_second, second, effect.amount);
        if let Some((start, window)) = self.open_window() {
            window.events += 1;
            window
                .latencies
                .saturating_record(now.duration_since(begun).as_nanos() as u64);
            let second = now.duration_since(start).as_secs() as usize;
            if waits {
                window.wait(second, effect);
            } else {
                window.commits += 1;
                window.acknowledge(second, effect);
            }
        }
        now
    }

    /// Counts a COMMIT that began at `begun` and ends now: what waited for it is acknowledged. Now.
    pub fn committed(&mut self, begun: Instant) -> Instant {
        let now = Instant::now();
        if let Some((_, window)) = self.open_window() {
            window.commits += 1;
            if let Some(latencies) = &mut window.commit_latencies {
                latencies.saturating_record(now.duration_since(begun).as_nanos() as u64);
            }
        }
        if let Some((_, window)) = &mut self.window {
            let mut waiting = std::mem::take(&mut window.waiting);
            for (second, effect) in waiting.drain(..) {
                window.acknowledge(second, effect);
            }
            window.waiting = waiting;
        }
        now
    }

    /// What waited for a commit is lost.
    pub fn rolled_back(&mut self) {
        if let Some((_, window)) = &mut self.window {
            let lost: u64 = window.waiting.iter().map(|(_, effect)| effect.amount).sum();
            window.rolled_back += lost;
            window.waiting.clear();
        }
    }

    /// Counts a server error that came just now.
    pub fn refused(&mut self, error: &Error) {
        self.errors += 1;
        if let Some((_, window)) = self.open_window() {
            count_error(&mut window.errors, error);
        }
    }

    fn open_window(&mut self) -> Option<(Instant, &mut Window)> {
        match &mut self.window {
            Some((start, window)) if !window.closed => Some((*start, window)),
            _ => None,
        }
    }

    /// Opens `window` at `start`, in place of the one that is open.
    pub fn open(&mut self, start: Instant, window: Window) {
        self.window = Some((start, window));
    }

    /// Closes the window: nothing more begins to count in it.
    pub fn close(&mut self) {
        if let Some((_, window)) = &mut self.window {
            window.closed = true;
        }
    }

    /// Whether a closed window waits for a commit.
    pub fn is_settling(&self) -> bool {
        matches!(&self.window, Some((_, window)) if window.closed && !window.waiting.is_empty())
    }

    /// The closed window, once nothing in it waits for a commit any more.
    pub fn take_settled(&mut self) -> Option<Window> {
        self.window
            .take_if(|(_, window)| window.closed && window.waiting.is_empty())
            .map(|(_, window)| window)
    }

    /// The calling thread is the one that counts here.
    pub fn thread_begins(&mut self) {
        self.cpu = Some(Cpu::Running(ThreadCpu::of_this_thread()));
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
fn add_second(per_second: &mut Vec<u64>, second: usize, amount: u64) {
    if second >= per_second.len() {
        per_second.resize(second + 1, 0);
    }
    per_second[second] += amount;
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

    fn closed(meter: &mut Meter) -> Option<Window> {
        meter.close();
        meter.take_settled()
    }

    const TEN_ROWS: Effect = Effect {
        amount: 10,
        updated: 4,
    };

    #[test]
    fn events_outside_the_window_count_since_start_only() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.completed(now, Effect::TRANSACTION, false);
        meter.refused(&deadlock());
        meter.open(now, Window::new(true));
        meter.completed(now, Effect::TRANSACTION, false);
        meter.close();
        meter.completed(now, Effect::TRANSACTION, false);
        let window = meter.take_settled().unwrap();
        meter.completed(now, Effect::TRANSACTION, false);
        assert_eq!((meter.events, window.events, window.latencies.len()), (4, 1, 1));
        assert_eq!((window.acknowledged, window.commits), (1, 1));
        assert_eq!((meter.errors, window.errors.len()), (1, 0));
    }

    #[test]
    fn a_window_that_is_opened_anew_forgets() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.open(now, Window::new(true));
        meter.completed(now, TEN_ROWS, true);
        meter.open(now, Window::new(true));
        meter.committed(now);
        let window = closed(&mut meter).unwrap();
        assert_eq!((window.events, window.acknowledged, window.commits), (0, 0, 1));
        assert!(meter.take_settled().is_none());
    }

    #[test]
    fn rows_count_where_they_were_written_once_they_are_committed() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.completed(now, TEN_ROWS, true); // before the window, in the transaction that it begins in
        meter.open(now, Window::new(true));
        meter.completed(now, TEN_ROWS, true);
        meter.committed(now);
        meter.completed(now, TEN_ROWS, true);
        meter.completed(now, TEN_ROWS, true);
        meter.close();
        meter.completed(now, TEN_ROWS, true); // after it, in the transaction that it ends in
        assert!(meter.is_settling() && meter.take_settled().is_none());
        meter.committed(now);
        assert!(!meter.is_settling());
        let window = meter.take_settled().unwrap();
        assert_eq!((window.acknowledged, window.updated), (30, 12));
        assert_eq!((window.per_second, window.events), (vec![30], 3));
        assert_eq!(
            (window.commits, window.commit_latencies.unwrap().len()),
            (1, 1),
            "the second commit ended after the window"
        );
    }

    #[test]
    fn rows_that_are_rolled_back_do_not_count() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.open(now, Window::new(true));
        meter.completed(now, TEN_ROWS, true);
        meter.rolled_back();
        meter.completed(now, TEN_ROWS, true);
        meter.committed(now);
        meter.completed(now, TEN_ROWS, true);
        meter.close();
        meter.rolled_back();
        let window = meter.take_settled().unwrap();
        assert_eq!(
            (window.acknowledged, window.rolled_back, window.events),
            (10, 20, 3)
        );
    }

    #[test]
    fn errors_are_counted_by_errno_with_the_first_message() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.open(now, Window::new(true));
        meter.refused(&deadlock());
        meter.refused(&Error {
            message: "again".into(),
            ..deadlock()
        });
        let counted = closed(&mut meter).unwrap().errors;
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
        let mut window = Window::new(true);
        window.latencies.saturating_record(123_456_789);
        let read = window.latencies.value_at_quantile(0.5) as f64;
        assert!((read / 123_456_789.0 - 1.0).abs() < 0.001);
    }
}
