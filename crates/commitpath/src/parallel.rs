//! Binlog Parallel Flush: every thread reserves a place, writes its own events there, and is acknowledged once
//! the ready prefix that covers it is in the file.
//!
//! There is no writer thread: who finds the log lock free writes the prefix for all (`combining`). `redo` differs in
//! what a commit waits for: a record with the events in the redo log, which one sync makes durable; the file
//! follows later.

use std::io;
use std::sync::atomic::Ordering;

use flushlab_binlog::{Body, Place as BinlogPlace};

use crate::combining::Tag;
use crate::commit_settings::BinlogStrategy;
use crate::engine::{lock, Commit, Engine, Log};
use crate::log_buffer::Place;
use crate::measure::Watch;
use crate::redo::{Entry, Kind};
use crate::session::Answer;
use crate::sync::Backoff;

/// Largest transaction whose events go through the redo log (`persist_binlog_to_redo_size_limit`): larger
/// ones are synced in the binlog itself.
pub const PERSIST_LIMIT: u64 = 1 << 20;

impl Engine {
    /// Commits through a place of its own.
    pub(crate) fn commit_alone(&self, commit: &mut Commit<'_>) -> io::Result<Answer> {
        let me = commit.me;
        let session = &self.sessions()[me as usize];
        let body = lock(&session.body);
        let size = body.size(false);
        let large_for_redo =
            self.commit_settings().binlog_strategy == BinlogStrategy::Redo && size > self.persist_limit();
        if large_for_redo || !self.fits_ring(size) {
            drop(body);
            return self.commit_large(commit);
        }
        let last_committed = self.committed.load(Ordering::Acquire);
        let mut watch = Watch::start(commit.xid >> 8);
        let Some(mut place) = self.binlog().reserve(1, size) else {
            drop(body);
            self.wait_for_section()?;
            return Ok(Answer::Again);
        };
        watch.lap(&self.counters.ordered, 1);
        // Who has a place keeps the way of flushing from changing.
        let commit_settings = self.commit_settings();
        let gtid_number = self.gtid_before_section.load(Ordering::Relaxed) + place.number + 1;
        self.wait_for_room(&place)?;
        watch.skip();
        let (position, end, last) = (place.start, place.end(), place.last);
        let binlog_place = self.place(position, gtid_number, last_committed, self.clock_us(), 0);
        self.finish(&body, &binlog_place, &mut place)?;
        watch.lap(&self.counters.encode, 1);
        // One that set out under another way has no room for its events in the redo log.
        let in_redo = commit_settings.binlog_strategy == BinlogStrategy::Redo && commit.persists;
        let lsn = if in_redo {
            let file = self.file_number.load(Ordering::Relaxed) as u32;
            let (front, back) = self.binlog().bytes(&mut place);
            self.redo.append(&Entry {
                kind: Kind::Binlog { file, position },
                xid: commit.xid,
                gtid_number,
                payload: commit.redo,
                binlog: [front, back],
            })?
        } else {
            self.prepare(commit)?
        };
        drop(body);
        session.number(gtid_number);
        session.ask();
        let tag = Tag {
            lsn,
            owner: me,
            in_redo,
        };
        self.binlog().publish(place, tag.to_bits());
        if last {
            self.reopen(end)?;
        }
        self.wait_or_write(me)
    }

    /// Writes a transaction's events into its place.
    pub(crate) fn finish(&self, body: &Body, at: &BinlogPlace, place: &mut Place) -> io::Result<()> {
        let (front, back) = self.binlog().bytes(place);
        let finished = if back.is_empty() {
            body.finish_into(at, front)
        } else {
            // Once per round of the ring.
            let mut whole = vec![0; front.len() + back.len()];
            body.finish_into(at, &mut whole).map(|()| {
                let (head, tail) = whole.split_at(front.len());
                front.copy_from_slice(head);
                back.copy_from_slice(tail);
            })
        };
        finished.map_err(io::Error::other)
    }

    /// Whether as many bytes are given a place in the ring.
    pub(crate) fn fits_ring(&self, size: u64) -> bool {
        size <= self.binlog().capacity() / 4
    }

    /// Largest transaction whose events go through the redo log.
    pub(crate) fn persist_limit(&self) -> u64 {
        PERSIST_LIMIT.min(self.redo.buffer_bytes() / 4)
    }

    /// Waits while the section is closed: a file is being changed, or the way of flushing.
    pub(crate) fn wait_for_section(&self) -> io::Result<()> {
        let mut backoff = Backoff::default();
        while self.binlog().is_closed() && self.commit_settings().binlog_strategy != BinlogStrategy::Serial {
            self.check_alive()?;
            backoff.pause();
        }
        Ok(())
    }

    /// Waits until the ring has room for the place, writing what is in the way.
    pub(crate) fn wait_for_room(&self, place: &Place) -> io::Result<()> {
        self.log.wait_for_room(
            place,
            |log| self.drain(log).and_then(|_| self.write_ready(log)),
            || self.check_alive(),
        )
    }

    /// Waits for the answer; carries out the ready prefix whenever nobody else does.
    pub(crate) fn wait_or_write(&self, me: u32) -> io::Result<Answer> {
        self.log.wait(
            me,
            self.patience(me),
            |log| self.drain(log).map(|_| ()),
            || self.check_alive(),
        )
    }

    /// Carries out the ready prefix: redo first, then the file, then the answers. `false` if nothing was
    /// ready.
    pub(crate) fn drain(&self, log: &mut Log) -> io::Result<bool> {
        let mut owners = std::mem::take(&mut log.owners);
        owners.clear();
        let (mut lsn, mut all_in_redo) = (0, true);
        self.binlog().scan(&mut log.drain, |_, tag| {
            let tag = Tag::from_bits(tag);
            lsn = lsn.max(tag.lsn);
            all_in_redo &= tag.in_redo;
            owners.push(tag.owner);
        });
        let found = owners.len();
        if found > 0 {
            let commit_settings = self.commit_settings();
            let mut watch = Watch::start(self.counters.groups.load(Ordering::Relaxed));
            self.persist_redo(commit_settings, lsn)?;
            if commit_settings.syncs_redo() {
                // Waiting for the disk is not this thread's time.
                watch.skip();
            }
            if commit_settings.binlog_strategy != BinlogStrategy::Redo {
                self.write_ready(log)?;
            } else if !all_in_redo {
                // A leader that set out under another way has got its places after the change to `redo`.
                self.write_ready(log)?;
                self.sync_binlog()?;
            }
            if commit_settings.trx_commit == 3 {
                self.commit_records(&owners)?;
            }
            log.gtid_number += found as u64;
            self.committed.fetch_max(log.gtid_number, Ordering::Release);
            self.count_group(commit_settings, found, lsn);
            for owner in &owners {
                self.sessions()[*owner as usize].commit();
            }
            if commit_settings.binlog_strategy != BinlogStrategy::Redo {
                watch.lap(&self.counters.write, found);
            }
        }
        log.owners = owners;
        Ok(found > 0)
    }

    fn commit_records(&self, owners: &[u32]) -> io::Result<()> {
        let mut last = 0;
        for owner in owners {
            last = self.commit_record(&self.sessions()[*owner as usize])?;
        }
        self.redo.flush(last)
    }

    /// Has all that was found ready in the file.
    pub(crate) fn write_ready(&self, log: &mut Log) -> io::Result<()> {
        let (from, to) = (log.written, log.drain.ready());
        if from == to {
            return Ok(());
        }
        let (front, back) = self.binlog().filled(&log.drain, from, to);
        self.write_binlog(&mut log.files, front)?;
        self.write_binlog(&mut log.files, back)?;
        log.written = to;
        self.binlog().release(&mut log.drain, to);
        Ok(())
    }

    /// What the owner of a section's last place does, which ends at `end` in the ring: the next file.
    pub(crate) fn reopen(&self, end: u64) -> io::Result<()> {
        let mut log = self.lock_log();
        self.drain_until(&mut log, end)?;
        self.rotate(&mut log)?;
        self.open_section(&mut log);
        drop(log);
        match self.commit_settings().syncs_at_rotation() {
            true => Ok(()),
            false => self.sync_binlog(),
        }
    }

    /// Commits what the ring has no room for: alone, with the section closed.
    fn commit_large(&self, commit: &mut Commit<'_>) -> io::Result<Answer> {
        let (me, lsn) = (commit.me, self.prepare(commit)?);
        let Some(mut log) =
            self.lock_closed(|commit_settings| commit_settings.binlog_strategy != BinlogStrategy::Serial)?
        else {
            return Ok(Answer::Again);
        };
        let commit_settings = self.commit_settings();
        self.persist_redo(commit_settings, lsn)?;
        let session = &self.sessions()[me as usize];
        let body = lock(&session.body);
        let mut whole = vec![0; body.size(false) as usize];
        log.gtid_number += 1;
        let committed = self.committed.load(Ordering::Relaxed);
        let place = self.place(
            log.files.position(),
            log.gtid_number,
            committed,
            self.clock_us(),
            0,
        );
        body.finish_into(&place, &mut whole).map_err(io::Error::other)?;
        self.write_binlog(&mut log.files, &whole)?;
        if commit_settings.binlog_strategy == BinlogStrategy::Redo {
            self.sync_binlog()?;
        }
        session.number(log.gtid_number);
        self.committed.fetch_max(log.gtid_number, Ordering::Release);
        self.count_group(commit_settings, 1, lsn);
        if log.files.position() >= self.rotate_bytes {
            self.rotate(&mut log)?;
        }
        self.open_section(&mut log);
        Ok(Answer::Committed(log.gtid_number))
    }
}
