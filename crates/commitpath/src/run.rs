//! A run: threads, what is done beside them, the measured window, the result.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{mpsc, Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flushlab_binlog::Flavor;
use nix::time::{clock_gettime, ClockId};

use crate::commit_settings::CommitSettings;
use crate::engine::{lock, Engine, Settings};
use crate::error::{Error, Kind};
use crate::files::BASENAME;
use crate::measure::{latencies, Latencies};
use crate::recover::recover;
use crate::redo;
use crate::shape::{Source, Transactions};
use crate::spec::{LatencyUs, Phase, Progress, RunResult, Spec, When, WrittenFile};
use crate::sync::Padded;

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

/// What threads, keeper and supervisor share.
struct Shared {
    spec: Spec,
    engine: Engine,
    source: Arc<Source>,
    phase: AtomicU8,
    stop: AtomicBool,
    /// Transactions that are still to be begun, where they are counted.
    left: AtomicU64,
    commits: Box<[Padded<AtomicU64>]>,
    running: AtomicU64,
    started: Instant,
    burn: Burn,
}

impl Shared {
    fn commits(&self) -> u64 {
        let counts = self.commits.iter().map(|count| count.load(Ordering::Relaxed));
        counts.sum()
    }

    /// Changes with whatever a run does.
    fn moved(&self) -> [u64; 6] {
        let (redo_fsyncs, binlog_fsyncs) = self.engine.fsyncs();
        [
            u64::from(self.phase.load(Ordering::Relaxed)),
            self.commits(),
            self.engine.redo.written(),
            self.engine.unsynced.written(),
            redo_fsyncs,
            binlog_fsyncs,
        ]
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.engine.failed.load(Ordering::Relaxed)
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
        lock(&self.result).get_or_insert(result);
        self.told.notify_all();
    }

    /// Waits up to `limit` for it.
    fn wait(&self, limit: Duration) -> Option<Result<RunResult, Error>> {
        let result = lock(&self.result);
        let waited = self
            .told
            .wait_timeout_while(result, limit, |result| result.is_none());
        waited
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .0
            .clone()
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
    shared: Option<Arc<Shared>>,
    outcome: Arc<Outcome>,
}

impl CommitPath {
    /// A run that is not yet started.
    pub fn new(spec: Spec) -> Self {
        Self {
            spec,
            shared: None,
            outcome: Arc::default(),
        }
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
            commits: shared.commits(),
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
fn prepare_within(limit: Duration, spec: &Spec) -> Result<Shared, Error> {
    let (done, prepared) = mpsc::channel();
    let spec = spec.clone();
    let thread = thread::Builder::new().name("files".to_owned());
    // Nobody may be listening any more.
    thread
        .spawn(move || drop(done.send(prepare(&spec))))
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

fn prepare(spec: &Spec) -> Result<Shared, Error> {
    let timestamp = match spec.fixed_clock_us {
        Some(us) => (us / 1_000_000) as u32,
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.unwrap_or_default().as_secs() as u32
        }
    };
    let source = Source::new(&spec.shape, &spec.format, spec.threads, spec.seed, timestamp)
        .map_err(|error| Error::usage(error.to_string()))?;
    let recovered = match spec.resume {
        true => recover(&spec.directory)?,
        false => None,
    };
    if let Some(theirs) = recovered.and_then(|recovered| recovered.flavor) {
        refuse_other_family(spec, theirs)?;
    }
    let engine = Engine::create(&Settings {
        format: &spec.format,
        folder: &spec.directory,
        commit_settings: spec.commit_settings,
        threads: spec.threads,
        rotate_bytes: spec.rotate_bytes,
        redo_capacity: spec.redo_capacity_bytes,
        log_buffer_bytes: spec.log_buffer_bytes as usize,
        ring_bytes: spec.ring_bytes as usize,
        linger: spec.linger,
        timestamp,
        fixed_clock_us: spec.fixed_clock_us,
        recovered,
    });
    let engine = match engine {
        Ok(engine) => engine,
        Err(error) => {
            // What exists already is not ours.
            if error.kind() != io::ErrorKind::AlreadyExists && recovered.is_none() {
                remove_files(&spec.directory);
            }
            let what = format!("redo and binlog cannot be made in {}", spec.directory.display());
            return Err(Error::storage(what, &error));
        }
    };
    Ok(Shared {
        engine,
        source,
        phase: AtomicU8::new(WARMING_UP),
        stop: AtomicBool::new(false),
        left: AtomicU64::new(spec.transactions),
        commits: (0..spec.threads).map(|_| Padded::default()).collect(),
        running: AtomicU64::new(0),
        started: Instant::now(),
        burn: Burn::new(spec.think_us),
        spec: spec.clone(),
    })
}

/// Logs of the one family do not go on in the other's form.
fn refuse_other_family(spec: &Spec, theirs: Flavor) -> Result<(), Error> {
    let name = |flavor| match flavor {
        Flavor::Mysql => "MySQL",
        Flavor::Mariadb => "MariaDB",
    };
    let ours = spec.format.flavor();
    if ours == theirs {
        return Ok(());
    }
    let (theirs, ours) = (name(theirs), name(ours));
    let message = format!(
        "the logs in {} are {theirs}'s, the run writes {ours}'s",
        spec.directory.display()
    );
    Err(Error::usage(message).hint(format!("give a format of {theirs}, or an empty folder")))
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
    let keeper = {
        let shared = shared.clone();
        thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || keep(&shared))
    };
    let keeper = keeper.map_err(no_thread)?;
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
    if keeper.join().is_err() {
        shared.engine.fail(Error::new(
            Kind::Measurement,
            "the thread that syncs once a second panicked: this is a bug",
        ));
    }
    shared.phase.store(DONE, Ordering::Relaxed);
    let closed = shared.engine.close();
    if let Err(error) = &closed {
        shared.fail("the logs cannot be closed", error);
    }
    let files = match shared.spec.keep {
        true => files(&shared.spec.directory),
        false => {
            remove_files(&shared.spec.directory);
            Vec::new()
        }
    };
    match shared.engine.failure() {
        Some(failure) => Err(failure),
        None => Ok(result(shared, &window, &measured, phases, files)),
    }
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
    let outcome = commit_all(shared, me, &mut measured);
    if let Err(error) = outcome {
        shared.fail("a commit failed", &error);
    }
    measured
}

fn commit_all(shared: &Shared, me: u32, measured: &mut Latencies) -> io::Result<()> {
    let session = &shared.engine.sessions()[me as usize];
    session.take(thread::current());
    let mut transactions = Transactions::new(&shared.source, me);
    let mut group = Vec::with_capacity(shared.spec.threads as usize);
    let mut acknowledged = match &shared.spec.acknowledged {
        Some(path) => Some(OpenOptions::new().append(true).create(true).open(path)?),
        None => None,
    };
    let mut made = 0;
    while shared.goes_on() {
        made += 1;
        let xid = made << 8 | u64::from(me);
        transactions
            .next(&mut lock(&session.body), xid)
            .map_err(io::Error::other)?;
        shared.burn.burn();
        let start = Instant::now();
        let gtid_number = shared.engine.commit(me, xid, transactions.redo(), &mut group)?;
        let took = start.elapsed();
        if let Some(file) = &mut acknowledged {
            tell(file, gtid_number, xid)?;
        }
        let commits = &shared.commits[me as usize];
        commits.store(commits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if shared.phase.load(Ordering::Relaxed) == MEASURING {
            measured.saturating_record(took.as_nanos() as u64);
        }
    }
    Ok(())
}

/// One acknowledged commit: number of its GTID, XID, eight bytes each, little-endian, by one write.
fn tell(file: &mut File, gtid_number: u64, xid: u64) -> io::Result<()> {
    let mut line = [0; 16];
    line[..8].copy_from_slice(&gtid_number.to_le_bytes());
    line[8..].copy_from_slice(&xid.to_le_bytes());
    file.write_all(&line)
}

/// Syncs once a second what nobody waits for, and makes room in the redo log.
fn keep(shared: &Shared) {
    let mut synced = Instant::now();
    while shared.running.load(Ordering::Acquire) > 0 {
        thread::park_timeout(TICK);
        let mut done = Ok(());
        if shared.engine.redo.is_filling() {
            done = shared.engine.checkpoint();
        }
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
            commits: shared.commits(),
            groups: counters.groups.load(Ordering::Relaxed),
            grouped: counters.grouped.load(Ordering::Relaxed),
            fsyncs: shared.engine.fsyncs(),
            redo: shared.engine.redo.written(),
            binlog: shared.engine.unsynced.written(),
        }
    }
}

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The phases of a window: each ends where the next begins.
struct Phases(Vec<(CommitSettings, Duration, Instant, u64)>);

impl Phases {
    fn begin(&mut self, shared: &Shared, took: Duration) {
        let now = (
            shared.engine.commit_settings(),
            took,
            Instant::now(),
            shared.commits(),
        );
        self.0.push(now);
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
    let mut changes = spec.changes.as_slice();
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
                When::Commits(commits) => shared.commits() >= *commits,
            };
            if due {
                changes = rest;
                let before = Instant::now();
                if let Err(error) = shared.engine.change(*commit_settings) {
                    shared.fail("the commit_settings cannot be changed", &error);
                }
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
    files: Vec<WrittenFile>,
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
        last_gtid: shared.engine.committed.load(Ordering::Relaxed),
        files,
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

fn own_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let own = |path: &PathBuf| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let numbered = name
            .strip_prefix(BASENAME)
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|rest| rest == "index" || rest.bytes().all(|byte| byte.is_ascii_digit()));
        name == redo::NAME || numbered
    };
    let mut files: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(own)
        .collect();
    files.sort();
    files
}

fn files(folder: &Path) -> Vec<WrittenFile> {
    let written = |path: PathBuf| WrittenFile {
        name: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        bytes: fs::metadata(&path).map_or(0, |meta| meta.len()),
    };
    own_files(folder).into_iter().map(written).collect()
}

fn remove_files(folder: &Path) {
    for path in own_files(folder) {
        // One that is gone already is as it should be.
        let _ = fs::remove_file(path);
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
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
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
        let shared = Arc::new(prepare(&spec(folder.path(), "")).unwrap());
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
        assert!(shared.engine.redo.admit(100).is_ok(), "there is room");
        let record = shared.engine.redo.next() + 1;
        assert!(
            shared.engine.redo.write(record).is_err(),
            "nobody waits for the dead"
        );
    }

    #[test]
    fn a_run_that_a_paused_thread_holds_ends_with_an_error_and_lets_its_caller_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = CommitPath::new(spec(folder.path(), r#", "stall_seconds": 0.2"#));
        run.start().unwrap();
        let shared = run.shared.clone().unwrap();
        let held = shared.engine.lock_log();
        let failure = run.wait(Duration::from_secs(60)).unwrap_err();
        assert_eq!(failure.message, "no commit, write or sync ended for 0.2 s");
        assert!(failure.hint.is_some());
        drop(run);
        drop(held);
    }

    #[test]
    fn files_that_a_hanging_disk_never_makes_end_the_run_before_it_begins() {
        let folder = tempfile::tempdir().unwrap();
        // Opening it waits for a writer, who never comes.
        let fifo = folder.path().join(redo::NAME);
        let made = std::process::Command::new("mkfifo").arg(fifo).status();
        assert!(made.unwrap().success());
        let spec = spec(folder.path(), r#", "resume": true"#);
        let Err(failure) = prepare_within(Duration::from_millis(200), &spec) else {
            panic!("nobody writes the FIFO");
        };
        assert_eq!(failure.message, "redo and binlog were not made within 0.2 s");
        assert!(failure.hint.is_some());
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
