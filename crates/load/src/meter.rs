//! What one thread counts.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::time::{clock_gettime, ClockId};
use nix::unistd::{gettid, Pid};

use crate::result::ErrorCount;
use crate::workload::Effect;
use crate::Error;

/// Longer latencies count as this; a read times out before.
const MAX_LATENCY: Duration = Duration::from_secs(120);
/// Significant digits of a histogram.
const DIGITS: u8 = 3;
/// Seconds that per-second counts have room for before they grow.
const SECONDS_ROOM: usize = 3600;

/// What a lost connection counts as: CR_SERVER_LOST of the servers' own clients.
const LOST: (u16, &str) = (2013, "HY000");

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

#[inline]
fn record(latencies: &mut Latencies, took: Duration) {
    latencies.saturating_record(took.as_nanos() as u64);
}

/// What a window counts beyond the events themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Kinds of statements; COMMITs of the driver are the last kind, if it commits.
    pub statements: usize,
    /// Connections of the thread.
    pub lanes: usize,
    /// Whether events are due at a time of their own.
    pub open_loop: bool,
    /// Whether each second's latencies are kept.
    pub intervals: bool,
}

/// The latencies of each second of a window.
#[derive(Debug)]
pub(crate) struct Intervals {
    second: usize,
    running: Latencies,
    /// Seconds in which events ended, in their order.
    pub ended: Vec<(usize, Latencies)>,
    pub errors: Vec<u64>,
}

impl Intervals {
    fn new() -> Self {
        Self {
            second: 0,
            running: latencies(),
            ended: Vec::with_capacity(SECONDS_ROOM),
            errors: Vec::with_capacity(SECONDS_ROOM),
        }
    }

    fn record(&mut self, second: usize, took: Duration) {
        if second != self.second {
            self.turn(second);
        }
        record(&mut self.running, took);
    }

    fn turn(&mut self, second: usize) {
        if !self.running.is_empty() {
            let ended = std::mem::replace(&mut self.running, latencies());
            self.ended.push((self.second, ended));
        }
        self.second = second;
    }
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
    /// By kind of statement.
    pub statements: Vec<Latencies>,
    pub commits: u64,
    pub errors: Vec<ErrorCount>,
    pub lost_connections: u64,
    /// How late events were begun while a connection was free.
    pub lag: Option<Latencies>,
    pub intervals: Option<Intervals>,
    /// What waits for a commit, by connection and second.
    waiting: Vec<Vec<(usize, Effect)>>,
    closed: bool,
}

impl Window {
    /// An empty window.
    pub fn new(shape: Shape) -> Self {
        Self {
            events: 0,
            per_second: Vec::with_capacity(SECONDS_ROOM),
            acknowledged: 0,
            updated: 0,
            rolled_back: 0,
            latencies: latencies(),
            statements: (0..shape.statements).map(|_| latencies()).collect(),
            commits: 0,
            errors: Vec::new(),
            lost_connections: 0,
            lag: shape.open_loop.then(latencies),
            intervals: shape.intervals.then(Intervals::new),
            waiting: vec![Vec::new(); shape.lanes],
            closed: false,
        }
    }

    fn acknowledge(&mut self, second: usize, effect: Effect) {
        self.acknowledged += effect.amount;
        self.updated += effect.updated;
        add_second(&mut self.per_second, second, effect.amount);
    }

    fn wait(&mut self, lane: usize, second: usize, effect: Effect) {
        match self.waiting[lane].last_mut() {
            Some((last, sum)) if *last == second => {
                sum.amount += effect.amount;
                sum.updated += effect.updated;
            }
            _ => self.waiting[lane].push((second, effect)),
        }
    }

    fn is_settled(&self) -> bool {
        self.closed && self.waiting.iter().all(Vec::is_empty)
    }
}

/// A statement that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    /// Which connection of the thread.
    pub lane: usize,
    pub statement: usize,
    pub sent: Instant,
    pub commits: bool,
    /// The event that it ended.
    pub event: Option<Ended>,
}

/// An event that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub begun: Instant,
    pub effect: Effect,
    /// It is not committed yet.
    pub waits: bool,
}

/// What one thread counts, since start and in the window.
///
/// It lives under a lock that the thread takes once per answer and others take rarely. An event ends at
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

    /// Counts a statement that is answered now, and the event that it ends. Now.
    #[inline]
    pub fn answered(&mut self, answered: Answered) -> Instant {
        let now = Instant::now();
        if let Some(ended) = answered.event {
            self.events += 1;
            let second = now.duration_since(self.start).as_secs() as usize;
            add_second(&mut self.per_second, second, ended.effect.amount);
        }
        if let Some((start, window)) = self.open_window() {
            let second = now.duration_since(start).as_secs() as usize;
            let statement = &mut window.statements[answered.statement];
            record(statement, now.duration_since(answered.sent));
            window.commits += u64::from(answered.commits);
            if let Some(ended) = answered.event {
                let took = now.duration_since(ended.begun);
                window.events += 1;
                record(&mut window.latencies, took);
                if let Some(intervals) = &mut window.intervals {
                    intervals.record(second, took);
                }
                if ended.waits {
                    window.wait(answered.lane, second, ended.effect);
                } else {
                    window.acknowledge(second, ended.effect);
                }
            }
        }
        now
    }

    /// Counts a COMMIT that is answered now: what waited for it is acknowledged. Now.
    pub fn committed(&mut self, lane: usize, sent: Instant) -> Instant {
        let now = Instant::now();
        if let Some((_, window)) = self.open_window() {
            window.commits += 1;
            if let Some(latencies) = window.statements.last_mut() {
                record(latencies, now.duration_since(sent));
            }
        }
        if let Some((_, window)) = &mut self.window {
            let mut waiting = std::mem::take(&mut window.waiting[lane]);
            for (second, effect) in waiting.drain(..) {
                window.acknowledge(second, effect);
            }
            window.waiting[lane] = waiting;
        }
        now
    }

    /// What waited for a commit is lost.
    pub fn rolled_back(&mut self, lane: usize) {
        if let Some((_, window)) = &mut self.window {
            let lost: u64 = window.waiting[lane].iter().map(|(_, effect)| effect.amount).sum();
            window.rolled_back += lost;
            window.waiting[lane].clear();
        }
    }

    /// Counts a server error that came just now.
    pub fn refused(&mut self, error: &Error) {
        self.errors += 1;
        if let Some((start, window)) = self.open_window() {
            count_error(&mut window.errors, error);
            if let Some(intervals) = &mut window.intervals {
                add_second(&mut intervals.errors, start.elapsed().as_secs() as usize, 1);
            }
        }
    }

    /// Counts a connection that is lost just now; so is what waited for its commit.
    pub fn lost(&mut self, lane: usize, error: &Error) {
        self.rolled_back(lane);
        self.refused(&Error {
            errno: Some(LOST.0),
            sqlstate: Some(LOST.1.to_owned()),
            ..error.clone()
        });
        if let Some((_, window)) = self.open_window() {
            window.lost_connections += 1;
        }
    }

    /// Counts how late an event was begun.
    #[inline]
    pub fn began(&mut self, late: Duration) {
        if let Some((_, window)) = self.open_window() {
            if let Some(lag) = &mut window.lag {
                // 0 is no value of a histogram.
                record(lag, late.max(Duration::from_nanos(1)));
            }
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
            if let Some(intervals) = &mut window.intervals {
                intervals.turn(usize::MAX);
            }
        }
    }

    /// Whether a closed window waits for that connection's commit.
    pub fn is_settling(&self, lane: usize) -> bool {
        matches!(&self.window, Some((_, window)) if window.closed && !window.waiting[lane].is_empty())
    }

    /// The closed window, once nothing in it waits for a commit any more.
    pub fn take_settled(&mut self) -> Option<Window> {
        self.window
            .take_if(|(_, window)| window.is_settled())
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
    let sqlstate = error.sqlstate.as_deref().unwrap_or_default();
    match errors
        .iter_mut()
        .find(|known| known.errno == errno && known.sqlstate == sqlstate)
    {
        Some(known) => known.count += 1,
        None => errors.push(ErrorCount {
            errno,
            sqlstate: sqlstate.to_owned(),
            message: error.message.clone(),
            count: 1,
        }),
    }
}

/// Adds the errors of one thread to those of others.
pub(crate) fn merge_errors(all: &mut Vec<ErrorCount>, some: Vec<ErrorCount>) {
    for error in some {
        match all
            .iter_mut()
            .find(|known| known.errno == error.errno && known.sqlstate == error.sqlstate)
        {
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
            hint: None,
        }
    }

    fn closed(meter: &mut Meter) -> Option<Window> {
        meter.close();
        meter.take_settled()
    }

    /// An UPDATE, and the driver's COMMIT.
    const SHAPE: Shape = Shape {
        statements: 2,
        lanes: 1,
        open_loop: false,
        intervals: false,
    };

    fn complete(meter: &mut Meter, effect: Effect, waits: bool) -> Instant {
        let now = Instant::now();
        meter.answered(Answered {
            lane: 0,
            statement: 0,
            sent: now,
            commits: !waits,
            event: Some(Ended {
                begun: now,
                effect,
                waits,
            }),
        })
    }

    const TEN_ROWS: Effect = Effect {
        amount: 10,
        updated: 4,
    };

    #[test]
    fn events_outside_the_window_count_since_start_only() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        complete(&mut meter, Effect::TRANSACTION, false);
        meter.refused(&deadlock());
        meter.open(now, Window::new(SHAPE));
        complete(&mut meter, Effect::TRANSACTION, false);
        meter.close();
        complete(&mut meter, Effect::TRANSACTION, false);
        let window = meter.take_settled().unwrap();
        complete(&mut meter, Effect::TRANSACTION, false);
        assert_eq!((meter.events, window.events, window.latencies.len()), (4, 1, 1));
        assert_eq!((window.acknowledged, window.commits), (1, 1));
        assert_eq!([window.statements[0].len(), window.statements[1].len()], [1, 0]);
        assert_eq!((meter.errors, window.errors.len()), (1, 0));
    }

    #[test]
    fn a_window_that_is_opened_anew_forgets() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.open(now, Window::new(SHAPE));
        complete(&mut meter, TEN_ROWS, true);
        meter.open(now, Window::new(SHAPE));
        meter.committed(0, now);
        let window = closed(&mut meter).unwrap();
        assert_eq!((window.events, window.acknowledged, window.commits), (0, 0, 1));
        assert!(meter.take_settled().is_none());
    }

    #[test]
    fn rows_count_where_they_were_written_once_they_are_committed() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        complete(&mut meter, TEN_ROWS, true); // before the window, in the transaction that it begins in
        meter.open(now, Window::new(SHAPE));
        complete(&mut meter, TEN_ROWS, true);
        meter.committed(0, now);
        complete(&mut meter, TEN_ROWS, true);
        complete(&mut meter, TEN_ROWS, true);
        meter.close();
        complete(&mut meter, TEN_ROWS, true); // after it, in the transaction that it ends in
        assert!(meter.is_settling(0) && meter.take_settled().is_none());
        meter.committed(0, now);
        assert!(!meter.is_settling(0));
        let window = meter.take_settled().unwrap();
        assert_eq!((window.acknowledged, window.updated), (30, 12));
        assert_eq!((window.per_second, window.events), (vec![30], 3));
        assert_eq!(
            (window.commits, window.statements[1].len()),
            (1, 1),
            "the second commit ended after the window"
        );
    }

    #[test]
    fn rows_that_are_rolled_back_do_not_count() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        meter.open(now, Window::new(SHAPE));
        complete(&mut meter, TEN_ROWS, true);
        meter.rolled_back(0);
        complete(&mut meter, TEN_ROWS, true);
        meter.committed(0, now);
        complete(&mut meter, TEN_ROWS, true);
        meter.close();
        meter.rolled_back(0);
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
        meter.open(now, Window::new(SHAPE));
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
        let mut window = Window::new(SHAPE);
        window.latencies.saturating_record(123_456_789);
        let read = window.latencies.value_at_quantile(0.5) as f64;
        assert!((read / 123_456_789.0 - 1.0).abs() < 0.001);
    }
}
