//! MySQL's ordered group commit (`MYSQL_BIN_LOG::ordered_commit`): flush, sync and commit stages.
//!
//! The first in a stage's queue leads those behind. Under the log lock it makes the group's redo durable as
//! the commit_settings says, then writes the events of one transaction after the other with GTID, log_pos and checksum.
//! The sync stage syncs the file every `sync_binlog` groups. The commit stage commits in the binlog's order and
//! wakes the followers. While one group syncs, the next may flush.

use std::io;
use std::sync::atomic::Ordering;

use crate::commit_settings::{BinlogStrategy, CommitSettings};
use crate::engine::{lock, since, Engine, Log};
use crate::measure::Watch;
use crate::redo::{Entry, Kind};
use crate::session::{Answer, Session};
use crate::sync::yield_now;

impl Engine {
    /// Commits as a leader or follower; `group` is scratch memory.
    pub(crate) fn commit_serially(&self, me: u32, group: &mut Vec<u32>) -> io::Result<Answer> {
        self.sessions()[me as usize].ask();
        if !self.flush_stage.enter(&[me]) {
            return self.wait(me);
        }
        if self.lingers(me) && !self.commit_settings().syncs_redo() {
            yield_now();
        }
        let mut log = self.lock_log();
        let commit_settings = self.commit_settings();
        self.flush_stage.take(group);
        if commit_settings.binlog_strategy != BinlogStrategy::Serial {
            drop(log);
            return Ok(self.send_back(me, group));
        }
        self.flush_group(&mut log, commit_settings, group)?;
        // Into the next queue before the lock is given up: groups do not overtake one another.
        let leads = self.sync_stage.enter(group);
        drop(log);
        if !leads {
            return self.wait(me);
        }

        let mut groups = lock(&self.sync_lock);
        self.sync_stage.take(group);
        *groups += 1;
        if commit_settings.sync_binlog != 0 && *groups >= commit_settings.sync_binlog {
            *groups = 0;
            self.sync_binlog()?;
        }
        let leads = self.commit_stage.enter(group);
        drop(groups);
        if !leads {
            return self.wait(me);
        }

        let committing = lock(&self.commit_lock);
        self.commit_stage.take(group);
        let last = self.commit_group(commit_settings, group)?;
        drop(committing);
        for follower in group.iter().filter(|follower| **follower != me) {
            self.sessions()[*follower as usize].commit();
        }
        self.count_group(commit_settings, group.len(), last);
        Ok(Answer::Committed(self.sessions()[me as usize].gtid_number()))
    }

    /// Tells the group to commit anew; the caller, one of them, does so too.
    pub(crate) fn send_back(&self, me: u32, group: &[u32]) -> Answer {
        for member in group.iter().filter(|member| **member != me) {
            self.sessions()[*member as usize].send_back();
        }
        Answer::Again
    }

    /// The flush stage, under the log lock.
    fn flush_group(&self, log: &mut Log, commit_settings: CommitSettings, group: &[u32]) -> io::Result<()> {
        if log.files.position() >= self.rotate_bytes {
            self.rotate(log)?;
        }
        let sessions = || group.iter().map(|member| &self.sessions()[*member as usize]);
        let prepared = sessions().map(|session| session.prepared.load(Ordering::Relaxed));
        let mut watch = Watch::start(self.counters.groups.load(Ordering::Relaxed));
        let mut held = watch.begun();
        self.persist_redo(commit_settings, prepared.max().unwrap_or(0))?;
        if commit_settings.syncs_redo() {
            // Waiting for the disk is not this thread's time.
            watch.skip();
            held = watch.begun();
        }
        let redo_ns = watch.split();

        let commit_us = self.clock_us();
        let committed = self.committed.load(Ordering::Relaxed);
        let commit_id = self.commit_id(group.len(), log.gtid_number + 1);
        let mut used = 0;
        for session in sessions() {
            let body = lock(&session.body);
            let size = body.size(commit_id != 0) as usize;
            if used + size > log.gathered.len() {
                self.write_gathered(log, used)?;
                used = 0;
                log.gathered.resize(log.gathered.len().max(size), 0);
            }
            log.gtid_number += 1;
            session.number(log.gtid_number);
            let position = log.files.position() + used as u64;
            let place = self.place(position, log.gtid_number, committed, commit_us, commit_id);
            body.finish_into(&place, &mut log.gathered[used..used + size])
                .map_err(io::Error::other)?;
            used += size;
        }
        watch.lap(&self.counters.encode, group.len());
        self.write_gathered(log, used)?;
        watch.lap_with(redo_ns, &self.counters.write, group.len());
        if let Some(held) = held {
            self.counters.ordered.record(since(held), group.len());
        }
        Ok(())
    }

    fn write_gathered(&self, log: &mut Log, used: usize) -> io::Result<()> {
        self.write_binlog(&mut log.files, &log.gathered[..used])
    }

    /// The commit stage: in the binlog's order. Says up to where redo was needed.
    fn commit_group(&self, commit_settings: CommitSettings, group: &[u32]) -> io::Result<u64> {
        let sessions = || group.iter().map(|member| &self.sessions()[*member as usize]);
        let mut last = 0;
        for session in sessions() {
            last = last.max(session.prepared.load(Ordering::Relaxed));
            if commit_settings.trx_commit == 3 {
                last = self.commit_record(session)?;
            }
            self.committed.fetch_max(session.gtid_number(), Ordering::Release);
        }
        if commit_settings.trx_commit == 3 {
            self.redo.flush(last)?;
        }
        Ok(last)
    }

    /// The commit record of MariaDB's redo 3, which is synced once more.
    pub(crate) fn commit_record(&self, session: &Session) -> io::Result<u64> {
        let entry = Entry {
            kind: Kind::Commit,
            xid: session.xid.load(Ordering::Relaxed),
            gtid_number: session.gtid_number(),
            payload: &[],
            binlog: [&[], &[]],
        };
        self.redo.append(&entry)
    }
}
