//! A running load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flushlab_rows::Random;

use crate::connection::Connection;
use crate::meter::{merge_errors, merge_seconds, Latencies, Meter, Window};
use crate::spec::{Latency, LoadProgress, LoadResult, LoadSpec};
use crate::tables::check_tables;
use crate::workload::Workload;
use crate::{Cutoff, Error, Kind};

/// How long threads may take to end their last events before their connections are cut.
const GRACE: Duration = Duration::from_secs(2);

/// How often the end of the threads is looked for.
const GLANCE: Duration = Duration::from_millis(1);

/// Longest sleep of a thread that waits for an event to be due; it looks for the stop in between.
const NAP: Duration = Duration::from_millis(100);

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
    failed: Mutex<Option<Error>>,
    ignored_errors: Vec<u16>,
    schedule: Option<Schedule>,
}

/// An open loop: events are due at constant intervals, whoever is free takes the next one.
struct Schedule {
    interval: Duration,
    taken: AtomicU64,
}

impl Schedule {
    /// Takes the next event and waits until it is due; its intended start, or none if the load was
    /// stopped meanwhile. One that is overdue begins at once, and its latency counts from when it was
    /// due: a slow server cannot slow down the questions it is asked.
    fn next(&self, start: Instant, stop: &AtomicBool) -> Option<Instant> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        let due = start + self.interval.mul_f64(number as f64);
        while !stop.load(Ordering::Relaxed) {
            match due.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(NAP)),
                _ => return Some(due),
            }
        }
        None
    }
}

impl Shared {
    fn failed(&self) -> Option<Error> {
        locked(&self.failed).clone()
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
/// values, as sysbench does; unlike there, its time is no part of the new event's latency.
pub struct LoadRun {
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
        for number in 0..spec.threads {
            let mut connection =
                Connection::open(&spec.endpoint, &spec.address, Some(&spec.database), &cutoff).map_err(
                    |error| error.during(format_args!("connection {} of {}", number + 1, spec.threads)),
                )?;
            if number == 0 {
                check_tables(&mut connection, spec)?;
            }
            let workload = spec.workload.open(&mut connection, spec)?;
            lanes.push(Lane {
                connection,
                workload,
                random: Random::new(spec.seed.wrapping_add(u64::from(number))),
            });
        }
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            failed: Mutex::new(None),
            ignored_errors: spec.ignored_errors.clone(),
            schedule: spec.interval.map(|interval| Schedule {
                interval,
                taken: AtomicU64::new(0),
            }),
        });
        Ok(Self {
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
        for (number, lane) in lanes.into_iter().enumerate() {
            let (shared, meter) = (self.shared.clone(), running.meters[number].clone());
            let thread = std::thread::Builder::new()
                .name(format!("load-{number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || drive(lane, start, &shared, &meter));
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
        let windows: Vec<_> = running.meters.iter().map(|_| Window::default()).collect();
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
    /// # Errors
    /// [`Kind::Usage`] if none is open; what made the load fail, if it has: such a window is no
    /// measurement.
    pub fn close_window(&mut self) -> Result<LoadResult, Error> {
        let running = running(&mut self.running, &self.shared)?;
        let opened = running
            .window
            .take()
            .ok_or_else(|| Error::usage("no window is open"))?;
        let mut meters = halt(&running.meters);
        let end = Instant::now();
        let windows: Vec<_> = meters.iter_mut().filter_map(|meter| meter.close()).collect();
        let cpu = cpu(&meters).saturating_sub(opened.cpu);
        drop(meters);
        if let Some(error) = self.shared.failed() {
            return Err(error);
        }
        Ok(result(windows, end - opened.start, cpu))
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

/// One thread: events until it is told to stop or an error ends the load.
fn drive(mut lane: Lane, start: Instant, shared: &Shared, meter: &Mutex<Meter>) {
    locked(meter).thread_begins();
    while !shared.stop.load(Ordering::Relaxed) {
        let begun = match &shared.schedule {
            None => Instant::now(),
            Some(schedule) => match schedule.next(start, &shared.stop) {
                Some(due) => due,
                None => break,
            },
        };
        event(&mut lane, begun, shared, meter);
    }
    locked(meter).thread_ends();
}

/// One event, retried after ignored errors until it completes.
fn event(lane: &mut Lane, mut begun: Instant, shared: &Shared, meter: &Mutex<Meter>) {
    loop {
        match lane.workload.event(&mut lane.connection, &mut lane.random) {
            Ok(()) => return locked(meter).completed(begun),
            Err(error)
                if error
                    .errno
                    .is_some_and(|errno| shared.ignored_errors.contains(&errno)) =>
            {
                locked(meter).refused(&error);
                if shared.stop.load(Ordering::Relaxed) {
                    return;
                }
                begun = Instant::now();
            }
            Err(error) => {
                // After a stop the connection may have been cut: that is no failure.
                if !shared.stop.swap(true, Ordering::Relaxed) {
                    *locked(&shared.failed) = Some(error);
                }
                return;
            }
        }
    }
}

fn result(windows: Vec<Window>, length: Duration, cpu: Duration) -> LoadResult {
    let mut latencies = Window::default().latencies;
    let mut errors = Vec::new();
    let events: u64 = windows.iter().map(|window| window.events).sum();
    let per_second = merge_seconds(windows.iter().map(|window| window.per_second.as_slice()), length);
    for window in windows {
        latencies
            .add(&window.latencies)
            .expect("the histogram grows by itself");
        merge_errors(&mut errors, window.errors);
    }
    errors.sort_by_key(|error| error.errno);
    LoadResult {
        seconds: length.as_secs_f64(),
        events,
        throughput: events as f64 / length.as_secs_f64(),
        per_second,
        latency_us: (events > 0).then(|| latency(&latencies)),
        errors,
        client_cpu_us_per_event: (events > 0).then(|| cpu.as_secs_f64() * 1e6 / events as f64),
    }
}

fn latency(latencies: &Latencies) -> Latency {
    let us = |ns: u64| (ns + 500) / 1000;
    let at = |quantile| us(latencies.value_at_quantile(quantile));
    Latency {
        mean: latencies.mean() / 1000.0,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: us(latencies.max()),
    }
}
