//! A connection with its workload: which statement is under way, what its answer means, what comes next.
//!
//! A session never waits by itself. Who drives it tells it when bytes have come, when a time is over and when to
//! begin an event, and is told what it now waits for.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use flushlab_protocol::command;
use flushlab_protocol::response::Completed;
use flushlab_rows::Random;

use crate::connection::Connection;
use crate::control::Control;
use crate::meter::{Answered, Ended, Meter};
use crate::sync::locked;
use crate::transaction::{Commit, Transaction};
use crate::workload::{Next, Workload};
use crate::{Error, ErrorKind};

/// What a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// For the server.
    Busy,
    /// For a time, in the middle of its event or before it.
    Thinking(Instant),
    /// For its next event.
    Free,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// The next statement is encoded and waits for its time.
    Thinking,
    Statement,
    Commit,
    Rollback,
}

/// What all sessions of a thread share.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub control: &'a Control,
    pub meter: &'a Mutex<Meter>,
}

/// A connection with its workload.
pub(crate) struct Session {
    pub connection: Connection,
    workload: Box<dyn Workload>,
    random: Random,
    transaction: Transaction,
    /// Which it is among those of its thread.
    index: usize,
    doing: Doing,
    statement: Next,
    /// When the command under way was sent.
    sent: Instant,
    /// When the running event began; in an open loop, when it was due.
    begun: Instant,
    /// When the attempt at it began that runs.
    attempted: Instant,
    /// Statements of the running event that were answered.
    answers: u64,
    /// The event ended in an ignored error and is begun anew.
    again: bool,
    free_since: Instant,
    thinks_until: Instant,
}

impl Session {
    pub fn new(
        connection: Connection,
        workload: Box<dyn Workload>,
        random: Random,
        transaction: Transaction,
        index: usize,
        now: Instant,
    ) -> Self {
        Self {
            connection,
            workload,
            random,
            transaction,
            index,
            doing: Doing::Nothing,
            statement: Next::SINGLE,
            sent: now,
            begun: now,
            attempted: now,
            answers: 0,
            again: false,
            free_since: now,
            thinks_until: now,
        }
    }

    /// Since when the server owes an answer.
    pub fn waits_since(&self) -> Option<Instant> {
        matches!(self.doing, Doing::Statement | Doing::Commit | Doing::Rollback).then_some(self.sent)
    }

    /// Whether nothing of it is under way, on the server neither.
    pub fn rests(&self) -> bool {
        self.doing == Doing::Nothing && !self.transaction.is_open()
    }

    /// A pause is over.
    pub fn resumed(&mut self, now: Instant) {
        self.transaction.resumed(now);
        self.free_since = now;
    }

    /// When a free session must commit though no event of its own comes.
    pub fn commit_due(&self) -> Option<Instant> {
        self.transaction.due()
    }

    /// Begins an event that was due at `due`.
    #[inline]
    pub fn begin_due(&mut self, due: Instant, now: Instant, context: Context<'_>) -> Result<Turn, Error> {
        let could = due.max(self.free_since);
        locked(context.meter).began(now.saturating_duration_since(could));
        self.begin(due, now)
    }

    /// Begins an event; its latency counts from `begun`.
    #[inline]
    pub fn begin(&mut self, begun: Instant, now: Instant) -> Result<Turn, Error> {
        (self.begun, self.attempted) = (begun, now);
        self.answers = 0;
        self.next_statement(now)
    }

    #[inline]
    fn next_statement(&mut self, now: Instant) -> Result<Turn, Error> {
        let (workload, random) = (&mut self.workload, &mut self.random);
        self.statement = self.connection.encode(|out| workload.next(random, out))?;
        let think = self.statement.think;
        if think.is_zero() {
            return self.send(Doing::Statement, now);
        }
        if self.answers == 0 {
            self.begun += think;
            self.attempted += think;
        }
        self.doing = Doing::Thinking;
        self.thinks_until = now + think;
        Ok(Turn::Thinking(self.thinks_until))
    }

    #[inline]
    fn send(&mut self, doing: Doing, now: Instant) -> Result<Turn, Error> {
        self.doing = doing;
        self.sent = now;
        self.connection.push()?;
        Ok(Turn::Busy)
    }

    fn send_query(&mut self, doing: Doing, sql: &str, now: Instant) -> Result<Turn, Error> {
        self.connection
            .encode(|out| Ok(command::query(out, sql.as_bytes())?))?;
        self.send(doing, now)
    }

    /// There is room for more of the command.
    pub fn writable(&mut self) -> Result<Turn, Error> {
        if self.doing != Doing::Thinking {
            self.connection.push()?;
        }
        Ok(self.waits_for())
    }

    fn waits_for(&self) -> Turn {
        match self.doing {
            Doing::Nothing => Turn::Free,
            Doing::Thinking => Turn::Thinking(self.thinks_until),
            Doing::Statement | Doing::Commit | Doing::Rollback => Turn::Busy,
        }
    }

    /// A time is over, or a window has ended: goes on, or commits if it must.
    pub fn wake(&mut self, context: Context<'_>) -> Result<Turn, Error> {
        let now = Instant::now();
        match self.doing {
            Doing::Thinking if now >= self.thinks_until => self.send(Doing::Statement, now),
            Doing::Nothing => self.commit_or_rest(now, context),
            _ => Ok(self.waits_for()),
        }
    }

    /// Bytes have come, or the end of them.
    #[inline]
    pub fn readable(&mut self, context: Context<'_>) -> Result<Turn, Error> {
        match self.connection.pull() {
            Ok(None) => Ok(self.waits_for()),
            Ok(Some(completed)) => self.answered(&completed, context),
            Err(error) if self.may_ignore(&error, context) => self.refused(&error, context),
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn answered(&mut self, completed: &Completed, context: Context<'_>) -> Result<Turn, Error> {
        match self.doing {
            Doing::Statement => {
                let effect = self.workload.answered(completed);
                self.answers += 1;
                let last = self.statement.last;
                if last {
                    self.transaction.add(effect.amount);
                }
                let now = locked(context.meter).answered(Answered {
                    session: self.index,
                    statement: self.statement.statement,
                    sent: self.sent,
                    commits: self.statement.commits,
                    event: last.then_some(Ended {
                        begun: self.begun,
                        effect,
                        waits: self.transaction.is_open(),
                    }),
                });
                if last {
                    return self.commit_or_rest(now, context);
                }
                self.next_statement(now)
            }
            Doing::Commit => {
                let now = locked(context.meter).committed(self.index, self.sent);
                self.transaction.ended(now);
                self.rest(now, context)
            }
            Doing::Rollback => {
                locked(context.meter).rolled_back(self.index);
                let now = Instant::now();
                self.transaction.ended(now);
                self.rest(now, context)
            }
            Doing::Nothing | Doing::Thinking => Err(Error::new(
                ErrorKind::Protocol,
                "the server answers though nothing was asked",
            )),
        }
    }

    #[inline]
    fn commit_or_rest(&mut self, now: Instant, context: Context<'_>) -> Result<Turn, Error> {
        let settle = || context.control.settles() && locked(context.meter).is_settling(self.index);
        let pauses = || context.control.pauses() && self.transaction.is_open();
        if self.transaction.is_due(now) || settle() || pauses() {
            return self.send_query(Doing::Commit, "COMMIT", now);
        }
        self.rest(now, context)
    }

    #[inline]
    fn rest(&mut self, now: Instant, context: Context<'_>) -> Result<Turn, Error> {
        if self.doing != Doing::Nothing {
            self.doing = Doing::Nothing;
            self.free_since = now;
        }
        if std::mem::take(&mut self.again) && !context.control.stops() {
            // In an open loop the event was due when it was due, however often it is tried.
            let begun = match context.control.schedule {
                Some(_) => self.begun,
                None => now,
            };
            return self.begin(begun, now);
        }
        Ok(Turn::Free)
    }

    /// How long what runs has taken up to now: an attempt at an event, or the driver's COMMIT.
    fn took(&self, now: Instant) -> Option<Duration> {
        let since = match self.doing {
            Doing::Statement | Doing::Thinking => self.attempted,
            Doing::Commit => self.sent,
            Doing::Nothing | Doing::Rollback => return None,
        };
        Some(now.saturating_duration_since(since))
    }

    fn may_ignore(&self, error: &Error, context: Context<'_>) -> bool {
        matches!(self.doing, Doing::Statement | Doing::Commit) && context.control.is_ignored(error)
    }

    /// An ignored error: it is counted, what was open is rolled back, and an event that it ended begins anew
    /// with fresh values. In a closed loop its time is no part of the new one's; in an open loop the new one
    /// counts from when the first was due.
    fn refused(&mut self, error: &Error, context: Context<'_>) -> Result<Turn, Error> {
        let now = Instant::now();
        locked(context.meter).refused(error, self.took(now));
        if self.doing == Doing::Statement {
            self.workload.abandon();
            self.again = true;
        }
        if context.control.commit != Commit::Auto || self.answers > 0 {
            return self.send_query(Doing::Rollback, "ROLLBACK", now);
        }
        self.rest(now, context)
    }

    /// The connection is gone: so is the running event and what was open.
    pub fn lost(&mut self, error: &Error, context: Context<'_>) {
        let took = self.took(Instant::now());
        locked(context.meter).lost(self.index, error, took);
        if self.doing != Doing::Nothing {
            self.workload.abandon();
        }
        self.transaction.ended(Instant::now());
        self.doing = Doing::Nothing;
        self.again = false;
    }

    /// Goes on with another connection.
    pub fn renew(&mut self, mut connection: Connection) -> Result<(), Error> {
        self.workload.prepare(&mut connection)?;
        self.connection = connection;
        self.free_since = Instant::now();
        Ok(())
    }
}
