//! A running load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use flushlab_rows::Random;

use crate::connection::Connection;
use crate::drive::blocking;
use crate::drive::polling::{Mailbox, Polling};
use crate::lane::{Desk, Lane};
use crate::meter::{merge_seconds, Meter, Shape, Window};
use crate::policy::Policy;
use crate::reconnect::Reopening;
use crate::result::{Closed, LoadProgress, LoadResult};
use crate::schedule::Schedule;
use crate::spec::LoadSpec;
use crate::sync::locked;
use crate::tables::check_tables;
use crate::transaction::{Commit, Transaction};
use crate::workload::{NewKeys, Place, Workload};
use crate::{Cutoff, Error, Kind};

/// How long running events may take to end before their connections are cut.
const GRACE: Duration = Duration::from_secs(2);

/// How often the end of the threads is looked for.
const GLANCE: Duration = Duration::from_millis(1);

/// How long the transactions that are open at the end of a window may take to end: a statement and a
/// COMMIT.
const SETTLING: Duration = Duration::from_secs(15);

/// What the driver's own COMMIT is called among the statements.
const COMMIT: &str = "COMMIT";

/// What the threads and their owner share.
pub(crate) struct Shared {
    stop: AtomicBool,
    /// A window has ended and waits: commit as soon as a statement has ended.
    settle: AtomicBool,
    failed: Mutex<Option<Error>>,
    ignored_errors: Vec<u16>,
    /// None in a closed loop.
    pub schedule: Option<Mutex<Schedule>>,
    pub commit: Commit,
}

impl Shared {
    /// Whether the load is to end.
    #[inline]
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a window waits for commits.
    #[inline]
    pub fn settles(&self) -> bool {
        self.settle.load(Ordering::Relaxed)
    }

    fn failed(&self) -> Option<Error> {
        locked(&self.failed).clone()
    }

    /// Whether the load goes on after this error.
    pub fn is_ignored(&self, error: &Error) -> bool {
        error
            .errno
            .is_some_and(|errno| self.ignored_errors.contains(&errno))
    }

    /// Ends the load for a reason, unless it is being stopped: then a connection may have been cut.
    pub fn fail(&self, error: Error) {
        if !self.stop.swap(true, Ordering::Relaxed) {
            *locked(&self.failed) = Some(error);
        }
    }
}

/// Opens connections as the load needs them.
pub(crate) struct Dialer {
    spec: LoadSpec,
    cutoff: Arc<Cutoff>,
}

impl Dialer {
    /// A connection that is logged in and in the right commit mode.
    pub fn open(&self) -> Result<Connection, Error> {
        let spec = &self.spec;
        let mut connection =
            Connection::open(&spec.endpoint, &spec.address, Some(&spec.database), &self.cutoff)?;
        if spec.commit != Commit::Auto {
            connection.query("SET autocommit=0")?;
        }
        Ok(connection)
    }
}

struct OpenWindow {
    start: Instant,
    opened: SystemTime,
    cpu: Vec<Duration>,
}

struct Running {
    shared: Arc<Shared>,
    start: Instant,
    end: Option<Instant>,
    shape: Shape,
    meters: Vec<Arc<Mutex<Meter>>>,
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<()>>,
    window: Option<OpenWindow>,
}

/// A load: connected, then running, then stopped.
///
/// In a closed loop each connection begins its next event when the last one has ended. With a rate or a
/// profile events are due at their time, and latency counts from then; what is due while all connections are
/// busy waits and is begun as soon as one is free.
///
/// An event that ends in an ignored error is counted under that error and begun anew with fresh
/// values, as sysbench does; unlike there, its time is no part of the new event's latency. The
/// transaction that it was part of is rolled back whole, whatever the server has done already.
pub struct LoadRun {
    dialer: Arc<Dialer>,
    statements: Vec<String>,
    ready: Vec<(Connection, Box<dyn Workload>)>,
    running: Option<Running>,
}

impl LoadRun {
    /// Connects, checks the tables and prepares all statements.
    ///
    /// # Errors
    /// [`Kind::Server`] if the server cannot be reached or refuses; [`Kind::Measurement`] if the
    /// tables are not what `spec` needs.
    pub fn connect(spec: &LoadSpec, cutoff: Arc<Cutoff>) -> Result<Self, Error> {
        let dialer = Dialer {
            spec: spec.clone(),
            cutoff,
        };
        let mut ready = Vec::with_capacity(spec.threads as usize);
        let mut new_keys: NewKeys = Arc::new([]);
        let mut statements = Vec::new();
        for number in 0..spec.threads {
            let mut connection = dialer.open().map_err(|error| {
                error.during(format_args!("connection {} of {}", number + 1, spec.threads))
            })?;
            if number == 0 {
                let largest = check_tables(&mut connection, spec)?;
                new_keys = largest.into_iter().map(|key| AtomicU64::new(key + 1)).collect();
            }
            let place = Place {
                number,
                of: spec.threads,
            };
            let mut workload = spec.workload.open(spec, place, &new_keys);
            workload.prepare(&mut connection)?;
            if number == 0 {
                statements = workload.statements();
            }
            ready.push((connection, workload));
        }
        if spec.commit != Commit::Auto {
            statements.push(COMMIT.to_owned());
        }
        Ok(Self {
            dialer: Arc::new(dialer),
            statements,
            ready,
            running: None,
        })
    }

    /// Starts the thread: one drives all connections.
    ///
    /// # Errors
    /// [`Kind::Usage`] if it was started or stopped before; [`Kind::Measurement`] if the system gives
    /// no thread.
    pub fn start(&mut self) -> Result<(), Error> {
        if self.running.is_some() || self.ready.is_empty() {
            return Err(Error::usage(
                "the load was started or stopped before; make a new one",
            ));
        }
        let spec = &self.dialer.spec;
        let start = Instant::now();
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            settle: AtomicBool::new(false),
            failed: Mutex::new(None),
            ignored_errors: spec.ignored_errors.clone(),
            schedule: spec
                .plan
                .clone()
                .map(|plan| Mutex::new(Schedule::new(plan, spec.seed, start))),
            commit: spec.commit,
        });
        let lanes = self.lanes(start);
        let meter = Arc::new(Mutex::new(Meter::new(start)));
        let running = self.running.insert(Running {
            shared: shared.clone(),
            start,
            end: None,
            shape: Shape {
                statements: self.statements.len(),
                lanes: lanes.len(),
                open_loop: shared.schedule.is_some(),
                intervals: self.dialer.spec.intervals,
            },
            meters: vec![meter.clone()],
            mailboxes: Vec::new(),
            threads: Vec::new(),
            window: None,
        });
        let begun = begin(running, lanes, &self.dialer, &meter);
        if begun.is_err() {
            self.stop();
        }
        begun
    }

    /// The connections with what they need to run.
    fn lanes(&mut self, start: Instant) -> Vec<Lane> {
        let spec = &self.dialer.spec;
        let of = self.ready.len() as u32;
        let ready = std::mem::take(&mut self.ready).into_iter().enumerate();
        let lane = |(index, (connection, workload)): (usize, _)| {
            let number = index as u32;
            let random = Random::new(spec.seed.wrapping_add(u64::from(number)));
            let transaction = Transaction::new(spec.commit, start, number, of);
            Lane::new(connection, workload, random, transaction, index, start)
        };
        ready.map(lane).collect()
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
        let failed = running.shared.failed();
        Ok(LoadProgress {
            elapsed_s: elapsed.as_secs_f64(),
            events,
            per_second: merge_seconds(seconds.iter().map(Vec::as_slice), elapsed),
            errors,
            failed: failed.as_ref().map(Error::to_string),
            hint: failed.and_then(|error| error.hint),
        })
    }

    /// Opens the measured window, or opens it anew, while the load runs on. A profile begins here.
    ///
    /// # Errors
    /// [`Kind::Usage`] if it does not run; what made the load fail, if it has.
    pub fn open_window(&mut self) -> Result<(), Error> {
        let running = running(&mut self.running)?;
        let windows: Vec<_> = running
            .meters
            .iter()
            .map(|_| Window::new(running.shape))
            .collect();
        let mut meters = halt(&running.meters);
        let start = Instant::now();
        for (meter, window) in meters.iter_mut().zip(windows) {
            meter.open(start, window);
        }
        let cpu = cpu(&meters);
        drop(meters);
        if let Some(schedule) = &running.shared.schedule {
            locked(schedule).open_window(start);
        }
        running.knock();
        running.window = Some(OpenWindow {
            start,
            opened: SystemTime::now(),
            cpu,
        });
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
        let running = running(&mut self.running)?;
        let opened = running
            .window
            .take()
            .ok_or_else(|| Error::usage("no window is open"))?;
        let mut meters = halt(&running.meters);
        let end = Instant::now();
        meters.iter_mut().for_each(|meter| meter.close());
        let cpu = cpu(&meters);
        drop(meters);
        let kept = running
            .shared
            .schedule
            .as_ref()
            .map(|schedule| locked(schedule).close_window(end));
        let windows = running.settle()?;
        let spec = &self.dialer.spec;
        let closed = Closed {
            windows,
            length: end - opened.start,
            cpu: cpu
                .iter()
                .zip(&opened.cpu)
                .map(|(after, before)| after.saturating_sub(*before))
                .collect(),
            statements: &self.statements,
            counts_rows: spec.workload.counts_rows(),
            commits_itself: spec.commit != Commit::Auto,
            amount: spec.workload.amount(),
            kept,
            opened: opened.opened,
        };
        Ok(closed.result())
    }

    /// Ends all events and closes the connections. Threads whose events do not end within two
    /// seconds (a lock wait, a hung server) have their connections cut. Does nothing the second time.
    pub fn stop(&mut self) {
        self.ready.clear();
        let Some(running) = &mut self.running else { return };
        running.shared.stop.store(true, Ordering::Relaxed);
        running.knock();
        let deadline = Instant::now() + GRACE;
        while running.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(GLANCE);
        }
        self.dialer.cutoff.fire();
        for thread in running.threads.drain(..) {
            if thread.join().is_err() {
                let error = Error::new(Kind::Measurement, "a thread of the load panicked: this is a bug");
                locked(&running.shared.failed).get_or_insert(error);
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

impl Running {
    fn knock(&self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.knock());
    }

    /// The closed windows of all meters, as soon as no transaction in them is open.
    fn settle(&self) -> Result<Vec<Window>, Error> {
        self.shared.settle.store(true, Ordering::Relaxed);
        self.knock();
        let settled = self.settled();
        self.shared.settle.store(false, Ordering::Relaxed);
        match self.shared.failed() {
            Some(error) => Err(error),
            None => settled,
        }
    }

    fn settled(&self) -> Result<Vec<Window>, Error> {
        let deadline = Instant::now() + SETTLING;
        let mut windows = Vec::with_capacity(self.meters.len());
        for meter in &self.meters {
            windows.push(loop {
                if let Some(window) = locked(meter).take_settled() {
                    break window;
                }
                if let Some(error) = self.shared.failed() {
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

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = thread.map_err(|error| {
            let message = format!("the system gives no thread for the load: {error}");
            Error::new(Kind::Measurement, message)
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

/// Gives the lanes to a thread of their own, and has another one open lost connections where that was asked
/// for.
fn begin(
    running: &mut Running,
    mut lanes: Vec<Lane>,
    dialer: &Arc<Dialer>,
    meter: &Arc<Mutex<Meter>>,
) -> Result<(), Error> {
    let (queue, lost) = mpsc::channel();
    let reopening = |queue| Reopening {
        dialer: dialer.clone(),
        shared: running.shared.clone(),
        queue,
    };
    let reconnect = dialer.spec.reconnect;
    let (driving, opening) = (reopening(reconnect.then_some(queue)), reopening(None));
    let thread = Thread {
        policy: dialer.spec.policy,
        shared: running.shared.clone(),
        meter: meter.clone(),
        reopening: driving,
    };
    if lanes.len() == 1 {
        let lane = lanes.remove(0);
        return running.spawn("load", move || {
            thread.run(|desk, reopening| blocking::run(lane, desk, reopening));
        });
    }
    let mailbox = Arc::new(Mailbox::new()?);
    running.mailboxes.push(mailbox.clone());
    if reconnect {
        running.spawn("load-reconnect", move || opening.run(&lost))?;
    }
    running.spawn("load", move || {
        thread.run(|desk, reopening| Polling::new(lanes, desk, mailbox, reopening)?.run());
    })
}

/// What a thread of the load has, whatever it drives.
struct Thread {
    policy: Policy,
    shared: Arc<Shared>,
    meter: Arc<Mutex<Meter>>,
    reopening: Reopening,
}

impl Thread {
    fn run(self, drive: impl FnOnce(Desk<'_>, &Reopening) -> Result<(), Error>) {
        locked(&self.meter).thread_begins();
        let desk = Desk {
            shared: &self.shared,
            meter: &self.meter,
        };
        let policy = self.policy.apply().map_err(|error| {
            let message = format!("the system refuses SCHED_BATCH, client_sched batch: {error}");
            Error::new(Kind::Measurement, message)
        });
        if let Err(error) = policy.and_then(|()| drive(desk, &self.reopening)) {
            self.shared.fail(error);
        }
        locked(&self.meter).thread_ends();
    }
}

fn not_started() -> Error {
    Error::usage("the load was not started")
}

/// The running load; what made it fail, if it has.
fn running(running: &mut Option<Running>) -> Result<&mut Running, Error> {
    let running = running.as_mut().ok_or_else(not_started)?;
    if let Some(error) = running.shared.failed() {
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

/// CPU time of each thread so far.
fn cpu(meters: &[MutexGuard<'_, Meter>]) -> Vec<Duration> {
    meters.iter().map(|meter| meter.cpu()).collect()
}
