//! What all ways of committing share: the two logs, the sessions, the commit_settings, and changing it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flushlab_binlog::{Flavor, Format, Place as BinlogPlace};

use crate::combining::{CombiningLock, Holder, Patience};
use crate::commit_settings::{BinlogStrategy, CommitSettings};
use crate::error::Error;
use crate::files::Files;
use crate::log_buffer::{Drain, LogBuffer};
use crate::measure::Counters;
use crate::recover::Recovered;
use crate::redo::{self, Checkpoint, Entry, Kind, HEADER_SIZE};
use crate::redo_log::RedoLog;
use crate::session::{Answer, Session};
use crate::stage::Stage;
use crate::sync::{make_room_until_done, spin_loop, yield_now, Backoff, Padded};
use crate::unsynced::Unsynced;

/// Places that may be published and not yet found ready: each thread has at most one.
const PLACES: usize = 512;

/// So often a thread gives the processor away before it sleeps: a sleep and a wake cost more.
const YIELDS: u32 = 100;
/// So often a follower looks for its leader's answer before it sleeps.
const SPINS: u32 = 20;
/// Threads from which on lingering pays in the parallel ways: with fewer, groups form by themselves.
const CROWD: usize = 32;

/// What is under the log lock.
pub(crate) struct Log {
    pub(crate) files: Files,
    /// The right to empty the binlog buffer.
    pub(crate) drain: Drain,
    /// Up to here in the ring the bytes are in the file.
    pub(crate) written: u64,
    /// Number of the last GTID that is in the file or in the ring before `drain`.
    pub(crate) gtid_number: u64,
    /// Where a leader gathers its group's events.
    pub(crate) gathered: Vec<u8>,
    /// Whom the last drain found.
    pub(crate) owners: Vec<u32>,
}

/// What is the same for a whole run.
pub(crate) struct Settings<'a> {
    pub(crate) format: &'a Format,
    pub(crate) folder: &'a Path,
    pub(crate) commit_settings: CommitSettings,
    pub(crate) threads: u32,
    pub(crate) rotate_bytes: u64,
    pub(crate) redo_capacity: u64,
    pub(crate) log_buffer_bytes: usize,
    pub(crate) ring_bytes: usize,
    pub(crate) linger: Option<bool>,
    pub(crate) timestamp: u32,
    pub(crate) fixed_clock_us: Option<u64>,
    /// Where logs that are there go on; `None` makes new ones.
    pub(crate) recovered: Option<Recovered>,
}

/// A transaction while it commits.
pub(crate) struct Commit<'a> {
    /// Its thread.
    pub(crate) me: u32,
    pub(crate) xid: u64,
    pub(crate) redo: &'a [u8],
    /// The redo log's circle has room for a record with its events.
    pub(crate) persists: bool,
    /// End of its prepare record, once there is one.
    prepared: Option<u64>,
}

/// Both logs and everybody who commits through them.
pub(crate) struct Engine {
    flavor: Flavor,
    fixed_clock_us: Option<u64>,
    pub(crate) commit_settings: AtomicU64,
    pub(crate) redo: RedoLog,
    /// Size at which the next file begins.
    pub(crate) rotate_bytes: u64,
    pub(crate) log: CombiningLock<Log>,
    /// Whether groups may grow by giving the processor away once; by default in all ways but `serial`.
    linger: Option<bool>,
    /// Its number, and the last GTID's before it; steady while anybody has a place.
    pub(crate) file_number: AtomicU64,
    pub(crate) gtid_before_file: AtomicU64,
    /// The last GTID's number before the section was opened.
    pub(crate) gtid_before_section: AtomicU64,
    /// Number of the last GTID that is committed.
    pub(crate) committed: Padded<AtomicU64>,
    pub(crate) flush_stage: Stage,
    pub(crate) sync_stage: Stage,
    pub(crate) sync_lock: Mutex<u32>,
    pub(crate) commit_stage: Stage,
    pub(crate) commit_lock: Mutex<()>,
    /// The binlog's files, for those who sync.
    pub(crate) unsynced: Unsynced<Arc<File>>,
    pub(crate) counters: Counters,
    pub(crate) failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Engine {
    pub(crate) fn create(settings: &Settings<'_>) -> io::Result<Self> {
        let (redo, files) = open_logs(settings)?;
        let last_gtid = settings.recovered.map_or(0, |recovered| recovered.last_gtid);
        let (binlog, drain) = LogBuffer::new(settings.ring_bytes, PLACES, settings.rotate_bytes);
        let room = settings.threads as usize;
        let file = files.file().clone();
        let (number, position) = (files.number(), files.position());
        let log = Log {
            files,
            drain,
            written: 0,
            gtid_number: last_gtid,
            gathered: vec![0; 1 << 20],
            owners: Vec::with_capacity(PLACES),
        };
        let sessions = (0..room).map(|_| Session::new(settings.format)).collect();
        let engine = Self {
            flavor: settings.format.flavor(),
            fixed_clock_us: settings.fixed_clock_us,
            commit_settings: AtomicU64::new(settings.commit_settings.to_bits()),
            redo,
            rotate_bytes: settings.rotate_bytes,
            file_number: AtomicU64::new(u64::from(number)),
            gtid_before_file: AtomicU64::new(last_gtid),
            gtid_before_section: AtomicU64::new(last_gtid),
            committed: Padded(AtomicU64::new(last_gtid)),
            flush_stage: Stage::new(room),
            sync_stage: Stage::new(room),
            sync_lock: Mutex::new(0),
            commit_stage: Stage::new(room),
            commit_lock: Mutex::new(()),
            unsynced: Unsynced::new(file, position),
            counters: Counters::default(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            linger: settings.linger,
            log: CombiningLock::new(log, binlog, sessions),
        };
        if settings.commit_settings.binlog_strategy != BinlogStrategy::Serial {
            engine.open_section(&mut engine.lock_log());
        }
        Ok(engine)
    }

    /// Takes the log lock.
    pub(crate) fn lock_log(&self) -> Holder<'_, Log> {
        self.log.lock()
    }

    /// The sessions, by thread.
    pub(crate) fn sessions(&self) -> &[Session] {
        &self.log.sessions
    }

    /// The binlog buffer.
    pub(crate) fn binlog(&self) -> &LogBuffer {
        &self.log.buffer
    }

    /// What commits wait for now.
    #[inline]
    pub(crate) fn commit_settings(&self) -> CommitSettings {
        CommitSettings::from_bits(self.commit_settings.load(Ordering::Acquire))
    }

    /// Commits the transaction that stands in the session's body; says under which GTID.
    /// `group` is scratch memory.
    pub(crate) fn commit(&self, me: u32, xid: u64, redo: &[u8], group: &mut Vec<u32>) -> io::Result<u64> {
        let session = &self.sessions()[me as usize];
        session.xid.store(xid, Ordering::Relaxed);
        let size = lock(&session.body).size(true);
        let persists =
            self.commit_settings().binlog_strategy == BinlogStrategy::Redo && size <= self.persist_limit();
        let record = (HEADER_SIZE + redo.len()) as u64;
        let persisted = if persists { record + size } else { 0 };
        let admitted = self.redo.admit(record + HEADER_SIZE as u64 + persisted)?;
        // From a record's boundary at or before ours on, the log is needed until we are through; the
        // fence orders this before the reservation, as `oldest_needed` looks the other way round. Not before
        // we were admitted: that waits for a checkpoint, which would wait for us.
        session.needs_redo.store(self.redo.next(), Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        let mut commit = Commit {
            me,
            xid,
            redo,
            persists,
            prepared: None,
        };
        let gtid_number = loop {
            let strategy = self.commit_settings().binlog_strategy;
            if strategy != BinlogStrategy::Redo {
                self.prepare(&mut commit)?;
            }
            let answer = match strategy {
                BinlogStrategy::Serial => self.commit_serially(me, group)?,
                BinlogStrategy::ParallelLeader => self.commit_with_leader(&mut commit, group)?,
                BinlogStrategy::Parallel | BinlogStrategy::Redo => self.commit_alone(&mut commit)?,
            };
            if let Answer::Committed(number) = answer {
                break number;
            }
        };
        session.needs_redo.store(u64::MAX, Ordering::Release);
        drop(admitted);
        Ok(gtid_number)
    }

    /// Has the prepare record in the log buffer, and says where it ends; there is one at most.
    pub(crate) fn prepare(&self, commit: &mut Commit<'_>) -> io::Result<u64> {
        if let Some(lsn) = commit.prepared {
            return Ok(lsn);
        }
        let lsn = self.redo.append(&Entry {
            kind: Kind::Prepare,
            xid: commit.xid,
            gtid_number: 0,
            payload: commit.redo,
            binlog: [&[], &[]],
        })?;
        self.sessions()[commit.me as usize]
            .prepared
            .store(lsn, Ordering::Relaxed);
        commit.prepared = Some(lsn);
        Ok(lsn)
    }

    /// As far as the commit_settings wants it: the redo up to `lsn` is written or synced.
    pub(crate) fn persist_redo(&self, commit_settings: CommitSettings, lsn: u64) -> io::Result<()> {
        match commit_settings.trx_commit {
            0 => Ok(()),
            2 => self.redo.write(lsn),
            _ => self.redo.flush(lsn),
        }
    }

    /// A place in the binlog for the transaction that is the `number`-th GTID.
    #[inline]
    pub(crate) fn place(
        &self,
        position: u64,
        gtid_number: u64,
        last_committed: u64,
        commit_us: u64,
        commit_id: u64,
    ) -> BinlogPlace {
        let before = self.gtid_before_file.load(Ordering::Relaxed);
        BinlogPlace {
            position,
            gtid_number,
            last_committed: last_committed.saturating_sub(before),
            sequence_number: gtid_number - before,
            commit_us,
            commit_id,
        }
    }

    /// The id that a group of MariaDB's transactions carries; 0 for none.
    pub(crate) fn commit_id(&self, group: usize, first_gtid: u64) -> u64 {
        match self.flavor == Flavor::Mariadb && group > 1 {
            true => first_gtid,
            false => 0,
        }
    }

    /// Microseconds since 1970.
    #[inline]
    pub(crate) fn clock_us(&self) -> u64 {
        self.fixed_clock_us.unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.unwrap_or(Duration::ZERO).as_micros() as u64
        })
    }

    /// Fails if the run has failed meanwhile.
    pub(crate) fn check_alive(&self) -> io::Result<()> {
        match self.failed.load(Ordering::Relaxed) {
            true => Err(io::Error::other("another thread has failed")),
            false => Ok(()),
        }
    }

    /// Ends the run; the first failure is what the user is told.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.failed.store(true, Ordering::SeqCst);
        self.redo.abandon();
        self.sessions().iter().for_each(Session::wake);
    }

    /// What made the run fail.
    pub(crate) fn failure(&self) -> Option<Error> {
        lock(&self.failure).clone()
    }

    /// How a thread waits for its place to be carried out.
    pub(crate) fn patience(&self, me: u32) -> Patience {
        let syncs = self.commit_settings().syncs_redo();
        let crowd = self.sessions().len() >= CROWD;
        Patience {
            lingers: crowd && !syncs && self.lingers(me),
            yields: YIELDS,
            // Leave a disk no pause between one group and the next.
            rounds: if syncs { 4 } else { 1 },
        }
    }

    /// Whether a group may become larger by giving the processor away once.
    pub(crate) fn lingers(&self, me: u32) -> bool {
        let wanted = self
            .linger
            .unwrap_or(self.commit_settings().binlog_strategy != BinlogStrategy::Serial);
        wanted && self.sessions()[me as usize].has_company()
    }

    /// Waits for an answer that a leader brings.
    pub(crate) fn wait(&self, me: u32) -> io::Result<Answer> {
        let session = &self.sessions()[me as usize];
        // A leader that works is soon done; one that lingers or waits for the disk wants the processor.
        let gives_way = self.linger == Some(true) || self.commit_settings().syncs_redo();
        let yielding = self.log.yielding();
        let looks = match yielding.is_one_of_few {
            true if gives_way => YIELDS,
            true => SPINS,
            false => 0,
        };
        for _ in 0..looks {
            if let Some(answer) = session.answer() {
                return Ok(answer);
            }
            match gives_way {
                true => yield_now(),
                false => spin_loop(),
            }
        }
        drop(yielding);
        loop {
            self.check_alive()?;
            if let Some(answer) = session.park_unless(|| Ok(false))? {
                return Ok(answer);
            }
        }
    }

    /// Ends the binlog's file and begins the next. Nobody has a place.
    pub(crate) fn rotate(&self, log: &mut Log) -> io::Result<()> {
        let durable = self.commit_settings().syncs_at_rotation();
        log.files.rotate(log.gtid_number, durable)?;
        self.unsynced.begin(log.files.file().clone());
        self.file_number
            .store(u64::from(log.files.number()), Ordering::Relaxed);
        self.gtid_before_file.store(log.gtid_number, Ordering::Relaxed);
        self.counters.rotations.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Lets places be reserved behind what is in the file.
    pub(crate) fn open_section(&self, log: &mut Log) {
        self.gtid_before_section.store(log.gtid_number, Ordering::Relaxed);
        self.binlog().open(&log.drain, log.files.position());
    }

    /// Appends to the binlog's file.
    pub(crate) fn write_binlog(&self, files: &mut Files, bytes: &[u8]) -> io::Result<()> {
        files.write(bytes)?;
        self.unsynced.add(bytes.len() as u64);
        Ok(())
    }

    /// Syncs what is in the binlog's files.
    pub(crate) fn sync_binlog(&self) -> io::Result<()> {
        if self.unsynced.sync(|file| file.sync_data())? {
            self.counters.binlog_fsyncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Counts a group that is acknowledged, and what an OS crash would now take of all that was.
    pub(crate) fn count_group(&self, commit_settings: CommitSettings, commits: usize, lsn: u64) {
        self.counters.groups.fetch_add(1, Ordering::Relaxed);
        self.counters.grouped.fetch_add(commits as u64, Ordering::Relaxed);
        let redo = lsn.saturating_sub(self.redo.flushed());
        let binlog = match commit_settings.binlog_strategy {
            BinlogStrategy::Redo => 0,
            // What is not synced yet is the next group's, which waits for it.
            _ if commit_settings.sync_binlog == 1 => 0,
            _ => self.unsynced.at_risk(),
        };
        self.counters
            .bytes_at_risk
            .fetch_max(redo + binlog, Ordering::Relaxed);
    }

    /// Changes the commit_settings while threads run. What waits under the old way of flushing is carried out
    /// under it, or sent back to begin again under the new one.
    pub(crate) fn change(&self, commit_settings: CommitSettings) -> io::Result<()> {
        let closed = self.lock_closed(|old| {
            old.binlog_strategy != BinlogStrategy::Serial
                && old.binlog_strategy != commit_settings.binlog_strategy
        })?;
        // One changes settings at a time: this is still the same one.
        let mut log = closed.unwrap_or_else(|| self.lock_log());
        if self.commit_settings().binlog_strategy == commit_settings.binlog_strategy {
            self.commit_settings
                .store(commit_settings.to_bits(), Ordering::Release);
            return Ok(());
        }
        if commit_settings.binlog_strategy == BinlogStrategy::Redo
            || self.commit_settings().binlog_strategy == BinlogStrategy::Redo
        {
            // Recovery appends to a binlog that has no holes; and what redo alone has made durable is so in the
            // binlog before a checkpoint may forget it.
            self.sync_binlog()?;
        }
        self.commit_settings
            .store(commit_settings.to_bits(), Ordering::Release);
        if commit_settings.binlog_strategy != BinlogStrategy::Serial {
            if log.files.position() >= self.rotate_bytes {
                self.rotate(&mut log)?;
            }
            self.open_section(&mut log);
        }
        self.counters.switches.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The log lock with the section closed and the file complete, while the commit_settings `suits`; else `None`. The
    /// commit_settings changes under this lock alone.
    pub(crate) fn lock_closed(
        &self,
        suits: impl Fn(CommitSettings) -> bool,
    ) -> io::Result<Option<Holder<'_, Log>>> {
        let mut backoff = Backoff::default();
        loop {
            let mut log = self.lock_log();
            if !suits(self.commit_settings()) {
                return Ok(None);
            }
            if let Some((_, next)) = self.binlog().close() {
                self.drain_until(&mut log, self.binlog().ring_position(next))?;
                return Ok(Some(log));
            }
            // The owner of the last place wants the lock, to open the section again.
            drop(log);
            self.check_alive()?;
            backoff.pause();
        }
    }

    /// Carries out all places up to `end` in the ring, and has them in the file.
    pub(crate) fn drain_until(&self, log: &mut Log, end: u64) -> io::Result<()> {
        let written = || {
            self.drain(log)?;
            self.write_ready(log)?;
            Ok(log.written >= end)
        };
        make_room_until_done(written, || self.check_alive())
    }

    /// Where the oldest record begins that a transaction under way may need.
    fn oldest_needed(&self) -> u64 {
        let next = self.redo.next();
        std::sync::atomic::fence(Ordering::SeqCst);
        let needed = self
            .sessions()
            .iter()
            .map(|session| session.needs_redo.load(Ordering::SeqCst));
        needed.fold(next, u64::min)
    }

    /// Makes room in the redo log's circle: what lies before the checkpoint is in the binlog's files, and
    /// synced there where the commit_settings promises as much.
    pub(crate) fn checkpoint(&self) -> io::Result<()> {
        let lsn = self.oldest_needed();
        // Whoever needed a record before it is committed, and all that is committed has its record in the
        // buffer, of which redo 0 may not have written any.
        let applied = self.committed.load(Ordering::Acquire);
        self.redo.write(self.redo.next())?;
        let commit_settings = self.commit_settings();
        if commit_settings.binlog_strategy == BinlogStrategy::Redo {
            self.write_ready(&mut self.lock_log())?;
            self.sync_binlog()?;
        }
        self.redo
            .put_checkpoint(Checkpoint { lsn, applied }, commit_settings.syncs_redo())
    }

    /// What is done once a second for commits that did not wait for it.
    pub(crate) fn sync_late(&self) -> io::Result<()> {
        let commit_settings = self.commit_settings();
        if matches!(commit_settings.trx_commit, 0 | 2) {
            self.redo.flush_ready()?;
        }
        match commit_settings.binlog_strategy {
            BinlogStrategy::Serial => Ok(()),
            BinlogStrategy::Parallel | BinlogStrategy::ParallelLeader => self.sync_binlog(),
            BinlogStrategy::Redo => {
                self.write_ready(&mut self.lock_log())?;
                self.sync_binlog()
            }
        }
    }

    /// Ends both logs in good order; the threads have ended.
    pub(crate) fn close(&self) -> io::Result<()> {
        let closed =
            self.lock_closed(|commit_settings| commit_settings.binlog_strategy != BinlogStrategy::Serial)?;
        let mut log = closed.unwrap_or_else(|| self.lock_log());
        self.redo.flush_ready()?;
        log.files.close()
    }

    /// Syncs of redo and binlog so far.
    pub(crate) fn fsyncs(&self) -> (u64, u64) {
        (
            self.redo.fsyncs(),
            self.counters.binlog_fsyncs.load(Ordering::Relaxed),
        )
    }
}

/// Both logs, new or where they were recovered.
fn open_logs(settings: &Settings<'_>) -> io::Result<(RedoLog, Files)> {
    let path = settings.folder.join(redo::NAME);
    let (format, folder, timestamp) = (settings.format, settings.folder, settings.timestamp);
    Ok(match &settings.recovered {
        None => (
            RedoLog::create(&path, settings.redo_capacity, settings.log_buffer_bytes)?,
            Files::create(format, folder, timestamp)?,
        ),
        Some(recovered) => (
            RedoLog::resume(&path, settings.log_buffer_bytes)?,
            Files::resume(
                format,
                folder,
                timestamp,
                recovered.file_number,
                recovered.last_gtid,
            )?,
        ),
    })
}

/// The lock, also after a thread has panicked under it: the run fails by that thread's end.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds since `start`.
pub(crate) fn since(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
