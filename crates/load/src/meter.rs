//! What one thread counts.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::histogram::{add, as_bins, latencies, record, Latencies, LiveLatencies};
use crate::result::ErrorCount;
use crate::usage::{Accounts, Thread};
use crate::workload::Effect;
use crate::Error;

/// Seconds that per-second counts have room for before they grow.
const SECONDS_ROOM: usize = 3600;
/// Seconds whose latencies are kept for who writes them; a histogram takes 160 kB.
pub(crate) const MOST_UNTAKEN: usize = 120;

/// What a lost connection counts as: CR_SERVER_LOST of the servers' own clients.
const LOST: (u16, &str) = (2013, "HY000");

/// The thread that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counting {
    NotBegun,
    Running(Thread),
    /// What it has left behind.
    Ended(Duration, Option<Accounts>),
}

impl Counting {
    /// User and system time of the thread so far.
    pub fn cpu(self) -> Duration {
        match self {
            Self::NotBegun => Duration::ZERO,
            Self::Running(thread) => thread.cpu(),
            Self::Ended(cpu, _) => cpu,
        }
    }

    /// What the kernel counts of it; none without `/proc`.
    pub fn accounts(self) -> Option<Accounts> {
        match self {
            Self::NotBegun => Some(Accounts::default()),
            Self::Running(thread) => thread.accounts(),
            Self::Ended(_, accounts) => accounts,
        }
    }
}

/// What a window counts beyond the events themselves.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Kinds of statements; COMMITs of the driver are the last kind, if it commits.
    pub statements: usize,
    /// The kind of transaction of each statement; none where all events are of one kind.
    pub transaction_of: Vec<usize>,
    pub sessions: usize,
    /// Whether events are due at a time of their own.
    pub open_loop: bool,
    /// Whether each second's latencies are kept until they are taken.
    pub seconds: bool,
}

/// The seconds of a window, until they are taken.
#[derive(Debug)]
struct Seconds {
    running: usize,
    latencies: Latencies,
    /// Seconds in which events ended, in their order.
    over: Vec<(usize, Latencies)>,
    /// Nobody took the last ones in time: later seconds are not kept.
    overrun: bool,
    errors: Vec<u64>,
    /// Seconds whose counts were taken.
    counted: usize,
}

impl Seconds {
    fn new() -> Self {
        Self {
            running: 0,
            latencies: latencies(),
            over: Vec::with_capacity(MOST_UNTAKEN),
            overrun: false,
            errors: Vec::with_capacity(SECONDS_ROOM),
            counted: 0,
        }
    }

    #[inline]
    fn record(&mut self, second: usize, took: Duration) {
        if second != self.running {
            self.turn(second);
        }
        record(&mut self.latencies, took);
    }

    fn turn(&mut self, second: usize) {
        if !self.latencies.is_empty() {
            if self.over.len() == MOST_UNTAKEN {
                self.overrun = true;
                self.latencies.reset();
            } else {
                let over = std::mem::replace(&mut self.latencies, latencies());
                self.over.push((self.running, over));
            }
        }
        self.running = second;
    }
}

/// Seconds of a window that are over.
#[derive(Debug)]
pub(crate) struct SecondsOver {
    /// All seconds before this one are over.
    pub until: usize,
    /// Latencies of those that were not taken before; none where no event ended.
    pub latencies: Vec<(usize, Latencies)>,
    /// What the next seconds added to the figure, and their errors, as far as no transaction in them is open.
    pub counts: Vec<(u64, u64)>,
    /// Seconds are missing because these were not taken for [`MOST_UNTAKEN`] of them.
    pub overrun: bool,
}

/// Events and errors of one measured window.
///
/// An event counts where it ended; what it adds to the figure counts there too, but only once its
/// transaction is committed, however late. So neither end of a window favours or punishes a
/// transaction that lies across it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Window {
    pub events: u64,
    /// What was acknowledged, by the second in which its event ended.
    pub per_second: Vec<u64>,
    pub acknowledged: u64,
    pub updated: u64,
    pub rolled_back: u64,
    #[serde(with = "as_bins")]
    pub latencies: Latencies,
    /// By kind of statement.
    #[serde(with = "as_bins::all")]
    pub statements: Vec<Latencies>,
    /// Of events, by kind of transaction.
    #[serde(with = "as_bins::all")]
    pub transactions: Vec<Latencies>,
    #[serde(skip)]
    transaction_of: Vec<usize>,
    pub commits: u64,
    pub errors: Vec<ErrorCount>,
    /// Of events, their attempts and COMMITs that ended in an error.
    #[serde(with = "as_bins")]
    pub failed: Latencies,
    /// Events whose latency was longer than what it counts as.
    pub capped: u64,
    pub lost_connections: u64,
    /// How late events were begun while a connection was free.
    #[serde(with = "as_bins::maybe")]
    pub lag: Option<Latencies>,
    #[serde(skip)]
    seconds: Option<Seconds>,
    /// What waits for a commit, by connection and second.
    #[serde(skip)]
    waiting: Vec<Vec<(usize, Effect)>>,
    #[serde(skip)]
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
            transactions: (0..shape.transaction_of.last().map_or(0, |last| last + 1))
                .map(|_| latencies())
                .collect(),
            transaction_of: shape.transaction_of,
            commits: 0,
            errors: Vec::new(),
            failed: latencies(),
            capped: 0,
            lost_connections: 0,
            lag: shape.open_loop.then(latencies),
            seconds: shape.seconds.then(Seconds::new),
            waiting: vec![Vec::new(); shape.sessions],
            closed: false,
        }
    }

    fn acknowledge(&mut self, second: usize, effect: Effect) {
        self.acknowledged += effect.amount;
        self.updated += effect.updated;
        add_second(&mut self.per_second, second, effect.amount);
    }

    fn wait(&mut self, session: usize, second: usize, effect: Effect) {
        match self.waiting[session].last_mut() {
            Some((last, sum)) if *last == second => {
                sum.amount += effect.amount;
                sum.updated += effect.updated;
            }
            _ => self.waiting[session].push((second, effect)),
        }
    }

    /// Takes the latencies of all seconds before `until`, and their counts as far as these are final.
    pub fn take_seconds(&mut self, until: usize) -> Option<SecondsOver> {
        let seconds = self.seconds.as_mut()?;
        if seconds.running < until {
            seconds.turn(until);
        }
        let open = self.waiting.iter().filter_map(|waiting| waiting.first());
        let settled = open.map(|(second, _)| *second).fold(until, usize::min);
        let at = |counts: &[u64], second: usize| counts.get(second).copied().unwrap_or_default();
        let from = seconds.counted;
        seconds.counted = settled.max(from);
        Some(SecondsOver {
            until,
            latencies: std::mem::take(&mut seconds.over),
            counts: (from..settled)
                .map(|second| (at(&self.per_second, second), at(&seconds.errors, second)))
                .collect(),
            overrun: seconds.overrun,
        })
    }

    /// Adds what another load generator counted in its own window, which has the same kinds and began at the same
    /// moment; whether a counter of a histogram has overflowed.
    pub fn add(&mut self, other: &Self) -> bool {
        self.events += other.events;
        self.acknowledged += other.acknowledged;
        self.updated += other.updated;
        self.rolled_back += other.rolled_back;
        self.commits += other.commits;
        self.capped += other.capped;
        self.lost_connections += other.lost_connections;
        for (second, amount) in other.per_second.iter().enumerate() {
            add_second(&mut self.per_second, second, *amount);
        }
        for error in &other.errors {
            add_error(&mut self.errors, error.clone());
        }
        let pairs = [
            (&mut self.latencies, &other.latencies),
            (&mut self.failed, &other.failed),
        ];
        let kinds = self.statements.iter_mut().zip(&other.statements);
        let transactions = self.transactions.iter_mut().zip(&other.transactions);
        let lag = self.lag.iter_mut().zip(&other.lag);
        let all = pairs.into_iter().chain(kinds).chain(transactions).chain(lag);
        all.fold(false, |overflown, (into, from)| add(into, from) || overflown)
    }

    fn is_settled(&self) -> bool {
        self.closed && self.waiting.iter().all(Vec::is_empty)
    }
}

/// A statement that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    /// Which connection of the thread.
    pub session: usize,
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
    pub latencies: LiveLatencies,
    codes: Vec<ErrorCount>,
    window: Option<(Instant, Window)>,
    thread: Counting,
}

impl Meter {
    pub fn new(start: Instant) -> Self {
        Self {
            start,
            events: 0,
            per_second: Vec::with_capacity(SECONDS_ROOM),
            errors: 0,
            latencies: LiveLatencies::new(),
            codes: Vec::new(),
            window: None,
            thread: Counting::NotBegun,
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
            self.latencies.record(now.duration_since(ended.begun));
        }
        if let Some((start, window)) = self.open_window() {
            let second = now.duration_since(start).as_secs() as usize;
            let statement = &mut window.statements[answered.statement];
            record(statement, now.duration_since(answered.sent));
            window.commits += u64::from(answered.commits);
            if let Some(ended) = answered.event {
                let took = now.duration_since(ended.begun);
                window.events += 1;
                window.capped += u64::from(record(&mut window.latencies, took));
                // The statement that ends an event is one of its kind.
                if let Some(&kind) = window.transaction_of.get(answered.statement) {
                    record(&mut window.transactions[kind], took);
                }
                if let Some(seconds) = &mut window.seconds {
                    seconds.record(second, took);
                }
                if ended.waits {
                    window.wait(answered.session, second, ended.effect);
                } else {
                    window.acknowledge(second, ended.effect);
                }
            }
        }
        now
    }

    /// Counts a COMMIT that is answered now: what waited for it is acknowledged. Now.
    pub fn committed(&mut self, session: usize, sent: Instant) -> Instant {
        let now = Instant::now();
        if let Some((_, window)) = self.open_window() {
            window.commits += 1;
            if let Some(latencies) = window.statements.last_mut() {
                record(latencies, now.duration_since(sent));
            }
        }
        if let Some((_, window)) = &mut self.window {
            let mut waiting = std::mem::take(&mut window.waiting[session]);
            for (second, effect) in waiting.drain(..) {
                window.acknowledge(second, effect);
            }
            window.waiting[session] = waiting;
        }
        now
    }

    /// What waited for a commit is lost.
    pub fn rolled_back(&mut self, session: usize) {
        if let Some((_, window)) = &mut self.window {
            let lost: u64 = window.waiting[session]
                .iter()
                .map(|(_, effect)| effect.amount)
                .sum();
            window.rolled_back += lost;
            window.waiting[session].clear();
        }
    }

    /// Counts a server error that came just now and ended an attempt that took so long.
    pub fn refused(&mut self, error: &Error, took: Option<Duration>) {
        self.errors += 1;
        count_error(&mut self.codes, error);
        if let Some((start, window)) = self.open_window() {
            count_error(&mut window.errors, error);
            if let Some(took) = took {
                record(&mut window.failed, took);
            }
            if let Some(seconds) = &mut window.seconds {
                add_second(&mut seconds.errors, start.elapsed().as_secs() as usize, 1);
            }
        }
    }

    /// Counts a connection that is lost just now; so is what waited for its commit, and an attempt that took so
    /// long, if one ran.
    pub fn lost(&mut self, session: usize, error: &Error, took: Option<Duration>) {
        self.rolled_back(session);
        let lost = Error {
            errno: Some(LOST.0),
            sqlstate: Some(LOST.1.to_owned()),
            ..error.clone()
        };
        self.refused(&lost, took);
        if let Some((_, window)) = self.open_window() {
            window.lost_connections += 1;
        }
    }

    /// Server errors since start, by their number.
    pub fn codes(&self) -> Vec<(u16, u64)> {
        self.codes
            .iter()
            .map(|known| (known.errno, known.count))
            .collect()
    }

    /// How late 99 of 100 events of the open window were begun at most, in microseconds.
    pub fn lag_p99_us(&self) -> Option<u64> {
        let lag = self.window.as_ref()?.1.lag.as_ref()?;
        (!lag.is_empty()).then(|| lag.value_at_quantile(0.99) / 1000)
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

    /// The seconds of the open window that are over by now; see [`Window::take_seconds`].
    pub fn take_seconds(&mut self) -> Option<SecondsOver> {
        let (start, window) = self.open_window()?;
        window.take_seconds(start.elapsed().as_secs() as usize)
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

    /// Whether a closed window waits for that connection's commit.
    pub fn is_settling(&self, session: usize) -> bool {
        matches!(&self.window, Some((_, window)) if window.closed && !window.waiting[session].is_empty())
    }

    /// The closed window, once nothing in it waits for a commit any more.
    pub fn take_settled(&mut self) -> Option<Window> {
        self.window
            .take_if(|(_, window)| window.is_settled())
            .map(|(_, window)| window)
    }

    /// The calling thread is the one that counts here.
    pub fn thread_begins(&mut self) {
        self.thread = Counting::Running(Thread::current());
    }

    /// The calling thread ends and leaves its CPU time and its accounts behind.
    pub fn thread_ends(&mut self) {
        self.thread = Counting::Ended(self.thread.cpu(), self.thread.accounts());
    }

    /// The thread that counts here.
    pub fn thread(&self) -> Counting {
        self.thread
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
    match known_error(errors, errno, sqlstate) {
        Some(known) => known.count += 1,
        None => errors.push(ErrorCount {
            errno,
            sqlstate: sqlstate.to_owned(),
            message: error.message.clone(),
            count: 1,
        }),
    }
}

fn add_error(errors: &mut Vec<ErrorCount>, error: ErrorCount) {
    match known_error(errors, error.errno, &error.sqlstate) {
        Some(known) => known.count += error.count,
        None => errors.push(error),
    }
}

fn known_error<'a>(errors: &'a mut [ErrorCount], errno: u16, sqlstate: &str) -> Option<&'a mut ErrorCount> {
    errors
        .iter_mut()
        .find(|known| known.errno == errno && known.sqlstate == sqlstate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn deadlock() -> Error {
        Error {
            kind: ErrorKind::Server,
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
        transaction_of: Vec::new(),
        sessions: 1,
        open_loop: false,
        seconds: false,
    };

    fn complete(meter: &mut Meter, effect: Effect, waits: bool) -> Instant {
        let now = Instant::now();
        meter.answered(Answered {
            session: 0,
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
        meter.refused(&deadlock(), None);
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
        assert_eq!(meter.codes(), [(1213, 1)]);
        assert_eq!(
            meter
                .latencies
                .counts()
                .iter()
                .map(|(_, count)| count)
                .sum::<u64>(),
            4
        );
    }

    #[test]
    fn an_event_counts_for_the_kind_of_transaction_that_its_last_statement_is_of() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        let shape = Shape {
            statements: 5,
            transaction_of: vec![0, 0, 1, 1],
            ..SHAPE
        };
        meter.open(now, Window::new(shape));
        // 0 is the first statement of an event of the first kind; 4 is of no kind, as INSERTs of acks are.
        for (statement, ends) in [(0, false), (1, true), (2, true), (3, true), (4, true)] {
            let ended = Ended {
                begun: now,
                effect: Effect::TRANSACTION,
                waits: false,
            };
            meter.answered(Answered {
                session: 0,
                statement,
                sent: now,
                commits: ends,
                event: ends.then_some(ended),
            });
        }
        let window = closed(&mut meter).unwrap();
        let counts: Vec<u64> = window.transactions.iter().map(Latencies::len).collect();
        assert_eq!((window.events, counts), (4, vec![1, 2]));
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
        meter.refused(&deadlock(), None);
        meter.refused(
            &Error {
                message: "again".into(),
                ..deadlock()
            },
            None,
        );
        let errors = closed(&mut meter).unwrap().errors;
        assert_eq!(errors.len(), 1);
        assert_eq!(
            (errors[0].count, errors[0].message.as_str()),
            (2, "Deadlock found")
        );
    }

    #[test]
    fn a_threads_usage_is_seen_by_another_and_survives_the_thread() {
        let mut meter = Meter::new(Instant::now());
        assert_eq!(meter.thread().cpu(), Duration::ZERO);
        assert_eq!(meter.thread().accounts(), Some(Accounts::default()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                meter.thread_begins();
                let begun = meter.thread().cpu();
                let uncounted = |meter: &Meter| meter.thread().accounts() == Some(Accounts::default());
                while meter.thread().cpu() < begun + Duration::from_millis(5) || uncounted(&meter) {
                    std::hint::spin_loop();
                }
                meter.thread_ends();
            });
        });
        let thread = meter.thread();
        assert!(thread.cpu() >= Duration::from_millis(5));
        assert_eq!(thread.cpu(), thread.cpu());
        let left = thread.accounts().expect("Linux has /proc");
        assert_ne!(left, Accounts::default());
    }

    #[test]
    fn seconds_that_nobody_takes_are_bounded() {
        let mut seconds = Seconds::new();
        for second in 0..10 * MOST_UNTAKEN {
            seconds.record(second, Duration::from_millis(1));
        }
        assert_eq!((seconds.over.len(), seconds.overrun), (MOST_UNTAKEN, true));
    }

    #[test]
    fn a_second_is_final_once_its_transactions_have_ended() {
        let ago = Instant::now().checked_sub(Duration::from_millis(3500)).unwrap();
        let mut meter = Meter::new(ago);
        let seconds = true;
        meter.open(ago, Window::new(Shape { seconds, ..SHAPE }));
        let (_, window) = meter.open_window().unwrap();
        window.acknowledge(0, TEN_ROWS);
        window.wait(0, 1, TEN_ROWS);
        window.acknowledge(2, TEN_ROWS);
        assert_eq!(meter.take_seconds().unwrap().counts, [(10, 0)]);
        meter.committed(0, ago);
        let over = meter.take_seconds().unwrap();
        assert_eq!((over.counts, over.until), (vec![(10, 0), (10, 0)], 3));
    }
}
