//! A running load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flushlab_rows::Random;

use crate::connection::Connection;
use crate::meter::{latencies, merge_errors, merge_seconds, Latencies, Meter, Window};
use crate::spec::{Latency, LoadProgress, LoadResult, LoadSpec, RowCounts};
use crate::tables::check_tables;
use crate::transaction::{Commit, Transaction};
use crate::workload::{NewKeys, Place, Workload};
use crate::{Cutoff, Error, Kind};

/// How long threads may take to end their last events before their connections are cut.
const GRACE: Duration = Duration::from_secs(2);

/// How often the end of the threads is looked for.
const GLANCE: Duration = Duration::from_millis(1);

/// Longest sleep of a thread that waits for an event to be due; it looks for the stop in between.
const NAP: Duration = Duration::from_millis(100);

/// How long the transactions that are open at the end of a window may take to end: a statement and a
/// COMMIT.
const SETTLING: Duration = Duration::from_secs(15);

const STACK_BYTES: usize = 256 << 10;

/// A connection with its workload's statements prepared, and its generator.
struct Lane {
    connection: Connection,
    workload: Box<dyn Workload>,
    random: Random,
}

/// What the threads and their owner share.
struct Shared {
    stop: AtomicBool,
    /// A window has ended and waits: commit as soon as a statement has ended.
    settle: AtomicBool,
    failed: Mutex<Option<Error>>,
    ignored_errors: Vec<u16>,
    schedule: Option<Schedule>,
    commit: Commit,
}

/// An open loop: events are due at constant intervals, whoever is free takes the next one.
struct Schedule {
    interval: Duration,
    taken: AtomicU64,
}

impl Schedule {
    /// Takes the next event: its intended start.
    fn next(&self, start: Instant) -> Instant {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        start + self.interval.mul_f64(number as f64)
    }
}

impl Shared {
    fn failed(&self) -> Option<Error> {
        locked(&self.failed).clone()
    }

    fn is_ignored(&self, error: &Error) -> bool {
        error
            .errno
            .is_some_and(|errno| self.ignored_errors.contains(&errno))
    }

    /// Ends the load for a reason, unless it is being stopped: then a connection may have been cut.
    fn fail(&self, error: Error) {
        if !self.stop.swap(true, Ordering::Relaxed) {
            *locked(&self.failed) = Some(error);
        }
    }
}

struct OpenWindow {
    start: Instant,
    cpu: Duration,
}

struct Running {
    start: Instant,
    end: Option<Instant>,
    meters: Vec<Arc<Mutex<Meter>>>,
    threads: Vec<JoinHandle<()>>,
    window: Option<OpenWindow>,
}

/// A load: connected, then running, then stopped.
///
/// Without a rate events run in a closed loop: each connection begins its next event when the last one
/// has ended. With a rate they are due at constant intervals, and latency counts from then.
///
/// An event that ends in an ignored error is counted under that error and begun anew with fresh
/// values, as sysbench does; unlike there, its time is no part of the new event's latency. The
/// transaction that it was part of is rolled back whole, whatever the server has done already.
pub struct LoadRun {
    counts_rows: bool,
    lanes: Vec<Lane>,
    shared: Arc<Shared>,
    cutoff: Arc<Cutoff>,
    running: Option<Running>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LoadRun {
    /// Connects, checks the tables and prepares all statements.
    ///
    /// # Errors
    /// [`Kind::Server`] if the server cannot be reached or refuses; [`Kind::Measurement`] if the
    /// tables are not what `spec` needs.
    pub fn connect(spec: &LoadSpec, cutoff: Arc<Cutoff>) -> Result<Self, Error> {
        let mut lanes = Vec::with_capacity(spec.threads as usize);
        let mut new_keys: NewKeys = Arc::new([]);
        for number in 0..spec.threads {
            let mut connection =
                Connection::open(&spec.endpoint, &spec.address, Some(&spec.database), &cutoff).map_err(
                    |error| error.during(format_args!("connection {} of {}", number + 1, spec.threads)),
                )?;
            if number == 0 {
                let largest = check_tables(&mut connection, spec)?;
                new_keys = largest.into_iter().map(|key| AtomicU64::new(key + 1)).collect();
            }
            if spec.commit != Commit::Auto {
                connection.query("SET autocommit=0")?;
            }
            let place = Place {
                number,
                of: spec.threads,
            };
            let workload = spec.workload.open(&mut connection, spec, place, &new_keys)?;
            lanes.push(Lane {
                connection,
                workload,
                random: Random::new(spec.seed.wrapping_add(u64::from(number))),
            });
        }
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            settle: AtomicBool::new(false),
            failed: Mutex::new(None),
            ignored_errors: spec.ignored_errors.clone(),
            schedule: spec.interval.map(|interval| Schedule {
                interval,
                taken: AtomicU64::new(0),
            }),
            commit: spec.commit,
        });
        Ok(Self {
            counts_rows: spec.workload.counts_rows(),
            lanes,
            shared,
            cutoff,
            running: None,
        })
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// [`Kind::Usage`] if it was started or stopped before; [`Kind::Measurement`] if the system gives
    /// no thread.
    pub fn start(&mut self) -> Result<(), Error> {
        if self.running.is_some() || self.lanes.is_empty() {
            return Err(Error::usage(
                "the load was started or stopped before; make a new one",
            ));
        }
        let start = Instant::now();
        let lanes = std::mem::take(&mut self.lanes);
        let meters: Vec<_> = lanes
            .iter()
            .map(|_| Arc::new(Mutex::new(Meter::new(start))))
            .collect();
        let running = self.running.insert(Running {
            start,
            end: None,
            meters,
            threads: Vec::with_capacity(lanes.len()),
            window: None,
        });
        let of = lanes.len() as u32;
        for (number, lane) in lanes.into_iter().enumerate() {
            let (shared, meter) = (self.shared.clone(), running.meters[number].clone());
            let transaction = Transaction::new(shared.commit, start, number as u32, of);
            let thread = std::thread::Builder::new()
                .name(format!("load-{number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let worker = Worker {
                        lane,
                        transaction,
                        shared: &shared,
                        meter: &meter,
                    };
                    worker.run(start);
                });
            match thread {
                Ok(thread) => running.threads.push(thread),
                Err(error) => {
                    self.stop();
                    let message = format!(
                        "the system gives no thread for connection {}: {error}",
                        number + 1
                    );
                    return Err(Error::new(Kind::Measurement, message));
                }
            }
        }
        Ok(())
    }

    /// A glance at the load; cheap.
    ///
    /// # Errors
    /// [`Kind::Usage`] if it was not started.
    pub fn progress(&self) -> Result<LoadProgress, Error> {
        let running = self.running.as_ref().ok_or_else(not_started)?;
        let elapsed = running.end.unwrap_or_else(Instant::now) - running.start;
        let (mut events, mut errors, mut seconds) = (0, 0, Vec::with_capacity(running.meters.len()));
        for meter in &running.meters {
            let meter = locked(meter);
            events += meter.events;
            errors += meter.errors;
            seconds.push(meter.per_second.clone());
        }
        Ok(LoadProgress {
            elapsed_s: elapsed.as_secs_f64(),
            events,
            per_second: merge_seconds(seconds.iter().map(Vec::as_slice), elapsed),
            errors,
            failed: self.shared.failed().map(|error| error.to_string()),
        })
    }

    /// Opens the measured window, or opens it anew, while the load runs on.
    ///
    /// # Errors
    /// [`Kind::Usage`] if it does not run; what made the load fail, if it has.
    pub fn open_window(&mut self) -> Result<(), Error> {
        let running = running(&mut self.running, &self.shared)?;
        let windows: Vec<_> = running
            .meters
            .iter()
            .map(|_| Window::new(self.shared.commit != Commit::Auto))
            .collect();
        let mut meters = halt(&running.meters);
        let start = Instant::now();
        for (meter, window) in meters.iter_mut().zip(windows) {
            meter.open(start, window);
        }
        let cpu = cpu(&meters);
        drop(meters);
        running.window = Some(OpenWindow { start, cpu });
        Ok(())
    }

    /// Closes the window and tells what it gave, while the load runs on.
    ///
    /// Transactions that are open at its end are committed once their running statement has ended: only
    /// then is it known what of the window counts.
    ///
    /// # Errors
    /// [`Kind::Usage`] if none is open; what made the load fail, if it has: such a window is no
    /// measurement; [`Kind::Measurement`] if a transaction does not end within 15 s.
    pub fn close_window(&mut self) -> Result<LoadResult, Error> {
        let running = running(&mut self.running, &self.shared)?;
        let opened = running
            .window
            .take()
            .ok_or_else(|| Error::usage("no window is open"))?;
        let mut meters = halt(&running.meters);
        let end = Instant::now();
        meters.iter_mut().for_each(|meter| meter.close());
        let cpu = cpu(&meters).saturating_sub(opened.cpu);
        drop(meters);
        self.shared.settle.store(true, Ordering::Relaxed);
        let settled = settled(running, &self.shared);
        self.shared.settle.store(false, Ordering::Relaxed);
        let windows = settled?;
        if let Some(error) = self.shared.failed() {
            return Err(error);
        }
        Ok(result(windows, end - opened.start, cpu, self.counts_rows))
    }

    /// Ends all events and closes the connections. Threads whose event does not end within two
    /// seconds (a lock wait, a hung server) have their connection cut. Does nothing the second time.
    pub fn stop(&mut self) {
        self.lanes.clear();
        self.shared.stop.store(true, Ordering::Relaxed);
        let Some(running) = &mut self.running else { return };
        let deadline = Instant::now() + GRACE;
        while running.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(GLANCE);
        }
        self.cutoff.fire();
        for thread in running.threads.drain(..) {
            if thread.join().is_err() {
                let error = Error::new(Kind::Measurement, "a thread of the load panicked: this is a bug");
                locked(&self.shared.failed).get_or_insert(error);
            }
        }
        running.end.get_or_insert_with(Instant::now);
    }
}

impl Drop for LoadRun {
    fn drop(&mut self) {
        self.stop();
    }
}

fn not_started() -> Error {
    Error::usage("the load was not started")
}

/// The running load; what made it fail, if it has.
fn running<'a>(running: &'a mut Option<Running>, shared: &Shared) -> Result<&'a mut Running, Error> {
    let running = running.as_mut().ok_or_else(not_started)?;
    if let Some(error) = shared.failed() {
        return Err(error);
    }
    if running.end.is_some() {
        return Err(Error::usage("the load is stopped"));
    }
    Ok(running)
}

/// Takes the locks of all meters: no event ends while they are held, which is for microseconds. So a
/// moment that is taken now divides the events of all threads alike.
fn halt(meters: &[Arc<Mutex<Meter>>]) -> Vec<MutexGuard<'_, Meter>> {
    meters.iter().map(|meter| locked(meter)).collect()
}

/// CPU time of all threads so far.
fn cpu(meters: &[MutexGuard<'_, Meter>]) -> Duration {
    meters.iter().map(|meter| meter.cpu()).sum()
}

/// The closed windows of all meters, as soon as no transaction in them is open.
fn settled(running: &Running, shared: &Shared) -> Result<Vec<Window>, Error> {
    let deadline = Instant::now() + SETTLING;
    let mut windows = Vec::with_capacity(running.meters.len());
    for meter in &running.meters {
        windows.push(loop {
            if let Some(window) = locked(meter).take_settled() {
                break window;
            }
            if let Some(error) = shared.failed() {
                return Err(error);
            }
            if Instant::now() > deadline {
                return Err(Error::new(
                    Kind::Measurement,
                    format!(
                        "a transaction that was open at the window's end did not end within {} s",
                        SETTLING.as_secs()
                    ),
                ));
            }
            std::thread::sleep(GLANCE);
        });
    }
    Ok(windows)
}

/// One thread of the load.
struct Worker<'a> {
    lane: Lane,
    transaction: Transaction,
    shared: &'a Shared,
    meter: &'a Mutex<Meter>,
}

impl Worker<'_> {
    /// Events until it is told to stop or an error ends the load.
    fn run(mut self, start: Instant) {
        locked(self.meter).thread_begins();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let begun = match &self.shared.schedule {
                None => Some(Instant::now()),
                Some(schedule) => {
                    let due = schedule.next(start);
                    self.wait_until(due).then_some(due)
                }
            };
            let Some(begun) = begun else { break };
            self.event(begun);
        }
        locked(self.meter).thread_ends();
    }

    /// Waits until an event is due and commits meanwhile what must be; whether the load goes on. An
    /// event that is overdue begins at once, and its latency counts from when it was due: a slow server
    /// cannot slow down the questions it is asked.
    fn wait_until(&mut self, due: Instant) -> bool {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            self.commit_if_due(now);
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let nap = self.transaction.due_in(now).unwrap_or(NAP).min(NAP);
            std::thread::sleep(left.min(nap));
        }
        false
    }

    /// One event, retried after ignored errors until it completes.
    fn event(&mut self, mut begun: Instant) {
        loop {
            let lane = &mut self.lane;
            match lane.workload.event(&mut lane.connection, &mut lane.random) {
                Ok(effect) => {
                    self.transaction.add(effect.amount);
                    let ended = locked(self.meter).completed(begun, effect, self.transaction.is_open());
                    return self.commit_if_due(ended);
                }
                Err(error) if self.shared.is_ignored(&error) => {
                    self.refused(&error);
                    if self.shared.stop.load(Ordering::Relaxed) {
                        return;
                    }
                    begun = Instant::now();
                }
                Err(error) => return self.shared.fail(error),
            }
        }
    }

    /// Commits an open transaction if its time has come, or a window waits for it.
    #[inline]
    fn commit_if_due(&mut self, now: Instant) {
        let settle = || self.shared.settle.load(Ordering::Relaxed) && locked(self.meter).is_settling();
        if !self.transaction.is_due(now) && !settle() {
            return;
        }
        match self.lane.connection.query("COMMIT") {
            Ok(_) => {
                let ended = locked(self.meter).committed(now);
                self.transaction.ended(ended);
            }
            Err(error) if self.shared.is_ignored(&error) => self.refused(&error),
            Err(error) => self.shared.fail(error),
        }
    }

    /// Counts an ignored error and rolls back what was open.
    fn refused(&mut self, error: &Error) {
        locked(self.meter).refused(error);
        if self.shared.commit == Commit::Auto {
            return;
        }
        if let Err(error) = self.lane.connection.query("ROLLBACK") {
            return self.shared.fail(error);
        }
        locked(self.meter).rolled_back();
        self.transaction.ended(Instant::now());
    }
}

fn result(windows: Vec<Window>, length: Duration, cpu: Duration, counts_rows: bool) -> LoadResult {
    let (mut all, mut all_commits) = (latencies(), latencies());
    let mut errors = Vec::new();
    let sum = |count: fn(&Window) -> u64| windows.iter().map(count).sum::<u64>();
    let (events, acknowledged) = (sum(|window| window.events), sum(|window| window.acknowledged));
    let (updated, rolled_back) = (sum(|window| window.updated), sum(|window| window.rolled_back));
    let commits = sum(|window| window.commits);
    let per_second = merge_seconds(windows.iter().map(|window| window.per_second.as_slice()), length);
    for window in windows {
        let both = [
            (&mut all, Some(&window.latencies)),
            (&mut all_commits, window.commit_latencies.as_ref()),
        ];
        for (sum, some) in both {
            if let Some(some) = some {
                sum.add(some).expect("the histogram grows by itself");
            }
        }
        merge_errors(&mut errors, window.errors);
    }
    errors.sort_by_key(|error| error.errno);
    LoadResult {
        seconds: length.as_secs_f64(),
        events,
        throughput: acknowledged as f64 / length.as_secs_f64(),
        per_second,
        latency_us: latency(&all),
        errors,
        client_cpu_us_per_event: (events > 0).then(|| cpu.as_secs_f64() * 1e6 / events as f64),
        rows: counts_rows.then(|| RowCounts {
            committed: acknowledged,
            updated,
            rolled_back,
            commits,
            commit_latency_us: latency(&all_commits),
        }),
        kinds: Vec::new(),
    }
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
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: us(latencies.max()),
    })
}
