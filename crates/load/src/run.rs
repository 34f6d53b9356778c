//! A running load.

use std::sync::{mpsc, Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::closed::{busy, whole_seconds, Closed, WindowPart};
use crate::connection::Connection;
use crate::control::Control;
use crate::dialer::Dialer;
use crate::drive::blocking;
use crate::drive::polling::Polling;
use crate::handoff::Handoff;
use crate::histogram::{latencies, record};
use crate::meter::{Meter, Shape, Window};
use crate::reconnect::Reconnect;
use crate::result::{Latency, LoadProgress, LoadResult, LoadSeen};
use crate::schedule::Schedule;
use crate::seconds::SecondsWriter;
use crate::session::Session;
use crate::share::Share;
use crate::spec::LoadSpec;
use crate::streams::Stream;
use crate::sync::locked;
use crate::tables::check_tables;
use crate::transaction::{Commit, Transaction};
use crate::usage::Usage;
use crate::worker::{guarded, Worker};
use crate::workload::{Acked, Acks, NewKeys, Rank, Workload};
use crate::{Cancellation, Error, ErrorKind};

/// How long running events may take to end before their connections are cut.
const GRACE: Duration = Duration::from_secs(2);

/// How often the end of the threads is looked for.
const GLANCE: Duration = Duration::from_millis(1);

/// How long events and transactions that are open at the end of a window or the beginning of a pause may take
/// to end: a statement and a COMMIT.
const SETTLING: Duration = Duration::from_secs(15);

/// How often somebody who waits here asks whether it is interrupted.
const LOOK: Duration = Duration::from_millis(200);

/// How long the disk may take over the rest of a window's seconds.
const WRITING: Duration = Duration::from_secs(15);

/// What the driver's own COMMIT is called among the statements.
const COMMIT: &str = "COMMIT";

/// Seconds that a glance tells of.
const SECONDS_TOLD: usize = 60;

struct OpenWindow {
    start: Instant,
    /// What the load's thread had taken before.
    usage: Usage,
    /// Writes its seconds, where that was asked for.
    seconds: Option<SecondsWriter>,
}

impl OpenWindow {
    /// It gives no result.
    fn abandon(self) {
        if let Some(seconds) = self.seconds {
            seconds.abandon();
        }
    }
}

struct Running {
    control: Arc<Control>,
    start: Instant,
    end: Option<Instant>,
    shape: Shape,
    meter: Arc<Mutex<Meter>>,
    /// To the thread that polls; none, if it blocks.
    handoff: Option<Arc<Handoff>>,
    threads: Vec<JoinHandle<()>>,
    window: Option<OpenWindow>,
    /// Since when it is paused.
    paused: Option<Instant>,
}

/// A load: connected, then running, then stopped.
///
/// In a closed loop each connection begins its next event when the last one has ended. With a rate or a
/// profile events are due at their time, and latency counts from then; what is due while all connections are
/// busy waits and is begun as soon as one is free.
///
/// An event that ends in an ignored error is counted under that error and begun anew with fresh
/// values, as sysbench does. With a rate or a profile it goes on counting from when it was due; in a closed loop,
/// unlike in sysbench, its time is no part of the new event's latency. The transaction that it was part of is
/// rolled back whole, whatever the server has done already.
pub struct LoadRun {
    dialer: Arc<Dialer>,
    statements: Vec<String>,
    /// Kinds of transactions, with their numbers of statements.
    transactions: Vec<(String, usize)>,
    ready: Vec<(Connection, Box<dyn Workload>)>,
    running: Option<Running>,
}

impl LoadRun {
    /// Connects, checks the tables and prepares all statements.
    ///
    /// # Errors
    /// [`ErrorKind::Server`] if the server cannot be reached or refuses; [`ErrorKind::Measurement`] if the
    /// tables are not what `spec` needs.
    pub fn connect(spec: &LoadSpec, cancellation: Arc<Cancellation>) -> Result<Self, Error> {
        let dialer = Dialer::new(spec.clone(), cancellation);
        let mut ready = Vec::with_capacity(spec.threads as usize);
        let mut new_keys = NewKeys::beyond(Vec::new(), spec.share);
        let mut statements = Vec::new();
        let mut transactions = Vec::new();
        let notes = spec.acks.as_ref().map(Acks::open).transpose()?;
        for number in 0..spec.threads {
            let mut connection = dialer.open().map_err(|error| {
                error.during(format_args!("connection {} of {}", number + 1, spec.threads))
            })?;
            if number == 0 {
                let largest = check_tables(&mut connection, spec)?;
                new_keys = NewKeys::beyond(largest, spec.share);
            }
            let rank = Rank {
                number: spec.share.first_connection + number,
                of: spec.share.connections,
            };
            let inner = spec.workload.open(&spec.tables, rank, &new_keys);
            let mut workload = match &notes {
                Some(notes) => Box::new(Acked::new(notes, inner, rank)),
                None => inner.expect("acked_inserts alone has notes"),
            };
            workload.prepare(&mut connection)?;
            if number == 0 {
                statements = workload.statements();
                transactions = workload.transactions();
            }
            ready.push((connection, workload));
        }
        if spec.commit != Commit::Auto {
            statements.push(COMMIT.to_owned());
        }
        Ok(Self {
            dialer: Arc::new(dialer),
            statements,
            transactions,
            ready,
            running: None,
        })
    }

    /// How long the first connection waits for answers that cost the server next to nothing, before the load is
    /// started: what the network, with TLS where there is TLS, takes of each statement.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if it was started or stopped before, or `count` is 0; those of a lost connection.
    pub fn round_trips(&mut self, count: u32) -> Result<Latency, Error> {
        let Some((connection, _)) = self.ready.first_mut() else {
            return Err(Error::usage("the load was started or stopped before"));
        };
        let mut some = latencies();
        for _ in 0..count {
            let sent = Instant::now();
            connection.ping()?;
            record(&mut some, sent.elapsed());
        }
        Latency::of(&some).ok_or_else(|| Error::usage("no round trip was asked for"))
    }

    /// Starts the thread: one drives all connections.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if it was started or stopped before; [`ErrorKind::Measurement`] if the system gives
    /// no thread.
    pub fn start(&mut self) -> Result<(), Error> {
        if self.running.is_some() || self.ready.is_empty() {
            return Err(Error::usage(
                "the load was started or stopped before; make a new one",
            ));
        }
        let spec = &self.dialer.spec;
        let start = Instant::now();
        let schedule = spec.plan.clone().map(|plan| {
            let arrivals = Stream::Arrivals(spec.share.generator).random(spec.seed);
            Schedule::new(plan, arrivals, start)
        });
        let control = Arc::new(Control::new(spec.ignored_errors.clone(), schedule, spec.commit));
        let sessions = self.sessions(start);
        let running = self.running.insert(Running {
            start,
            end: None,
            shape: Shape {
                statements: self.statements.len(),
                transaction_of: self
                    .transactions
                    .iter()
                    .enumerate()
                    .flat_map(|(kind, (_, statements))| std::iter::repeat_n(kind, *statements))
                    .collect(),
                sessions: sessions.len(),
                open_loop: control.schedule.is_some(),
                seconds: self.dialer.spec.seconds.are_asked_for(),
            },
            control,
            meter: Arc::new(Mutex::new(Meter::new(start))),
            handoff: None,
            threads: Vec::new(),
            window: None,
            paused: None,
        });
        let begun = begin(running, sessions, &self.dialer);
        if begun.is_err() {
            self.stop();
        }
        begun
    }

    /// The connections with what they need to run.
    fn sessions(&mut self, start: Instant) -> Vec<Session> {
        let spec = &self.dialer.spec;
        let Share {
            first_connection,
            connections,
            ..
        } = spec.share;
        let ready = std::mem::take(&mut self.ready).into_iter().enumerate();
        let session = |(index, (connection, workload)): (usize, _)| {
            let number = first_connection + index as u32;
            let random = Stream::Connection(number).random(spec.seed);
            let transaction = Transaction::new(spec.commit, start, number, connections);
            Session::new(connection, workload, random, transaction, index, start)
        };
        ready.map(session).collect()
    }

    /// A glance at the load; cheap.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if it was not started.
    pub fn progress(&self) -> Result<LoadProgress, Error> {
        let running = self.running.as_ref().ok_or_else(not_started)?;
        let elapsed = running.end.unwrap_or_else(Instant::now) - running.start;
        let failed = running.control.failed();
        let meter = locked(&running.meter);
        Ok(LoadProgress {
            elapsed_s: elapsed.as_secs_f64(),
            events: meter.events,
            per_second: whole_seconds(&meter.per_second, elapsed, SECONDS_TOLD),
            errors: meter.errors,
            failed: failed.as_ref().map(Error::to_string),
            hint: failed.and_then(|error| error.hint),
        })
    }

    /// All that it has done so far; dearer than [`Self::progress`], so once a second is enough.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if it was not started.
    pub fn seen(&self) -> Result<LoadSeen, Error> {
        let running = self.running.as_ref().ok_or_else(not_started)?;
        let schedule = running.control.schedule.as_ref();
        let backlog = schedule.map(|schedule| locked(schedule).backlog(Instant::now()));
        let meter = locked(&running.meter);
        Ok(LoadSeen {
            events: meter.events,
            errors: meter.codes(),
            latencies_us: meter.latencies.counts(),
            latency_sum_s: meter.latencies.sum().as_secs_f64(),
            backlog,
            lag_p99_us: meter.lag_p99_us(),
        })
    }

    /// Opens the measured window, or opens it anew, while the load runs on. A profile begins here.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if it does not run or is paused; [`ErrorKind::Storage`] if the files of its seconds cannot be made; what
    /// made the load fail, if it has.
    pub fn open_window(&mut self) -> Result<(), Error> {
        let running = running(&mut self.running)?;
        if running.paused.is_some() {
            return Err(Error::usage("the load is paused: nothing would be in the window"));
        }
        if let Some(window) = running.window.take() {
            window.abandon();
        }
        let window = Window::new(running.shape.clone());
        let mut meter = locked(&running.meter);
        let start = Instant::now();
        meter.open(start, window);
        let usage = running.usage(meter);
        if let Some(schedule) = &running.control.schedule {
            locked(schedule).open_window(start);
        }
        running.wake();
        let files = &self.dialer.spec.seconds;
        let seconds = files
            .are_asked_for()
            .then(|| SecondsWriter::start(files, running.meter.clone(), start))
            .transpose()?;
        running.window = Some(OpenWindow {
            start,
            usage,
            seconds,
        });
        Ok(())
    }

    /// Closes the window and tells what it gave, while the load runs on.
    ///
    /// Transactions that are open at its end are committed once their running statement has ended: only
    /// then is it known what of the window counts.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if none is open; what made the load fail, if it has: such a window is no
    /// measurement; [`ErrorKind::Measurement`] if a transaction does not end within 15 s.
    pub fn close_window(&mut self) -> Result<LoadResult, Error> {
        let result = self.close_window_unless(|| false)?;
        Ok(result.expect("nothing interrupts it"))
    }

    /// The same, unless `interrupted` says in the meantime that nobody waits for the result any more; it is asked
    /// several times a second.
    ///
    /// # Errors
    /// As [`Self::close_window`].
    pub fn close_window_unless(
        &mut self,
        mut interrupted: impl FnMut() -> bool,
    ) -> Result<Option<LoadResult>, Error> {
        let part = self.close_window_part_unless(&mut interrupted)?;
        Ok(part.map(WindowPart::result))
    }

    /// The same in full, to be merged with the windows of other load generators.
    ///
    /// # Errors
    /// As [`Self::close_window`].
    pub fn close_window_part_unless(
        &mut self,
        mut interrupted: impl FnMut() -> bool,
    ) -> Result<Option<WindowPart>, Error> {
        let running = running(&mut self.running)?;
        let opened = running
            .window
            .take()
            .ok_or_else(|| Error::usage("no window is open"))?;
        // No event ends while the lock is held, which is for microseconds: the moment that is taken under it
        // divides them.
        let mut meter = locked(&running.meter);
        let end = Instant::now();
        meter.close();
        let usage = running.usage(meter);
        let schedule = running.control.schedule.as_ref();
        let offered = schedule.map(|schedule| locked(schedule).close_window(end));
        let mut window = match running.settle(&mut interrupted) {
            Ok(Some(window)) => window,
            other => {
                opened.abandon();
                return other.map(|_| None);
            }
        };
        let length = end - opened.start;
        let spec = &self.dialer.spec;
        let unwritten = match opened.seconds.map(|seconds| seconds.finish(&mut window, length)) {
            Some(rest) => rest.wait(WRITING, LOOK, interrupted),
            None => Some(None),
        };
        let Some(unwritten) = unwritten else {
            return Ok(None);
        };
        let usage = (opened.usage, usage);
        let closed = Closed {
            unwritten,
            window,
            length,
            shortest: length,
            busy: busy(&usage, length),
            usage,
            statements: self.statements.clone(),
            transactions: self.transactions.clone(),
            counts_rows: spec.workload.counts_rows(),
            commits_itself: spec.commit != Commit::Auto,
            amount: spec.workload.amount(),
            offered,
        };
        Ok(Some(WindowPart(closed)))
    }

    /// Begins no further event, and comes back when the running ones have ended and nothing is open on the
    /// server: until [`Self::resume`] it has nothing to do for this load. Does nothing the second time.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if it does not run, or a window is open: a window has no holes; what made the load fail,
    /// if it has; [`ErrorKind::Measurement`] if an event does not end within 15 s.
    pub fn pause(&mut self) -> Result<(), Error> {
        self.pause_unless(|| false).map(drop)
    }

    /// The same, unless `interrupted` says in the meantime that nobody waits any more; whether it has come to the end.
    ///
    /// # Errors
    /// As [`Self::pause`].
    pub fn pause_unless(&mut self, mut interrupted: impl FnMut() -> bool) -> Result<bool, Error> {
        let running = running(&mut self.running)?;
        if running.window.is_some() {
            return Err(Error::usage("a window is open: close it before the pause"));
        }
        if running.paused.is_none() {
            running.paused = Some(Instant::now());
            running.control.pause(true);
            running.wake();
        }
        let rests = running.wait(
            "an event that ran when the pause began",
            || running.control.rests().then_some(()),
            &mut interrupted,
        );
        Ok(rests?.is_some())
    }

    /// Goes on after a pause, as if there had been none: what would have been due in it is due as much later.
    /// Does nothing if it is not paused.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if it does not run; what made the load fail, if it has.
    pub fn resume(&mut self) -> Result<(), Error> {
        let running = running(&mut self.running)?;
        if let Some(since) = running.paused.take() {
            if let Some(schedule) = &running.control.schedule {
                locked(schedule).shift(since.elapsed());
            }
            running.control.pause(false);
            running.wake();
        }
        Ok(())
    }

    /// Ends all events and closes the connections. Threads whose events do not end within two
    /// seconds (a lock wait, a hung server) have their connections cut. Does nothing the second time.
    pub fn stop(&mut self) {
        self.ready.clear();
        let Some(running) = &mut self.running else { return };
        running.control.stop();
        running.wake();
        let deadline = Instant::now() + GRACE;
        while running.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(GLANCE);
        }
        self.dialer.cancellation.cancel();
        for thread in running.threads.drain(..) {
            if let Err(said) = thread.join() {
                running.control.fail_for_bug(Error::panicked(&*said));
            }
        }
        if let Some(window) = running.window.take() {
            window.abandon();
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
    /// What the thread has taken: its CPU time and waits at this moment, the kernel's accounts as soon as it may go on.
    fn usage(&self, meter: MutexGuard<'_, Meter>) -> Usage {
        let (thread, waits) = (meter.thread(), self.control.waits.seen());
        let cpu = thread.cpu();
        drop(meter);
        let accounts = thread.accounts();
        Usage { cpu, accounts, waits }
    }

    fn wake(&self) {
        match &self.handoff {
            Some(handoff) => handoff.wake(),
            None => self.threads.iter().for_each(|thread| thread.thread().unpark()),
        }
    }

    /// The closed window, as soon as no transaction in it is open; none, if it was interrupted.
    fn settle(&self, interrupted: &mut impl FnMut() -> bool) -> Result<Option<Window>, Error> {
        self.control.settle(true);
        self.wake();
        let settled = self.wait(
            "a transaction that was open at the window's end",
            || locked(&self.meter).take_settled(),
            interrupted,
        );
        self.control.settle(false);
        match self.control.failed() {
            Some(error) => Err(error),
            None => settled,
        }
    }

    /// Waits until the thread has come to something; none, if it was interrupted.
    fn wait<T>(
        &self,
        what: &str,
        come: impl Fn() -> Option<T>,
        interrupted: &mut impl FnMut() -> bool,
    ) -> Result<Option<T>, Error> {
        let deadline = Instant::now() + SETTLING;
        let mut looks = Instant::now() + LOOK;
        loop {
            if let Some(found) = come() {
                return Ok(Some(found));
            }
            if Instant::now() > looks {
                if interrupted() {
                    return Ok(None);
                }
                looks = Instant::now() + LOOK;
            }
            if let Some(error) = self.control.failed() {
                return Err(error);
            }
            if Instant::now() > deadline {
                let message = format!("{what} did not end within {} s", SETTLING.as_secs());
                return Err(Error::new(ErrorKind::Measurement, message));
            }
            std::thread::sleep(GLANCE);
        }
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = thread.map_err(|error| {
            let message = format!("the system gives no thread for the load: {error}");
            Error::new(ErrorKind::Measurement, message)
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

/// Gives the sessions to a thread of their own, and has another one open lost connections where that was asked
/// for.
fn begin(running: &mut Running, mut sessions: Vec<Session>, dialer: &Arc<Dialer>) -> Result<(), Error> {
    let (queue, lost) = mpsc::channel();
    let reconnect = |queue| Reconnect {
        dialer: dialer.clone(),
        control: running.control.clone(),
        queue,
    };
    let reconnects = dialer.spec.reconnect;
    let (driving, opening) = (reconnect(reconnects.then_some(queue)), reconnect(None));
    let worker = Worker {
        policy: dialer.spec.policy,
        control: running.control.clone(),
        meter: running.meter.clone(),
    };
    if sessions.len() == 1 {
        let session = sessions.remove(0);
        return running.spawn("load", move || {
            worker.run(|context| blocking::run(session, context, &driving));
        });
    }
    let handoff = Arc::new(Handoff::new()?);
    running.handoff = Some(handoff.clone());
    if reconnects {
        let control = running.control.clone();
        running.spawn("load-reconnects", move || {
            guarded(&control, || {
                opening.run(&lost);
                Ok(())
            });
        })?;
    }
    running.spawn("load", move || {
        worker.run(|context| Polling::new(sessions, context, handoff, &driving)?.run());
    })
}

fn not_started() -> Error {
    Error::usage("the load was not started")
}

/// The running load; what made it fail, if it has.
fn running(running: &mut Option<Running>) -> Result<&mut Running, Error> {
    let running = running.as_mut().ok_or_else(not_started)?;
    if let Some(error) = running.control.failed() {
        return Err(error);
    }
    if running.end.is_some() {
        return Err(Error::usage("the load is stopped"));
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    /// A load without connections, whose thread does `work`.
    fn running(work: impl FnOnce() -> Result<(), Error> + Send + 'static) -> LoadRun {
        let spec = serde_json::json!({
            "workload": "oltp_update_non_index",
            "endpoint": {"user": "u", "password": "p", "socket": "/s", "host": null, "port": null},
            "transport": "socket", "database": "sbtest", "threads": 1, "tables": 1, "table_size": 100,
            "rand_type": "special", "seed": 1, "ignored_errors": [],
        });
        let start = Instant::now();
        let mut running = Running {
            control: Arc::new(Control::new(Vec::new(), None, Commit::Auto)),
            start,
            end: None,
            shape: Shape {
                statements: 1,
                transaction_of: Vec::new(),
                sessions: 1,
                open_loop: false,
                seconds: false,
            },
            meter: Arc::new(Mutex::new(Meter::new(start))),
            handoff: None,
            threads: Vec::new(),
            window: None,
            paused: None,
        };
        let worker = Worker {
            policy: Policy::Normal,
            control: running.control.clone(),
            meter: running.meter.clone(),
        };
        running.spawn("load", move || worker.run(|_| work())).unwrap();
        LoadRun {
            dialer: Arc::new(Dialer::new(
                LoadSpec::from_json(&serde_json::to_vec(&spec).unwrap()).unwrap(),
                Arc::default(),
            )),
            statements: vec!["UPDATE".to_owned()],
            transactions: Vec::new(),
            ready: Vec::new(),
            running: Some(running),
        }
    }

    #[test]
    fn a_thread_that_panics_makes_the_figure_fail_with_what_it_said() {
        let (panic, wait) = mpsc::channel::<()>();
        let mut run = running(move || {
            let _ = wait.recv();
            panic!("connection {} came undone", 3)
        });
        run.open_window().unwrap();
        drop(panic);
        while run.progress().unwrap().failed.is_none() {
            std::thread::yield_now();
        }
        let error = run.close_window().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Harness);
        assert!(
            error.message.contains("connection 3 came undone"),
            "{}",
            error.message
        );
        assert!(run.progress().unwrap().hint.unwrap().contains("bug"));
        run.stop();
        assert_eq!(run.open_window().unwrap_err().kind, ErrorKind::Harness);
    }
}
