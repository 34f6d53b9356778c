//! Both logs, and the one protocol by which all pipelines commit.
//!
//! * **Order**: one short mutex hands out GTID and position and appends a slot to the queue. The slot is filled at
//!   once if the group's leader is to write the events, else when its owner has written them in its own buffer.
//! * **Lead**: whoever makes the first slot ready while nobody leads becomes the leader: it waits for the writer,
//!   takes the ready prefix of the queue (the group) and carries it out. The others sleep until they are answered.
//! * **Flush stage**, under the writer's lock: the group's redo, then its events, gathered from where they lie.
//! * **Sync stage**, under the sync lock: what the settings want synced; then the group is committed in its order
//!   and answered. While one group is synced, the next one is flushed.
//!
//! Pipelines differ in who writes the events and in what is synced when; settings are read under the order mutex, and
//! a group has one of them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::Error;
use crate::files::{Files, Folder, Heads, Unsynced};
use crate::measure::{Counters, Watch};
use crate::redo::{self, Checkpoint, EntryKind, RedoLog};
use crate::settings::{BinlogStrategy, CommitSettings};
use crate::spec::Spec;
use crate::transaction::{clock_us, Transaction};

/// A waiting thread looks after itself as often, in case the run has failed.
const LOOK: Duration = Duration::from_millis(50);

/// What the order mutex guards.
struct Order {
    settings: CommitSettings,
    /// The file that the next transaction goes to, and where.
    file: u32,
    position: u64,
    /// The last GTID that was given, and the last before the file.
    gtid: u64,
    gtid_before_file: u64,
    /// From the oldest on; empty slots are filled by their owners.
    queue: std::collections::VecDeque<Option<Box<Transaction>>>,
    /// Somebody is about to take the ready prefix.
    is_led: bool,
}

impl Order {
    fn is_ready(&self) -> bool {
        matches!(self.queue.front(), Some(Some(_)))
    }

    /// Whether the caller is to lead.
    fn takes_lead(&mut self) -> bool {
        let leads = !self.is_led && self.is_ready();
        self.is_led |= leads;
        leads
    }
}

/// A thread's answers.
#[derive(Default)]
struct Session {
    answers: Mutex<Vec<Box<Transaction>>>,
    answered: Condvar,
}

/// What the sync stage remembers.
struct SyncStage {
    /// Groups since the binlog was synced.
    groups: u32,
    last: BinlogStrategy,
    /// Who syncs the redo while this stage syncs the binlog (`two-syncs`).
    second: Option<(Sender<u64>, Receiver<io::Result<()>>)>,
}

/// Memory of a leader, used again and again.
#[derive(Default)]
pub(crate) struct Groups {
    flushed: Vec<Box<Transaction>>,
    synced: Vec<Box<Transaction>>,
}

/// Both logs and everybody who commits through them.
pub(crate) struct Engine {
    pub(crate) folder: Folder,
    heads: Heads,
    rotate_bytes: u64,
    order: Mutex<Order>,
    writer: Mutex<Files>,
    sync_queue: Mutex<Vec<Box<Transaction>>>,
    sync: Mutex<SyncStage>,
    sessions: Box<[Session]>,
    /// All GTIDs up to here are committed.
    committed: AtomicU64,
    pub(crate) redo: RedoLog,
    pub(crate) binlog: Unsynced,
    pub(crate) counters: Counters,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Engine {
    /// Makes the files; those that were made when one could not be are removed again.
    pub(crate) fn create(spec: &Spec, timestamp: u32) -> Result<Self, Error> {
        let folder = Folder::new(&spec.directory)?;
        let heads = Heads {
            format: spec.format.clone(),
            timestamp,
        };
        let logs = || {
            let file = folder.make(redo::NAME)?;
            let buffer_limit = spec.log_buffer_bytes() as usize;
            let redo = RedoLog::create(file, spec.redo_capacity_bytes, buffer_limit)?;
            Ok((redo, Files::create(&heads, &folder)?))
        };
        let (redo, files) = logs().map_err(|error| {
            folder.clear();
            let what = format!("redo and binlog cannot be made in {}", folder.path().display());
            Error::storage(what, &error)
        })?;
        Ok(Self {
            folder,
            heads,
            rotate_bytes: spec.rotate_bytes,
            order: Mutex::new(Order {
                settings: spec.commit_settings(),
                file: 1,
                position: files.position(),
                gtid: 0,
                gtid_before_file: 0,
                queue: std::collections::VecDeque::with_capacity(spec.committers as usize),
                is_led: false,
            }),
            binlog: Unsynced::new(&files),
            writer: Mutex::new(files),
            sync_queue: Mutex::default(),
            sync: Mutex::new(SyncStage {
                groups: 0,
                last: spec.commit_settings().binlog_strategy,
                second: None,
            }),
            sessions: (0..spec.threads).map(|_| Session::default()).collect(),
            committed: AtomicU64::new(0),
            redo,
            counters: Counters::default(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    /// What commits are placed under now.
    pub(crate) fn settings(&self) -> CommitSettings {
        self.order.lock().settings
    }

    /// Changes what the transactions that come next are placed under; those that have a place keep their settings.
    pub(crate) fn change(&self, settings: CommitSettings) {
        let mut order = self.order.lock();
        if order.settings.binlog_strategy != settings.binlog_strategy {
            self.counters.switches.fetch_add(1, Ordering::Relaxed);
        }
        order.settings = settings;
    }

    /// All GTIDs up to this number are committed.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Gives the transaction room in the redo log, if there is some.
    pub(crate) fn admit(&self, transaction: &mut Transaction) -> bool {
        let admission = self.redo.admit(transaction.redo_bytes());
        transaction.admission = admission.unwrap_or_default();
        admission.is_some()
    }

    /// Gives an admitted transaction its place, and has it ready there. `true`: the caller is to
    /// [lead](Self::lead) soon, and waits for nobody before.
    pub(crate) fn submit(&self, mut transaction: Box<Transaction>) -> io::Result<bool> {
        let last_committed = self.committed();
        transaction.place.commit_us = clock_us();
        let size = transaction.size();
        let mut order = loop {
            let strategy = transaction.settings.binlog_strategy;
            transaction.in_redo &= strategy == BinlogStrategy::Redo;
            if !transaction.in_redo && transaction.lsn == 0 {
                self.log(&mut transaction, EntryKind::Prepare)?;
            }
            let order = self.order.lock();
            transaction.settings = order.settings;
            if order.settings.binlog_strategy == strategy {
                break order;
            }
        };
        let mut watch = Watch::start(transaction.xid >> 8);
        self.place(&mut order, &mut transaction, size, last_committed);
        if !transaction.settings.binlog_strategy.owner_encodes() {
            order.queue.push_back(Some(transaction));
            return Ok(order.takes_lead());
        }
        order.queue.push_back(None);
        drop(order);
        watch.lap(&self.counters.ordered);
        transaction.finish().map_err(io::Error::other)?;
        watch.lap(&self.counters.encode);
        if transaction.in_redo {
            let (file, position) = (transaction.file, transaction.place.position);
            self.log(&mut transaction, EntryKind::Binlog { file, position })?;
        }
        let mut order = self.order.lock();
        let first = order.gtid + 1 - order.queue.len() as u64;
        let slot = (transaction.place.gtid_number - first) as usize;
        order.queue[slot] = Some(transaction);
        Ok(order.takes_lead())
    }

    fn place(&self, order: &mut Order, transaction: &mut Transaction, size: u64, last_committed: u64) {
        transaction.begins_file = order.position >= self.rotate_bytes;
        if transaction.begins_file {
            order.file += 1;
            order.gtid_before_file = order.gtid;
            order.position = self.heads.of(order.file, order.gtid).len() as u64;
        }
        order.gtid += 1;
        transaction.file = order.file;
        let place = &mut transaction.place;
        place.position = order.position;
        place.gtid_number = order.gtid;
        place.last_committed = last_committed.saturating_sub(order.gtid_before_file);
        place.sequence_number = order.gtid - order.gtid_before_file;
        order.position += size;
    }

    /// Appends a record of the transaction to the redo log.
    fn log(&self, transaction: &mut Transaction, kind: EntryKind) -> io::Result<()> {
        let mut admission = transaction.admission;
        transaction.lsn = self.redo.append(&transaction.entry(kind), &mut admission)?;
        transaction.admission = admission;
        Ok(())
    }

    /// Carries out the ready prefix of the queue.
    pub(crate) fn lead(&self, groups: &mut Groups) -> io::Result<()> {
        loop {
            let mut files = self.writer.lock();
            let more = self.take(&mut groups.flushed);
            let mut leads = false;
            if !groups.flushed.is_empty() {
                self.flush(&mut files, &mut groups.flushed)?;
                // Into the next queue before the lock is given up: groups do not overtake one another.
                let mut queue = self.sync_queue.lock();
                leads = queue.is_empty();
                queue.append(&mut groups.flushed);
            }
            drop(files);
            if leads {
                self.sync_and_commit(&mut groups.synced)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Takes the ready prefix, as far as it has the same settings; says whether the caller is to lead once more.
    fn take(&self, group: &mut Vec<Box<Transaction>>) -> bool {
        let mut order = self.order.lock();
        while let Some(Some(next)) = order.queue.front() {
            if group.first().is_some_and(|first| first.settings != next.settings) {
                break;
            }
            group.extend(order.queue.pop_front().flatten());
        }
        order.is_led = order.is_ready();
        order.is_led
    }

    /// The flush stage.
    fn flush(&self, files: &mut Files, group: &mut [Box<Transaction>]) -> io::Result<()> {
        let settings = group[0].settings;
        let strategy = settings.binlog_strategy;
        let count = group.len();
        let mut watch = Watch::start(self.counters.groups.load(Ordering::Relaxed));
        let lsn = group.iter().map(|one| one.lsn).max().unwrap_or(0);
        let in_order = matches!(strategy, BinlogStrategy::Serial | BinlogStrategy::Parallel);
        let mut redo_ns = Some(0);
        match settings.trx_commit {
            0 => {}
            1 | 3 if in_order => {
                self.redo.flush(lsn)?;
                // Waiting for the disk is not this thread's time.
                watch.split();
            }
            _ => {
                self.redo.write(lsn)?;
                redo_ns = watch.split();
            }
        }
        for one in group.iter_mut().filter(|one| !one.is_finished) {
            one.finish().map_err(io::Error::other)?;
        }
        let encode_ns = watch.split();
        let mut from = 0;
        for at in (0..count).filter(|at| group[*at].begins_file) {
            self.write(files, &group[from..at])?;
            let last_gtid = group[at].place.gtid_number - 1;
            files.rotate(&self.folder, last_gtid, strategy != BinlogStrategy::Parallel)?;
            self.binlog.begin(files.file());
            from = at;
        }
        self.write(files, &group[from..])?;
        if let (Some(redo_ns), Some(encode_ns), Some(write_ns)) = (redo_ns, encode_ns, watch.split()) {
            let counters = &self.counters;
            counters.write.record(redo_ns + write_ns, count);
            if !strategy.owner_encodes() {
                counters.encode.record(encode_ns, count);
                counters.ordered.record(redo_ns + encode_ns + write_ns, count);
            }
        }
        Ok(())
    }

    fn write(&self, files: &mut Files, group: &[Box<Transaction>]) -> io::Result<()> {
        debug_assert!(group
            .first()
            .is_none_or(|one| one.place.position == files.position()));
        let written = files.gather(group.iter().map(|one| one.events.as_slice()))?;
        self.binlog.add(written);
        Ok(())
    }

    /// The sync and commit stages, for all groups that wait before them.
    fn sync_and_commit(&self, groups: &mut Vec<Box<Transaction>>) -> io::Result<()> {
        let mut stage = self.sync.lock();
        std::mem::swap(groups, &mut *self.sync_queue.lock());
        for group in groups.chunk_by_mut(|one, next| one.settings == next.settings) {
            self.sync_group(&mut stage, group)?;
        }
        drop(stage);
        for one in groups.drain(..) {
            let session = &self.sessions[one.thread as usize];
            session.answers.lock().push(one);
            session.answered.notify_one();
        }
        Ok(())
    }

    fn sync_group(&self, stage: &mut SyncStage, group: &mut [Box<Transaction>]) -> io::Result<()> {
        let settings = group[0].settings;
        let strategy = settings.binlog_strategy;
        let mut lsn = group.iter().map(|one| one.lsn).max().unwrap_or(0);
        stage.groups += 1;
        let is_due = match strategy {
            BinlogStrategy::Serial => settings.sync_binlog != 0 && stage.groups >= settings.sync_binlog,
            BinlogStrategy::Parallel => false,
            BinlogStrategy::Redo => group.iter().any(|one| !one.in_redo),
            BinlogStrategy::TwoSyncs => true,
        };
        // Recovery appends to a binlog that has no holes, and what redo alone has made durable is so in the binlog
        // before a checkpoint may forget it.
        let changed = stage.last != strategy && [stage.last, strategy].contains(&BinlogStrategy::Redo);
        stage.last = strategy;
        match (&stage.second, strategy) {
            (Some((ask, answer)), BinlogStrategy::TwoSyncs) => {
                let gone = |_| io::Error::other("the thread that syncs the redo log has ended");
                ask.send(lsn).map_err(|_| gone(()))?;
                self.binlog.sync()?;
                answer.recv().map_err(|_| gone(()))??;
                stage.groups = 0;
            }
            _ => {
                if settings.syncs_redo() {
                    self.redo.flush(lsn)?;
                }
                if is_due || changed {
                    stage.groups = 0;
                    self.binlog.sync()?;
                }
            }
        }
        if settings.trx_commit == 3 {
            for one in group.iter_mut() {
                self.log(one, EntryKind::Commit)?;
                lsn = one.lsn;
            }
            self.redo.flush(lsn)?;
        }
        self.commit_group(settings, group, lsn);
        Ok(())
    }

    fn commit_group(&self, settings: CommitSettings, group: &[Box<Transaction>], lsn: u64) {
        let last = group.last().map_or(0, |one| one.place.gtid_number);
        self.committed.store(last, Ordering::Release);
        self.redo.end(group.iter().map(|one| one.admission));
        let binlog = match settings.binlog_strategy {
            BinlogStrategy::Redo => 0,
            // What is not synced yet is the next group's, which waits for it.
            _ if settings.sync_binlog == 1 => 0,
            _ => self.binlog.at_risk(),
        };
        let at_risk = lsn.saturating_sub(self.redo.flushed()) + binlog;
        let counters = &self.counters;
        counters.groups.fetch_add(1, Ordering::Relaxed);
        counters.grouped.fetch_add(group.len() as u64, Ordering::Relaxed);
        counters.bytes_at_risk.fetch_max(at_risk, Ordering::Relaxed);
    }

    /// Waits for answers to the thread; `polls` instead of sleeping.
    pub(crate) fn wait(&self, me: u32, polls: bool, ready: &mut Vec<Box<Transaction>>) -> io::Result<()> {
        let session = &self.sessions[me as usize];
        let mut answers = session.answers.lock();
        while answers.is_empty() {
            if self.has_failed() {
                return Err(io::Error::other("another thread has failed"));
            }
            match polls {
                true => MutexGuard::unlocked(&mut answers, std::thread::yield_now),
                false => {
                    session.answered.wait_for(&mut answers, LOOK);
                }
            }
        }
        std::mem::swap(&mut *answers, ready);
        Ok(())
    }

    /// Ends the run; the first failure is what the user is told.
    pub(crate) fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
        self.failed.store(true, Ordering::SeqCst);
        self.redo.abandon();
        self.sessions.iter().for_each(|one| {
            one.answered.notify_all();
        });
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// What made the run fail.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.lock().clone()
    }

    /// Gives the sync stage somebody who syncs the redo beside it: requests come out of the receiver, answers go into
    /// the sender.
    pub(crate) fn second_sync(&self) -> (Receiver<u64>, Sender<io::Result<()>>) {
        let ((ask, asked), (answer, answered)) = (channel(), channel());
        self.sync.lock().second = Some((ask, answered));
        (asked, answer)
    }

    /// Makes room in the redo log's circle, if it is time: what lies before the checkpoint is in the binlog's
    /// files, and synced there where nothing else has made it durable.
    pub(crate) fn checkpoint(&self) -> io::Result<()> {
        let Some(lsn) = self.redo.checkpoint_due() else {
            return Ok(());
        };
        let applied = self.committed();
        // All that is committed has its record in the buffer, of which redo 0 may not have written any.
        self.redo.write(self.redo.next())?;
        let settings = self.settings();
        if [self.sync.lock().last, settings.binlog_strategy].contains(&BinlogStrategy::Redo) {
            self.binlog.sync()?;
        }
        self.redo
            .put_checkpoint(Checkpoint { lsn, applied }, settings.syncs_redo())
    }

    /// What is done once a second for commits that did not wait for it.
    pub(crate) fn sync_late(&self) -> io::Result<()> {
        let settings = self.settings();
        if !settings.syncs_redo() {
            self.redo.flush(self.redo.next())?;
        }
        match settings.binlog_strategy {
            BinlogStrategy::Parallel | BinlogStrategy::Redo => self.binlog.sync(),
            BinlogStrategy::Serial | BinlogStrategy::TwoSyncs => Ok(()),
        }
    }

    /// Nobody syncs beside the sync stage any more.
    pub(crate) fn end_second_sync(&self) {
        self.sync.lock().second = None;
    }

    /// Ends both logs in good order; the threads have ended.
    pub(crate) fn close(&self) -> io::Result<()> {
        self.redo.flush(self.redo.next())?;
        self.writer.lock().close()
    }
}
