//! A run: threads, what is done beside them, the measured window, the result.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};
use rustix::time::{clock_gettime, ClockId};

use crate::engine::{Engine, Groups};
use crate::error::{Error, Kind};
use crate::files::BASENAME;
use crate::measure::{latencies, Latencies};
use crate::redo;
use crate::settings::CommitSettings;
use crate::shape::{Source, Transactions};
use crate::spec::{LatencyUs, Phase, Progress, RunResult, Spec, When};
use crate::transaction::Transaction;

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const DONE: u8 = 2;

/// How often the keeper looks whether the redo log's circle is filling.
const TICK: Duration = Duration::from_millis(5);
/// How often the watchdog looks whether anything has moved.
const STALL_TICK: Duration = Duration::from_millis(100);
/// Longest that a disk may take for the files, beside writing them at so many bytes per second.
const STALLED: Duration = Duration::from_secs(30);
const SLOWEST_DISK: u64 = 4 << 20;
/// innodb_flush_log_at_timeout, and the interval of parallel flush's sync.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Hears of every commit, by the number of its GTID and its XID, before the commit counts.
pub type Observer = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// What threads, keeper and supervisor share.
struct Shared {
    spec: Spec,
    engine: Engine,
    source: Arc<Source>,
    phase: AtomicU8,
    stop: AtomicBool,
    /// Transactions that are still to be begun, where they are counted.
    left: AtomicU64,
    observer: Option<Observer>,
    running: AtomicU64,
    started: Instant,
    burn: Burn,
}

impl Shared {
    /// Changes with whatever a run does.
    fn moved(&self) -> [u64; 6] {
        let engine = &self.engine;
        [
            u64::from(self.phase.load(Ordering::Relaxed)),
            engine.committed(),
            engine.redo.written(),
            engine.redo.fsyncs(),
            engine.binlog.written(),
            engine.binlog.syncs(),
        ]
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.engine.has_failed()
    }

    /// Whether another transaction is to be begun.
    fn goes_on(&self) -> bool {
        if self.is_over() {
            return false;
        }
        self.spec.transactions == 0
            || self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
    }

    fn fail(&self, what: &str, error: &io::Error) {
        self.engine.fail(Error::storage(
            format!("{what} in {}", self.spec.directory.display()),
            error,
        ));
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

/// A thread counts as running as long as this is there, whether its thread ends, panics or never begins.
struct Seat {
    shared: Arc<Shared>,
    me: u32,
}

impl Seat {
    fn new(shared: &Arc<Shared>, me: u32) -> Self {
        shared.running.fetch_add(1, Ordering::Relaxed);
        let shared = shared.clone();
        Self { shared, me }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared
                .engine
                .fail(Error::new(Kind::Measurement, "a thread panicked: this is a bug"));
        }
        self.shared.running.fetch_sub(1, Ordering::Release);
    }
}

/// A run that was asked for.
pub struct CommitPath {
    spec: Spec,
    observer: Option<Observer>,
    shared: Option<Arc<Shared>>,
    outcome: Arc<Outcome>,
}

impl CommitPath {
    /// A run that is not yet started.
    pub fn new(spec: Spec) -> Self {
        Self {
            spec,
            observer: None,
            shared: None,
            outcome: Arc::default(),
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
    /// started before.
    pub fn start(&mut self) -> Result<(), Error> {
        if self.shared.is_some() {
            return Err(Error::usage("the run was started before").hint("make another one"));
        }
        let shared = Arc::new(prepare_within(
            STALLED + Duration::from_secs(self.spec.redo_capacity_bytes / SLOWEST_DISK),
            &self.spec,
            self.observer.clone(),
        )?);
        self.spawn("watchdog", &shared, give_up_when_stalled)?;
        self.spawn("commits", &shared, |shared, outcome| {
            outcome.tell(supervise(shared))
        })?;
        self.shared = Some(shared);
        Ok(())
    }

    fn spawn(&self, name: &str, shared: &Arc<Shared>, body: fn(&Arc<Shared>, &Outcome)) -> Result<(), Error> {
        let (shared, outcome) = (shared.clone(), self.outcome.clone());
        let spawned = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(&shared, &outcome));
        spawned.map(drop).map_err(|error| {
            let error = no_thread(error);
            self.outcome.tell(Err(error.clone()));
            error
        })
    }

    /// How far it is.
    ///
    /// # Errors
    /// Usage: it was not started.
    pub fn progress(&self) -> Result<Progress, Error> {
        let shared = self.started()?;
        Ok(Progress {
            phase: match shared.phase.load(Ordering::Relaxed) {
                WARMING_UP => "warmup",
                MEASURING => "measuring",
                _ => "done",
            },
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
    /// What made the run fail; usage: it was not started.
    pub fn wait(&self, limit: Duration) -> Result<Option<RunResult>, Error> {
        self.started()?;
        self.outcome.wait(limit).transpose()
    }

    fn started(&self) -> Result<&Arc<Shared>, Error> {
        self.shared
            .as_ref()
            .ok_or_else(|| Error::usage("the run was not started").hint("call start first"))
    }
}

impl Drop for CommitPath {
    fn drop(&mut self) {
        self.stop();
        // The end comes in any case, the watchdog sees to that: threads that a hanging disk holds are left behind.
        while self.shared.is_some() && self.outcome.wait(STALL_TICK).is_none() {}
    }
}

fn no_thread(error: impl std::fmt::Display) -> Error {
    Error::new(Kind::Measurement, format!("no thread is to be had: {error}")).hint("take fewer threads")
}

/// Makes the files on a thread of its own: one that a hanging disk holds is left behind.
fn prepare_within(limit: Duration, spec: &Spec, observer: Option<Observer>) -> Result<Shared, Error> {
    let (done, prepared) = mpsc::channel();
    let spec = spec.clone();
    let thread = thread::Builder::new().name("files".to_owned());
    // Nobody may be listening any more.
    thread
        .spawn(move || drop(done.send(prepare(&spec, observer))))
        .map_err(no_thread)?;
    prepared.recv_timeout(limit).unwrap_or_else(|_| {
        let seconds = limit.as_secs_f64();
        Err(stalled(&format!(
            "redo and binlog were not made within {seconds} s"
        )))
    })
}

fn stalled(message: &str) -> Error {
    Error::new(Kind::Measurement, message).hint("if the disk hangs, dmesg says so")
}

fn prepare(spec: &Spec, observer: Option<Observer>) -> Result<Shared, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let timestamp = now.unwrap_or_default().as_secs() as u32;
    let source = Source::new(&spec.shape, &spec.format, spec.committers, spec.seed, timestamp)
        .map_err(|error| Error::usage(error.to_string()))?;
    let engine = Engine::create(spec, timestamp).map_err(|error| {
        // What exists already is not ours.
        if error.kind() != io::ErrorKind::AlreadyExists {
            remove_files(&spec.directory);
        }
        let what = format!("redo and binlog cannot be made in {}", spec.directory.display());
        Error::storage(what, &error)
    })?;
    Ok(Shared {
        engine,
        source,
        phase: AtomicU8::new(WARMING_UP),
        stop: AtomicBool::new(false),
        left: AtomicU64::new(spec.transactions),
        observer,
        running: AtomicU64::new(0),
        started: Instant::now(),
        burn: Burn::new(spec.think_us),
        spec: spec.clone(),
    })
}

/// Gives the run up when nothing has moved for as long as its spec says, whatever holds its threads. Looks are
/// counted, not the time between them: of a process that was stopped nothing is expected.
fn give_up_when_stalled(shared: &Arc<Shared>, outcome: &Outcome) {
    let limit = shared.spec.stall_seconds;
    let looks = (limit / STALL_TICK.as_secs_f64()).ceil() as u64;
    let (mut last, mut unchanged) = (shared.moved(), 0);
    while outcome.wait(STALL_TICK).is_none() {
        let now = shared.moved();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
        if unchanged == looks {
            shared
                .engine
                .fail(stalled(&format!("no commit, write or sync ended for {limit} s")));
        }
        // Its own end takes those who look only as long.
        if let (true, Some(failure)) = (unchanged > looks + 10, shared.engine.failure()) {
            outcome.tell(Err(failure));
        }
    }
}

fn supervise(shared: &Arc<Shared>) -> Result<RunResult, Error> {
    let seats: Vec<_> = (0..shared.spec.threads).map(|me| Seat::new(shared, me)).collect();
    let keeper = beside(shared, "keeper", keep)?;
    let (asked, answer) = shared.engine.second_sync();
    let second = beside(shared, "second sync", move |shared| {
        // Until the engine closes, or nobody waits for the answer any more.
        while let Ok(lsn) = asked.recv() {
            if answer.send(shared.engine.redo.flush(lsn)).is_err() {
                return;
            }
        }
    })?;
    let threads: Vec<_> = seats.into_iter().map(spawn).collect();
    for error in threads.iter().filter_map(|thread| thread.as_ref().err()) {
        shared.engine.fail(no_thread(error));
    }
    let (window, phases) = watch(shared);
    shared.stop.store(true, Ordering::Relaxed);
    let mut measured = Vec::with_capacity(threads.len());
    for thread in threads {
        // One that panicked has told so by its seat.
        if let Ok(Ok(one)) = thread.map(JoinHandle::join) {
            measured.push(one);
        }
    }
    keeper.thread().unpark();
    let keeper = keeper.join();
    shared.phase.store(DONE, Ordering::Relaxed);
    if let Err(error) = shared.engine.close() {
        shared.fail("the logs cannot be closed", &error);
    }
    if second.join().and(keeper).is_err() {
        let message = "a thread that syncs beside the commits panicked: this is a bug";
        shared.engine.fail(Error::new(Kind::Measurement, message));
    }
    if !shared.spec.keep {
        remove_files(&shared.spec.directory);
    }
    match shared.engine.failure() {
        Some(failure) => Err(failure),
        None => Ok(result(shared, &window, &measured, phases)),
    }
}

fn beside(
    shared: &Arc<Shared>,
    name: &str,
    body: impl FnOnce(&Shared) + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let shared = shared.clone();
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(move || body(&shared)).map_err(no_thread)
}

fn spawn(seat: Seat) -> io::Result<JoinHandle<Latencies>> {
    thread::Builder::new()
        .name(format!("thread {}", seat.me))
        .stack_size(256 << 10)
        .spawn(move || commit_until_over(&seat.shared, seat.me))
}

/// Gives the latencies of the window.
fn commit_until_over(shared: &Shared, me: u32) -> Latencies {
    let mut measured = latencies();
    if let Err(error) = commit_all(shared, me, &mut measured) {
        shared.fail("a commit failed", &error);
    }
    measured
}

/// Drives the thread's committers: each begins its next transaction when the last one is answered.
fn commit_all(shared: &Shared, me: u32, measured: &mut Latencies) -> io::Result<()> {
    let (engine, spec) = (&shared.engine, &shared.spec);
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
            shared.burn.burn();
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

/// Syncs once a second what nobody waits for, and makes room in the redo log.
fn keep(shared: &Shared) {
    let mut synced = Instant::now();
    while shared.running.load(Ordering::Acquire) > 0 {
        thread::park_timeout(TICK);
        let mut done = shared.engine.checkpoint();
        if synced.elapsed() >= SYNC_INTERVAL {
            synced = Instant::now();
            done = done.and_then(|()| shared.engine.sync_late());
        }
        if let Err(error) = done {
            shared.fail("a log cannot be synced", &error);
        }
    }
}

/// What is counted, at one moment.
struct Moment {
    at: Instant,
    cpu: Duration,
    commits: u64,
    groups: u64,
    grouped: u64,
    fsyncs: (u64, u64),
    redo: u64,
    binlog: u64,
}

impl Moment {
    fn now(shared: &Shared) -> Self {
        let counters = &shared.engine.counters;
        Self {
            at: Instant::now(),
            cpu: cpu(),
            commits: shared.engine.committed(),
            groups: counters.groups.load(Ordering::Relaxed),
            grouped: counters.grouped.load(Ordering::Relaxed),
            fsyncs: (shared.engine.redo.fsyncs(), shared.engine.binlog.syncs()),
            redo: shared.engine.redo.written(),
            binlog: shared.engine.binlog.written(),
        }
    }
}

fn cpu() -> Duration {
    duration_of(ClockId::ProcessCPUTime)
}

/// The phases of a window: each ends where the next begins.
struct Phases(Vec<(CommitSettings, Duration, Instant, u64)>);

impl Phases {
    fn begin(&mut self, shared: &Shared, took: Duration) {
        let engine = &shared.engine;
        self.0
            .push((engine.settings(), took, Instant::now(), engine.committed()));
    }

    fn end(self, closed: &Moment) -> Vec<Phase> {
        let ends = self.0.iter().skip(1).map(|next| (next.2, next.3));
        let ends: Vec<_> = ends.chain([(closed.at, closed.commits)]).collect();
        let phase = |((commit_settings, took, begun, before), (ended, commits)): (
            (CommitSettings, Duration, Instant, u64),
            _,
        )| {
            Phase {
                commit_settings,
                switch_us: took.as_secs_f64() * 1e6,
                seconds: Instant::duration_since(&ended, begun).as_secs_f64(),
                commits: commits - before,
            }
        };
        self.0.into_iter().zip(ends).map(phase).collect()
    }
}

/// Warms up, measures, changes settings when they are due; gives the window's two ends and its phases.
fn watch(shared: &Shared) -> ([Moment; 2], Vec<Phase>) {
    let spec = &shared.spec;
    let warm = Duration::from_secs_f64(spec.warmup_seconds);
    let end = (spec.seconds > 0.0).then(|| warm + Duration::from_secs_f64(spec.seconds));
    let changes = spec.changes();
    let mut changes = changes.as_slice();
    let mut opened = None;
    let mut phases = Phases(Vec::new());
    while shared.running.load(Ordering::Acquire) > 0 && !shared.is_over() {
        let elapsed = shared.started.elapsed();
        if opened.is_none() && elapsed >= warm {
            shared.engine.counters.open_window();
            opened = Some(Moment::now(shared));
            phases.begin(shared, Duration::ZERO);
            shared.phase.store(MEASURING, Ordering::Relaxed);
        }
        if end.is_some_and(|end| elapsed >= end) {
            break;
        }
        if let Some(((when, commit_settings), rest)) = changes.split_first() {
            let due = match when {
                When::Seconds(seconds) => elapsed.as_secs_f64() >= *seconds,
                When::Commits(commits) => shared.engine.committed() >= *commits,
            };
            if due {
                changes = rest;
                let before = Instant::now();
                shared.engine.change(*commit_settings);
                if opened.is_some() {
                    phases.begin(shared, before.elapsed());
                }
                continue;
            }
        }
        let by_time = [end, opened.is_none().then_some(warm)];
        let left = by_time
            .into_iter()
            .flatten()
            .map(|due| due.saturating_sub(elapsed));
        thread::sleep(left.fold(Duration::from_millis(2), Duration::min));
    }
    let opened = opened.unwrap_or_else(|| Moment::now(shared));
    let closed = Moment::now(shared);
    shared.phase.store(DONE, Ordering::Relaxed);
    let phases = phases.end(&closed);
    ([opened, closed], phases)
}

fn result(
    shared: &Shared,
    [opened, closed]: &[Moment; 2],
    measured: &[Latencies],
    phases: Vec<Phase>,
) -> RunResult {
    let counters = &shared.engine.counters;
    let seconds = (closed.at - opened.at).as_secs_f64();
    let commits = closed.commits - opened.commits;
    let groups = closed.groups - opened.groups;
    let redo_fsyncs = closed.fsyncs.0 - opened.fsyncs.0;
    let binlog_fsyncs = closed.fsyncs.1 - opened.fsyncs.1;
    RunResult {
        commits,
        seconds,
        commits_per_s: commits as f64 / seconds.max(1e-9),
        latency_us: latency_us(measured),
        group_size: (closed.grouped - opened.grouped) as f64 / groups.max(1) as f64,
        groups,
        redo_fsyncs,
        binlog_fsyncs,
        fsyncs_per_s: (redo_fsyncs + binlog_fsyncs) as f64 / seconds.max(1e-9),
        bytes_at_risk: counters.bytes_at_risk.load(Ordering::Relaxed),
        cpu_us_per_commit: (closed.cpu - opened.cpu).as_secs_f64() * 1e6 / commits.max(1) as f64,
        ordered_ns_per_commit: counters.ordered.mean(),
        encode_ns_per_commit: counters.encode.mean(),
        write_ns_per_commit: counters.write.mean(),
        redo_bytes: closed.redo - opened.redo,
        binlog_bytes: closed.binlog - opened.binlog,
        phases,
        switches: counters.switches.load(Ordering::Relaxed),
        rotations: counters.rotations.load(Ordering::Relaxed),
        last_gtid: shared.engine.committed(),
    }
}

fn latency_us(of: &[Latencies]) -> Option<LatencyUs> {
    let mut sum = latencies();
    for one in of {
        sum.add(one).expect("all have the same bounds");
    }
    let us = |ns: u64| ns as f64 / 1000.0;
    (!sum.is_empty()).then(|| LatencyUs {
        p50: us(sum.value_at_quantile(0.5)),
        p99: us(sum.value_at_quantile(0.99)),
        max: us(sum.max()),
    })
}

fn remove_files(folder: &Path) {
    let own = |name: &str| {
        let rest = name
            .strip_prefix(BASENAME)
            .and_then(|rest| rest.strip_prefix('.'));
        let is_binlog =
            rest.is_some_and(|rest| rest == "index" || rest.bytes().all(|byte| byte.is_ascii_digit()));
        is_binlog || name == redo::NAME
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(own) {
            // One that is gone already is as it should be.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Work that takes processor time and nothing else: the server's own share of a transaction.
struct Burn(Duration);

impl Burn {
    fn new(us: f64) -> Self {
        Self(Duration::from_secs_f64(us / 1e6))
    }

    /// By the thread's own clock: while another thread has the processor, it stands still. Counting rounds of a
    /// loop instead was wrong by a factor of three: how long a round takes depends on where the stack lies.
    fn burn(&self) {
        if self.0.is_zero() {
            return;
        }
        let end = thread_time() + self.0;
        while thread_time() < end {
            std::hint::spin_loop();
        }
    }
}

fn thread_time() -> Duration {
    duration_of(ClockId::ThreadCPUTime)
}

fn duration_of(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(folder: &Path, more: &str) -> Spec {
        let spec = format!(
            r#"{{"directory": {folder:?}, "trx_commit": 2, "sync_binlog": 0, "binlog_strategy": "parallel", "threads": 2,
                "seconds": 60, "redo_capacity_bytes": 4194304, "log_buffer_bytes": 1048576{more}}}"#
        );
        Spec::from_json(spec.as_bytes()).unwrap()
    }

    #[test]
    fn a_thread_that_panics_or_never_begins_counts_no_longer_and_the_panic_ends_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Arc::new(prepare(&spec(folder.path(), ""), None).unwrap());
        drop(Seat::new(&shared, 0));
        assert_eq!(shared.running.load(Ordering::Relaxed), 0);
        assert!(!shared.is_over());
        let seat = Seat::new(&shared, 1);
        let thread = thread::spawn(move || {
            let seat = seat;
            assert_eq!(seat.me, 0, "as planned");
        });
        thread.join().unwrap_err();
        assert_eq!(shared.running.load(Ordering::Relaxed), 0);
        let failure = shared.engine.failure().unwrap();
        assert_eq!(failure.message, "a thread panicked: this is a bug");
        assert!(
            shared.engine.redo.wait_for_room().is_err(),
            "nobody waits for the dead"
        );
    }

    #[test]
    fn a_run_that_does_not_move_ends_with_an_error_and_lets_its_caller_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = CommitPath::new(spec(folder.path(), r#", "stall_seconds": 0.2"#));
        // A thread that holds the observer holds its commit.
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock();
        let inner = gate.clone();
        run = run.observed(Arc::new(move |_, _| drop(inner.lock())));
        run.start().unwrap();
        let failure = run.wait(Duration::from_secs(60)).unwrap_err();
        assert_eq!(failure.message, "no commit, write or sync ended for 0.2 s");
        assert!(failure.hint.is_some());
        drop(run);
        drop(held);
    }

    #[test]
    fn burning_takes_the_threads_own_time_however_many_burn() {
        let burnt = |_| {
            std::thread::spawn(|| {
                let before = thread_time();
                Burn::new(300.0).burn();
                thread_time() - before
            })
        };
        let threads: Vec<_> = (0..8).map(burnt).collect();
        for thread in threads {
            assert!(thread.join().unwrap() >= Duration::from_micros(300));
        }
    }
}
