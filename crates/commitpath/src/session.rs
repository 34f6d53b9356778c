//! A thread's session: what it shares with those who work for it, and how it waits.

use std::io;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use flushlab_binlog::{Body, Format};

use crate::sync::{fence, park, AtomicU64, Ordering, Thread};

/// A waiting thread looks after itself as often, in case the run has failed.
const LOOK: Duration = Duration::from_millis(50);
const WAITING: u64 = 0;
const COMMITTED: u64 = 1;
const AGAIN: u64 = 2;

/// How waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The transaction is committed under this GTID.
    Committed(u64),
    /// The way of flushing has changed: commit again.
    Again,
}

/// What a thread shares.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Session {
    answer: AtomicU64,
    parked: AtomicU64,
    gtid_number: AtomicU64,
    /// What it was for the transaction before.
    last_gtid: AtomicU64,
    /// Records from here on may be needed by this thread's transaction; `u64::MAX` for none.
    pub(crate) needs_redo: AtomicU64,
    /// Its transaction's XID.
    pub(crate) xid: AtomicU64,
    /// End of its prepare record.
    pub(crate) prepared: AtomicU64,
    thread: OnceLock<Thread>,
    /// Its transaction's events; locked by the leader while it writes them.
    pub(crate) body: Mutex<Body>,
}

impl Session {
    pub(crate) fn new(format: &Format) -> Self {
        Self {
            answer: AtomicU64::new(WAITING),
            parked: AtomicU64::new(0),
            gtid_number: AtomicU64::new(0),
            last_gtid: AtomicU64::new(0),
            needs_redo: AtomicU64::new(u64::MAX),
            xid: AtomicU64::new(0),
            prepared: AtomicU64::new(0),
            thread: OnceLock::new(),
            body: Mutex::new(Body::new(format)),
        }
    }

    /// Says which thread waits here.
    pub(crate) fn take(&self, thread: Thread) {
        self.thread.get_or_init(|| thread);
    }

    /// Before others are told that somebody waits here.
    pub(crate) fn ask(&self) {
        self.answer.store(WAITING, Ordering::Relaxed);
    }

    /// What was answered so far.
    #[inline]
    pub(crate) fn answer(&self) -> Option<Answer> {
        match self.answer.load(Ordering::Acquire) {
            COMMITTED => Some(Answer::Committed(self.gtid_number())),
            AGAIN => Some(Answer::Again),
            _ => None,
        }
    }

    /// The number of the transaction's GTID, before others are told.
    #[inline]
    pub(crate) fn number(&self, gtid_number: u64) {
        self.last_gtid.store(self.gtid_number(), Ordering::Relaxed);
        self.gtid_number.store(gtid_number, Ordering::Relaxed);
    }

    pub(crate) fn gtid_number(&self) -> u64 {
        self.gtid_number.load(Ordering::Relaxed)
    }

    /// Whether others have committed between this thread's last two transactions.
    pub(crate) fn has_company(&self) -> bool {
        self.gtid_number() > self.last_gtid.load(Ordering::Relaxed) + 1
    }

    /// Answers that the transaction is committed, and wakes who waits.
    #[inline]
    pub(crate) fn commit(&self) {
        self.reply(COMMITTED);
    }

    /// Sends who waits here back to the start.
    pub(crate) fn send_back(&self) {
        self.reply(AGAIN);
    }

    fn reply(&self, answer: u64) {
        self.answer.store(answer, Ordering::Release);
        // As in `park_unless`: either we see it parked or it sees our answer.
        fence(Ordering::SeqCst);
        self.wake();
    }

    /// Wakes who is parked here, to look around.
    pub(crate) fn wake(&self) {
        if self.parked.load(Ordering::SeqCst) == 1 && self.parked.swap(0, Ordering::SeqCst) == 1 {
            if let Some(thread) = self.thread.get() {
                thread.unpark();
            }
        }
    }

    /// Sleeps until an answer is there, somebody wakes us, or a while has passed; not if `busy` has found
    /// something to do after others could see us asleep.
    pub(crate) fn park_unless(&self, busy: impl FnOnce() -> io::Result<bool>) -> io::Result<Option<Answer>> {
        self.parked.store(1, Ordering::SeqCst);
        // Who answers looks whether we are parked after that: with both fences one sees the other.
        fence(Ordering::SeqCst);
        if self.answer().is_none() && !busy()? {
            park(LOOK);
        }
        self.parked.store(0, Ordering::Relaxed);
        Ok(self.answer())
    }
}
