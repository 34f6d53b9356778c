//! Connections beside the dump's own: they run what need not wait, each in its thread.
//!
//! What is given them comes with the state that its session must have, and a worker sets its own alike before it runs
//! any; one that cannot leaves for good. The dump's own connection runs what no worker takes. Everything is tried once,
//! unless it met a lock of something that runs beside it: then it runs again, alone.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::queue::{quoting, Job, Offer, SharedQueue, State};
use super::session_state::SessionState;
use crate::connection::Connection;
use crate::script::excerpt;
use crate::Error;

const LOCK_WAIT_TIMEOUT: u16 = 1205;
const DEADLOCK: u16 = 1213;

type Dial = Box<dyn Fn() -> Result<Connection, Error> + Send>;

pub(crate) struct Workers {
    shared: Arc<SharedQueue>,
    dial: Dial,
    most: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// None yet; `most` of them, connected by `dial`.
    pub fn new(shared: Arc<SharedQueue>, most: usize, dial: Dial) -> Self {
        Self {
            shared,
            dial,
            most,
            threads: Vec::new(),
        }
    }

    /// Whether there are any; connects them, the first time.
    pub fn there_are(&mut self) -> bool {
        for _ in 0..std::mem::take(&mut self.most) {
            let Ok(connection) = (self.dial)() else {
                break; // there is no room for more, or the dump's own connection will say why
            };
            let shared = self.shared.clone();
            self.shared.lock().work.workers += 1;
            self.threads.push(std::thread::spawn(move || {
                let mut held = None;
                let working = AssertUnwindSafe(|| work(&shared, connection, &mut held));
                if let Err(said) = catch_unwind(working) {
                    shared.lock().come_undone(held, Error::panicked(&*said));
                    shared.changed.notify_all();
                }
            }));
        }
        self.shared.lock().work.workers > 0
    }

    /// Has rows run by somebody; by the dump's own connection when the workers have enough to do.
    pub fn rows(&self, own: &mut Connection, job: Job) {
        let mut state = self.shared.lock();
        state.work.rows.push_back(job);
        let job = match state.work.rows.len() > state.work.workers {
            true => state.work.rows.pop_front(),
            false => None,
        };
        drop(state);
        self.shared.offered.notify_one();
        if let Some(job) = job {
            self.run(own, job);
        }
    }

    /// All rows are there, or one of them failed; the own connection helps.
    pub fn finish_rows(&self, own: &mut Connection) {
        loop {
            let is_under_way = |state: &mut State| state.work.rows.is_empty() && state.work.rows_running > 0;
            let mut state = self.shared.wait_while(is_under_way);
            let next = state.work.rows.pop_front();
            drop(state);
            match next {
                Some(job) => self.run(own, job),
                None => break,
            }
        }
        self.run_again(own);
    }

    /// Has indexes built beside what follows; back comes what no worker is free for.
    pub fn build(&self, job: Job) -> Option<Job> {
        let mut state = self.shared.lock();
        if state.work.busy >= state.work.workers {
            return Some(job);
        }
        state.work.offer = Offer::Open(job);
        drop(state);
        self.shared.offered.notify_all();
        let mut state = self.shared.wait_while(|state| match state.work.offer {
            Offer::Open(_) => state.work.busy < state.work.workers,
            Offer::Looked => state.work.workers > 0,
            _ => false,
        });
        match std::mem::take(&mut state.work.offer) {
            Offer::Open(job) | Offer::Refused(job) => Some(job),
            _ => None,
        }
    }

    /// All indexes are built, or building one of them failed.
    pub fn finish_builds(&self, own: &mut Connection) {
        drop(self.shared.wait_while(|state| state.work.builds_running > 0));
        self.run_again(own);
    }

    /// Runs a job on a connection, whose session is as the job's.
    pub fn run(&self, own: &mut Connection, job: Job) {
        begins(&mut self.shared.lock(), &job);
        run(&self.shared, own, job, By::Own);
    }

    fn run_again(&self, own: &mut Connection) {
        let again = self.shared.lock().take_again();
        for job in again {
            begins(&mut self.shared.lock(), &job);
            run(&self.shared, own, job, By::OwnAlone);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.lock().work.closed = true;
        self.shared.offered.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // what it had to say is in the shared state
        }
    }
}

/// What a worker has begun and not ended.
#[derive(Debug)]
enum Held {
    Rows,
    /// Indexes of that table.
    Build(String),
}

impl Held {
    fn of(job: &Job) -> Self {
        job.builds.clone().map_or(Self::Rows, Self::Build)
    }
}

impl State {
    /// A worker panicked: what it held is under way no more, and nothing else of the dump is begun.
    fn come_undone(&mut self, held: Option<Held>, error: Error) {
        self.fail(0, error);
        let work = &mut self.work;
        work.workers -= 1;
        if let Offer::Looked = work.offer {
            work.offer = Offer::None; // by this worker, or by another one, whose answer nobody needs any more
        }
        let Some(held) = held else { return };
        work.busy -= 1;
        match held {
            Held::Rows => work.rows_running -= 1,
            Held::Build(table) => {
                work.builds_running -= 1;
                self.progress.building.retain(|one| *one != table);
            }
        }
    }
}

/// What a worker does until there is nothing more. `held` is what it has begun.
fn work(shared: &SharedQueue, mut connection: Connection, held: &mut Option<Held>) {
    let mut alike: Option<Arc<SessionState>> = None;
    loop {
        let nothing = |state: &mut State| {
            let work = &state.work;
            !work.closed && work.rows.is_empty() && !matches!(work.offer, Offer::Open(_))
        };
        let mut state = shared.lock();
        shared.offered.wait_while(&mut state, nothing);
        if state.work.closed {
            return;
        }
        let work = &mut state.work;
        let job = match std::mem::take(&mut work.offer) {
            Offer::Open(job) => {
                work.offer = Offer::Looked;
                Some(job)
            }
            other => {
                work.offer = other;
                work.rows.pop_front()
            }
        };
        let Some(job) = job else {
            continue;
        };
        work.busy += 1;
        begins(&mut state, &job);
        *held = Some(Held::of(&job));
        drop(state);
        if !alike
            .as_ref()
            .is_some_and(|alike| Arc::ptr_eq(alike, &job.session))
        {
            if !job.session.put_on(&mut connection) {
                *held = None;
                leave(shared, job);
                return;
            }
            alike = Some(job.session.clone());
        }
        if job.builds.is_some() {
            shared.lock().work.offer = Offer::Accepted;
            shared.changed.notify_all();
        }
        run(shared, &mut connection, job, By::Worker(held));
    }
}

/// A worker whose session cannot be set alike gives back what it took.
fn leave(shared: &SharedQueue, job: Job) {
    let mut state = shared.lock();
    ends(&mut state, &job);
    let work = &mut state.work;
    (work.workers, work.busy) = (work.workers - 1, work.busy - 1);
    let no_one_left = work.workers == 0;
    match job.builds {
        Some(_) => work.offer = Offer::Refused(job),
        None => work.rows.push_front(job),
    }
    if no_one_left {
        for job in std::mem::take(&mut work.rows) {
            state.set_aside(job);
        }
    }
    drop(state);
    shared.changed.notify_all();
}

fn begins(state: &mut State, job: &Job) {
    match &job.builds {
        Some(table) => {
            state.work.builds_running += 1;
            state.progress.building.push(table.clone());
        }
        None => state.work.rows_running += 1,
    }
}

fn ends(state: &mut State, job: &Job) {
    match &job.builds {
        Some(table) => {
            state.work.builds_running -= 1;
            state.progress.building.retain(|one| one != table);
        }
        None => state.work.rows_running -= 1,
    }
}

/// Whose connection runs a job.
#[derive(Debug)]
enum By<'a> {
    /// One that holds it.
    Worker(&'a mut Option<Held>),
    Own,
    /// While nothing runs beside it.
    OwnAlone,
}

fn run(shared: &SharedQueue, connection: &mut Connection, job: Job, by: By<'_>) {
    let outcome = connection.query_bytes(&job.sql);
    let mut state = shared.lock();
    ends(&mut state, &job);
    let alone = matches!(by, By::OwnAlone);
    if let By::Worker(held) = by {
        *held = None;
        state.work.busy -= 1; // now, or who finds nothing under way would find no worker free
        state.progress.beside += 1;
    }
    match outcome {
        Ok(_) if job.builds.is_none() => state.answered(job.sql.len()),
        Ok(_) => {}
        Err(error) if !alone && matches!(error.errno, Some(LOCK_WAIT_TIMEOUT | DEADLOCK)) => {
            state.set_aside(job);
        }
        Err(mut error) => {
            if job.builds.is_some() {
                error.message.push_str(", at ");
                error.message.push_str(&excerpt(&job.sql));
                error = state.told(error, job.place);
            } else {
                error = quoting(state.told(error, job.place), &job.sql);
            }
            state.fail(job.place.number, error);
        }
    }
    drop(state);
    shared.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::super::queue::Place;
    use super::*;
    use crate::scripted::{Reply, Scripted};

    fn rows(number: u64, sql: &str, file: Option<usize>) -> Job {
        Job {
            place: Place {
                number,
                line: 1,
                file,
            },
            sql: sql.as_bytes().to_vec(),
            session: Arc::default(),
            builds: None,
        }
    }

    #[test]
    fn rows_that_wait_for_another_try_are_not_ahead_of_the_server() {
        let met = AtomicBool::new(false);
        let server = Arc::new(Scripted::start(move |sql| match sql {
            "rows" if !met.swap(true, Ordering::Relaxed) => Reply::Raw(b"\xff\xbd\x04#40001Deadlock found"),
            _ => Reply::Ok,
        }));
        let shared = Arc::new(SharedQueue::default());
        let dialing = server.clone();
        let mut workers = Workers::new(shared.clone(), 1, Box::new(move || Ok(dialing.connect())));
        assert!(workers.there_are());
        shared.lock().bytes = 4;
        let mut own = server.connect();
        workers.rows(&mut own, rows(1, "rows", None));
        assert_eq!(shared.wait_while(|state| state.work.again.is_empty()).bytes, 0);
        workers.finish_rows(&mut own);
        let state = shared.lock();
        assert!(state.work.failed.is_none());
        assert_eq!(
            (state.bytes, state.progress.statements, state.progress.bytes),
            (0, 1, 4)
        );
    }

    #[test]
    fn a_worker_that_panics_ends_the_dump_and_lets_the_others_end_their_work() {
        let (answer, waits) = mpsc::channel();
        let waits = Mutex::new(waits);
        let server = Arc::new(Scripted::start(move |sql| match sql {
            "slow" => {
                let _ = waits.lock().recv();
                Reply::Ok
            }
            "refused" => Reply::Raw(b"\xff\x15\x04#28000Access denied"),
            _ => Reply::Ok,
        }));
        let shared = Arc::new(SharedQueue::default());
        let dialing = server.clone();
        let mut workers = Workers::new(shared.clone(), 2, Box::new(move || Ok(dialing.connect())));
        assert!(workers.there_are());
        let mut own = server.connect();
        workers.rows(&mut own, rows(1, "slow", None));
        // A file that is not known: putting its name into the error panics.
        workers.rows(&mut own, rows(2, "refused", Some(9)));
        drop(shared.wait_while(|state| state.work.failed.is_none()));
        {
            let state = shared.lock();
            let work = &state.work;
            assert_eq!((work.workers, work.busy, work.rows_running), (1, 1, 1));
        }
        answer.send(()).unwrap();
        let (done, finished) = mpsc::channel();
        let worker = std::thread::spawn(move || {
            workers.finish_rows(&mut own);
            workers.finish_builds(&mut own);
            drop(workers);
            done.send(()).unwrap();
        });
        finished
            .recv_timeout(Duration::from_secs(60))
            .expect("who waits for the rows waits for ever");
        worker.join().unwrap();
        let state = shared.lock();
        assert_eq!(
            (state.work.workers, state.work.busy, state.work.rows_running),
            (1, 0, 0)
        );
        let (_, error) = state.work.failed.as_ref().unwrap();
        assert_eq!(error.kind, crate::ErrorKind::Harness);
    }
}
