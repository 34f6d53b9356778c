//! Parallel flush by leaders: one reserves places for its whole group at once and writes all of its events into
//! them; groups do so in parallel.

use std::io;
use std::sync::atomic::Ordering;

use crate::combining::Tag;
use crate::commit_settings::BinlogStrategy;
use crate::engine::{lock, Commit, Engine};
use crate::measure::Watch;
use crate::session::Answer;

impl Engine {
    /// Commits as a leader or follower; `group` is scratch memory.
    pub(crate) fn commit_with_leader(
        &self,
        commit: &mut Commit<'_>,
        group: &mut Vec<u32>,
    ) -> io::Result<Answer> {
        let me = commit.me;
        let session = &self.sessions()[me as usize];
        if !self.fits_ring(lock(&session.body).size(true)) {
            return self.commit_alone(commit);
        }
        session.ask();
        if !self.flush_stage.enter(&[me]) {
            return self.wait_or_write(me);
        }
        self.flush_stage.take(group);
        self.lead(me, group)
    }

    /// Commits what of a group fits the ring, its leader first.
    pub(crate) fn lead(&self, me: u32, group: &[u32]) -> io::Result<Answer> {
        let (members, behind) = group.split_at(self.fitting(group));
        // Those that the ring has no room for find another leader, who has room for himself at least.
        self.send_back(me, behind);
        while !self.place_group(members)? {
            if self.commit_settings().binlog_strategy != BinlogStrategy::ParallelLeader {
                return Ok(self.send_back(me, members));
            }
            self.wait_for_section()?;
        }
        self.wait_or_write(me)
    }

    /// How many of the group, its leader first, fit the ring together.
    fn fitting(&self, group: &[u32]) -> usize {
        let mut size = 0;
        let fits = |member: &&u32| {
            size += lock(&self.sessions()[**member as usize].body).size(true);
            self.fits_ring(size)
        };
        group.iter().take_while(fits).count()
    }

    /// Reserves the group's places together and fills them; `false` if the section is closed.
    fn place_group(&self, group: &[u32]) -> io::Result<bool> {
        let sessions = || group.iter().map(|member| &self.sessions()[*member as usize]);
        let last_committed = self.committed.load(Ordering::Acquire);
        // The id itself needs the first GTID, but whether there is one does not.
        let grouped = self.commit_id(group.len(), 1) != 0;
        let sizes = sessions().map(|session| lock(&session.body).size(grouped));
        let total = sizes.sum();
        let mut watch = Watch::start(self.counters.groups.load(Ordering::Relaxed));
        let Some(mut places) = self.binlog().reserve(group.len() as u64, total) else {
            return Ok(false);
        };
        watch.lap(&self.counters.ordered, group.len());
        let (end, last) = (places.end(), places.last);
        self.wait_for_room(&places)?;
        watch.skip();
        let commit_us = self.clock_us();
        let before = self.gtid_before_section.load(Ordering::Relaxed);
        let commit_id = self.commit_id(group.len(), before + places.number + 1);
        for (index, member) in group.iter().enumerate() {
            let session = &self.sessions()[*member as usize];
            let body = lock(&session.body);
            let size = body.size(grouped);
            let gtid_number = before + places.number + 1;
            let is_last = index + 1 == group.len();
            let mut rest = None;
            let mut place = if is_last {
                places
            } else {
                let front = places.split(size);
                rest = Some(places);
                front
            };
            let at = self.place(place.start, gtid_number, last_committed, commit_us, commit_id);
            self.finish(&body, &at, &mut place)?;
            drop(body);
            session.number(gtid_number);
            let lsn = session.prepared.load(Ordering::Relaxed);
            self.binlog().publish(
                place,
                Tag {
                    lsn,
                    owner: *member,
                    in_redo: false,
                }
                .to_bits(),
            );
            match rest {
                Some(rest) => places = rest,
                None => break,
            }
        }
        watch.lap(&self.counters.encode, group.len());
        if last {
            self.reopen(end)?;
        }
        Ok(true)
    }
}
