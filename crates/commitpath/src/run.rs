//! A run: threads, what is done beside them, the measured window, the result.

use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};
use rustix::time::{clock_gettime, ClockId};

use crate::engine::{Engine, Groups};
use crate::error::{Error, ErrorKind};
use crate::measure::{latency_us, times, Times};
use crate::shape::{CommitSource, Transactions};
use crate::spec::{Phase, Progress, RunResult, Spec};
use crate::transaction::Transaction;

const PHASES: [&str; 3] = ["warmup", "measuring", "done"];
const MEASURING: u8 = 1;
const DONE: u8 = 2;

/// How often the keeper looks whether the redo log's circle is filling.
const TICK: Duration = Duration::from_millis(5);
/// How often who waits for the result looks whether anything has moved.
const STALL_TICK: Duration = Duration::from_millis(100);
/// A run that has stalled ends itself within so long, unless its threads hang in the kernel.
const LAST_CHANCE: Duration = Duration::from_secs(1);
/// Longest that a disk may take for the files, beside writing them at so many bytes per second.
const STALLED: Duration = Duration::from_secs(30);
const SLOWEST_DISK: u64 = 4 << 20;
/// innodb_flush_log_at_timeout, and the interval of parallel flush's sync.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Hears of every commit, by the number of its GTID and its XID, before the commit counts.
type Observer = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// What the threads of a run share.
struct SharedPath {
    spec: Spec,
    engine: Engine,
    source: Arc<CommitSource>,
    phase: AtomicU8,
    stop: AtomicBool,
    /// Transactions that are still to be begun, where they are counted.
    left: AtomicU64,
    observer: Option<Observer>,
    started: Instant,
}

impl SharedPath {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.engine.has_failed()
    }

    /// Whether another transaction is to be begun.
    fn goes_on(&self) -> bool {
        let take = |left: u64| left.checked_sub(1);
        let is_left = || {
            self.left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
        };
        !self.is_over() && (self.spec.transactions == 0 || is_left())
    }

    /// Does the body; its error or its panic fails the run.
    fn guard(&self, what: &str, body: impl FnOnce() -> io::Result<()>) {
        let error = match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Error::storage(format!("{what} in {}", self.spec.directory.display()), &error),
            Err(_) => Error::new(
                ErrorKind::Measurement,
                format!("{what}: a thread panicked, which is a bug"),
            ),
        };
        self.engine.fail(error);
    }

    /// Changes with whatever a run does.
    fn moved(&self) -> [u64; 6] {
        let (phase, redo, binlog) = (&self.phase, &self.engine.redo, &self.engine.binlog);
        let phase = u64::from(phase.load(Ordering::Relaxed));
        let committed = self.engine.committed();
        [
            phase,
            committed,
            redo.written(),
            redo.fsyncs(),
            binlog.written(),
            binlog.syncs(),
        ]
    }
}

/// The run's end, once it is there.
#[derive(Default)]
struct Outcome {
    result: Mutex<Option<Result<RunResult, Error>>>,
    told: Condvar,
}

impl Outcome {
    /// The first that is told counts.
    fn tell(&self, result: Result<RunResult, Error>) {
        self.result.lock().get_or_insert(result);
        self.told.notify_all();
    }

    /// Waits up to `limit` for it.
    fn wait(&self, limit: Duration) -> Option<Result<RunResult, Error>> {
        let mut result = self.result.lock();
        self.told
            .wait_while_for(&mut result, |result| result.is_none(), limit);
        result.clone()
    }
}

/// A run that was asked for.
pub struct CommitPath {
    spec: Spec,
    observer: Option<Observer>,
    shared: Option<Arc<SharedPath>>,
    outcome: Arc<Outcome>,
    /// What had moved at the last look, and for how long it has not since.
    last_look: Mutex<([u64; 6], Duration)>,
}

impl CommitPath {
    /// A run that is not yet started.
    pub fn new(spec: Spec) -> Self {
        Self {
            spec,
            observer: None,
            shared: None,
            outcome: Arc::default(),
            last_look: Mutex::default(),
        }
    }

    /// The same run, with somebody who hears of every commit.
    #[must_use]
    pub fn observed(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Makes the files and starts the threads.
    ///
    /// # Errors
    /// Storage: the files cannot be made. Measurement: they are not made in time, or there are no threads. Usage:
    /// started before, or the folder has such files.
    pub fn start(&mut self) -> Result<(), Error> {
        if self.shared.is_some() {
            return Err(Error::usage("the run was started before").hint("make another one"));
        }
        // One that a hanging disk holds is left behind.
        let limit = STALLED + Duration::from_secs(self.spec.redo_capacity_bytes / SLOWEST_DISK);
        let (prepared, answer) = mpsc::channel();
        let (spec, observer, outcome) = (self.spec.clone(), self.observer.clone(), self.outcome.clone());
        let thread = thread::Builder::new().name("commits".to_owned());
        thread
            .spawn(move || {
                let shared = prepare(spec, observer).map(Arc::new);
                let is_heard = prepared.send(shared.clone()).is_ok();
                match shared {
                    Ok(shared) if is_heard => outcome.tell(supervise(&shared)),
                    Ok(shared) => shared.engine.folder.clear(),
                    Err(_) => {}
                }
            })
            .map_err(no_thread)?;
        let seconds = limit.as_secs();
        self.shared = Some(answer.recv_timeout(limit).unwrap_or_else(|_| {
            Err(stalled(format!(
                "redo and binlog were not made within {seconds} s"
            )))
        })?);
        Ok(())
    }

    /// How far it is.
    ///
    /// # Errors
    /// Usage: it was not started.
    pub fn progress(&self) -> Result<Progress, Error> {
        let shared = self.started()?;
        Ok(Progress {
            phase: PHASES[usize::from(shared.phase.load(Ordering::Relaxed))],
            seconds: shared.started.elapsed().as_secs_f64(),
            commits: shared.engine.committed(),
        })
    }

    /// Ends the run early; its result is that of the time so far.
    pub fn stop(&self) {
        if let Some(shared) = &self.shared {
            shared.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Waits up to `limit` for the result; `None` if it is not there yet.
    ///
    /// # Errors
    /// What made the run fail, or that nothing has moved for too long; usage: it was not started.
    pub fn wait(&self, limit: Duration) -> Result<Option<RunResult>, Error> {
        let shared = self.started()?;
        let mut left = limit;
        loop {
            let look = left.min(STALL_TICK);
            if let Some(result) = self.outcome.wait(look) {
                return result.map(Some);
            }
            self.give_up_when_stalled(shared, look);
            left -= look;
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Gives the run up when nothing has moved for as long as its spec says, whatever holds its threads. Looks are
    /// added, not the time between them: of a process that was stopped nothing is expected.
    fn give_up_when_stalled(&self, shared: &SharedPath, look: Duration) {
        let (now, limit) = (shared.moved(), shared.spec.stall_seconds);
        let (last, quiet) = &mut *self.last_look.lock();
        *quiet = if now == *last {
            *quiet + look
        } else {
            Duration::ZERO
        };
        *last = now;
        if quiet.as_secs_f64() >= limit {
            shared
                .engine
                .fail(stalled(format!("no commit, write or sync ended for {limit} s")));
        }
        if let (true, Some(failure)) = (
            quiet.as_secs_f64() >= limit + LAST_CHANCE.as_secs_f64(),
            shared.engine.failure(),
        ) {
            self.outcome.tell(Err(failure));
        }
    }

    fn started(&self) -> Result<&Arc<SharedPath>, Error> {
        self.shared
            .as_ref()
            .ok_or_else(|| Error::usage("the run was not started").hint("call start first"))
    }
}

impl Drop for CommitPath {
    fn drop(&mut self) {
        self.stop();
        // The end comes in any case: threads that a hanging disk holds are left behind.
        while matches!(self.wait(STALL_TICK), Ok(None)) {}
    }
}

fn no_thread(error: io::Error) -> Error {
    Error::new(ErrorKind::Measurement, format!("no thread is to be had: {error}")).hint("take fewer threads")
}

fn stalled(message: String) -> Error {
    Error::new(ErrorKind::Measurement, message).hint("if the disk hangs, dmesg says so")
}

fn prepare(spec: Spec, observer: Option<Observer>) -> Result<SharedPath, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let timestamp = now.unwrap_or_default().as_secs() as u32;
    let source = CommitSource::new(&spec, timestamp).map_err(|error| Error::usage(error.to_string()))?;
    Ok(SharedPath {
        engine: Engine::create(&spec, timestamp)?,
        source,
        phase: AtomicU8::new(0),
        stop: AtomicBool::new(false),
        left: AtomicU64::new(spec.transactions),
        observer,
        started: Instant::now(),
        spec,
    })
}

fn supervise(shared: &SharedPath) -> Result<RunResult, Error> {
    let (window, phases, measured) = thread::scope(|scope| commit(shared, scope));
    shared.guard("the logs cannot be closed", || shared.engine.close());
    if !shared.spec.keep {
        shared.engine.folder.clear();
    }
    match shared.engine.failure() {
        Some(failure) => Err(failure),
        None => Ok(result(shared, &window, &measured, phases)),
    }
}

/// Lets the threads commit until the run is over; gives the window's two ends, its phases and the threads' times.
fn commit<'s>(shared: &'s SharedPath, scope: &'s Scope<'s, '_>) -> ([Moment; 2], Vec<Phase>, Vec<Times>) {
    let (second, (committed, keeper_ends)) = (shared.engine.second_sync(), mpsc::channel::<()>());
    let beside = [
        spawn(scope, "keeper", move || {
            shared.guard("a log cannot be synced", || keep(shared, &keeper_ends))
        }),
        spawn(scope, "second sync", move || {
            shared.guard("the redo log cannot be synced", || {
                let (asked, answer) = second;
                // Until the engine has no more need of it.
                while let Ok(lsn) = asked.recv() {
                    let _ = answer.send(shared.engine.redo.flush(lsn));
                }
                Ok(())
            });
        }),
    ];
    let committer = |me| {
        spawn(scope, &format!("thread {me}"), move || {
            let mut measured = times();
            shared.guard("a commit failed", || commit_all(shared, me, &mut measured));
            measured
        })
    };
    let threads: Vec<_> = (0..shared.spec.threads).map(committer).collect();
    let errors = beside.iter().filter_map(|one| one.as_ref().err());
    for error in errors.chain(threads.iter().filter_map(|one| one.as_ref().err())) {
        shared.engine.fail(error.clone());
    }
    let threads: Vec<_> = threads.into_iter().flatten().collect();
    let (window, phases) = watch(shared, &threads);
    shared.stop.store(true, Ordering::Relaxed);
    let measured = threads
        .into_iter()
        .filter_map(|thread| thread.join().ok())
        .collect();
    drop(committed);
    shared.engine.end_second_sync();
    (window, phases, measured)
}

fn spawn<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 's,
) -> Result<ScopedJoinHandle<'s, T>, Error> {
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
    thread.spawn_scoped(scope, body).map_err(no_thread)
}

/// Drives the thread's committers: each begins its next transaction when the last one is answered.
fn commit_all(shared: &SharedPath, me: u32, measured: &mut Times) -> io::Result<()> {
    let (engine, spec) = (&shared.engine, &shared.spec);
    let own_time = Duration::from_secs_f64(spec.think_us / 1e6);
    let polls = spec.committers > spec.threads;
    let own = (me..spec.committers).step_by(spec.threads as usize);
    let new = |committer| {
        let source = Transactions::new(&shared.source, committer);
        Transaction::new(&spec.format, spec.commit_settings(), me, committer, source)
    };
    let mut ready: Vec<_> = own.map(new).collect();
    let mut groups = Groups::default();
    let mut under_way = 0;
    loop {
        let mut leads = false;
        for mut transaction in ready.drain(..) {
            if !shared.goes_on() {
                continue;
            }
            transaction.next().map_err(io::Error::other)?;
            burn(own_time);
            transaction.began = Instant::now();
            while !engine.admit(&mut transaction) {
                // A checkpoint waits for those under way, and they for their leader.
                match std::mem::take(&mut leads) {
                    true => engine.lead(&mut groups)?,
                    false => engine.redo.wait_for_room()?,
                }
            }
            leads |= engine.submit(transaction)?;
            under_way += 1;
        }
        if leads {
            engine.lead(&mut groups)?;
        }
        if under_way == 0 {
            return Ok(());
        }
        engine.wait(me, polls, &mut ready)?;
        under_way -= ready.len();
        let is_measured = shared.phase.load(Ordering::Relaxed) == MEASURING;
        for transaction in &ready {
            if let Some(observer) = &shared.observer {
                observer(transaction.place.gtid_number, transaction.xid);
            }
            if is_measured {
                measured.saturating_record(transaction.began.elapsed().as_nanos() as u64);
            }
        }
    }
}

/// Work that takes processor time and nothing else: the server's own share of a transaction. By the thread's own
/// clock: while another thread has the processor, it stands still. Counting rounds of a loop instead was wrong by a
/// factor of three: how long a round takes depends on where the stack lies.
fn burn(own_time: Duration) {
    if own_time.is_zero() {
        return;
    }
    let end = time_of(ClockId::ThreadCPUTime) + own_time;
    while time_of(ClockId::ThreadCPUTime) < end {
        std::hint::spin_loop();
    }
}

fn time_of(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// Syncs once a second what nobody waits for, and makes room in the redo log, until all threads have ended.
fn keep(shared: &SharedPath, ends: &mpsc::Receiver<()>) -> io::Result<()> {
    let mut synced = Instant::now();
    while ends.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
        shared.engine.checkpoint()?;
        if synced.elapsed() >= SYNC_INTERVAL {
            synced = Instant::now();
            shared.engine.sync_late()?;
        }
    }
    Ok(())
}

/// What is counted, at one moment.
struct Moment {
    /// Since the start.
    seconds: f64,
    cpu: Duration,
    commits: u64,
    groups: u64,
    grouped: u64,
    fsyncs: u64,
    redo: u64,
    binlog: u64,
}

impl Moment {
    fn now(shared: &SharedPath) -> Self {
        let engine = &shared.engine;
        Self {
            seconds: shared.started.elapsed().as_secs_f64(),
            cpu: time_of(ClockId::ProcessCPUTime),
            commits: engine.committed(),
            groups: engine.counters.groups.load(Ordering::Relaxed),
            grouped: engine.counters.grouped.load(Ordering::Relaxed),
            fsyncs: engine.redo.fsyncs() + engine.binlog.syncs(),
            redo: engine.redo.written(),
            binlog: engine.binlog.written(),
        }
    }
}

/// Warms up, measures, changes settings when they are due; gives the window's two ends and its phases.
fn watch(shared: &SharedPath, threads: &[ScopedJoinHandle<'_, Times>]) -> ([Moment; 2], Vec<Phase>) {
    let spec = &shared.spec;
    let warm = Duration::from_secs_f64(spec.warmup_seconds);
    let end = (spec.seconds > 0.0).then(|| warm + Duration::from_secs_f64(spec.seconds));
    let mut changes = spec.changes.as_slice();
    let mut opened = None;
    let mut phases = Vec::new();
    // What a phase is until it has ended: where it begins.
    let begun = |took: Duration| Phase {
        commit_settings: shared.engine.settings(),
        switch_us: took.as_secs_f64() * 1e6,
        seconds: shared.started.elapsed().as_secs_f64(),
        commits: shared.engine.committed(),
    };
    while !shared.is_over() && !threads.iter().all(ScopedJoinHandle::is_finished) {
        let elapsed = shared.started.elapsed();
        if opened.is_none() && elapsed >= warm {
            shared.engine.counters.open_window();
            opened = Some(Moment::now(shared));
            phases.push(begun(Duration::ZERO));
            shared.phase.store(MEASURING, Ordering::Relaxed);
        }
        if end.is_some_and(|end| elapsed >= end) {
            break;
        }
        if let Some((change, rest)) = changes.split_first() {
            let in_time = change
                .after_seconds
                .is_some_and(|after| elapsed.as_secs_f64() >= after);
            if in_time
                || change
                    .after_commits
                    .is_some_and(|after| shared.engine.committed() >= after)
            {
                changes = rest;
                let before = Instant::now();
                shared.engine.change(change.of(shared.engine.settings()));
                if opened.is_some() {
                    phases.push(begun(before.elapsed()));
                }
                continue;
            }
        }
        let due = if opened.is_none() { Some(warm) } else { end };
        let left = due.map_or(Duration::MAX, |due| due.saturating_sub(elapsed));
        thread::sleep(left.min(Duration::from_millis(2)));
    }
    let opened = opened.unwrap_or_else(|| Moment::now(shared));
    let closed = Moment::now(shared);
    shared.phase.store(DONE, Ordering::Relaxed);
    let mut next = (closed.seconds, closed.commits);
    for phase in phases.iter_mut().rev() {
        let begun = (phase.seconds, phase.commits);
        (phase.seconds, phase.commits) = (next.0 - begun.0, next.1 - begun.1);
        next = begun;
    }
    ([opened, closed], phases)
}

fn result(
    shared: &SharedPath,
    [opened, closed]: &[Moment; 2],
    measured: &[Times],
    phases: Vec<Phase>,
) -> RunResult {
    let counters = &shared.engine.counters;
    let seconds = closed.seconds - opened.seconds;
    let commits = closed.commits - opened.commits;
    let groups = (closed.groups - opened.groups).max(1) as f64;
    RunResult {
        commits,
        seconds,
        commits_per_s: commits as f64 / seconds.max(1e-9),
        latency_us: latency_us(measured),
        group_size: (closed.grouped - opened.grouped) as f64 / groups,
        fsyncs_per_s: (closed.fsyncs - opened.fsyncs) as f64 / seconds.max(1e-9),
        bytes_at_risk: counters.bytes_at_risk.load(Ordering::Relaxed),
        cpu_us_per_commit: (closed.cpu - opened.cpu).as_secs_f64() * 1e6 / commits.max(1) as f64,
        ordered_ns_per_commit: counters.ordered.mean(),
        encode_ns_per_commit: counters.encode.mean(),
        write_ns_per_commit: counters.write.mean(),
        redo_bytes: closed.redo - opened.redo,
        binlog_bytes: closed.binlog - opened.binlog,
        phases,
        switches: counters.switches.load(Ordering::Relaxed),
        last_gtid: shared.engine.committed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burning_takes_the_threads_own_time_however_many_burn() {
        let burnt = |_| {
            thread::spawn(|| {
                let before = time_of(ClockId::ThreadCPUTime);
                burn(Duration::from_micros(300));
                time_of(ClockId::ThreadCPUTime) - before
            })
        };
        let threads: Vec<_> = (0..8).map(burnt).collect();
        for thread in threads {
            assert!(thread.join().unwrap() >= Duration::from_micros(300));
        }
    }
}
