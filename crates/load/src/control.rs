//! What a load's threads and their owner share: whether it goes on, and how.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::schedule::Schedule;
use crate::sync::locked;
use crate::transaction::Commit;
use crate::usage::Waits;
use crate::Error;

/// What a load's threads and their owner share.
pub(crate) struct Control {
    stop: AtomicBool,
    /// Who sleeps until the load ends waits here.
    ending: (Mutex<()>, Condvar),
    /// A window has ended and waits: commit as soon as a statement has ended.
    settle: AtomicBool,
    /// Begin nothing, and commit what is open.
    pause: AtomicBool,
    /// Nothing is under way in the pause.
    rests: AtomicBool,
    failed: Mutex<Option<Error>>,
    ignored_errors: Vec<u16>,
    /// None in a closed loop. Locked for a moment only, never while an event runs.
    pub schedule: Option<Mutex<Schedule>>,
    pub commit: Commit,
    /// Of the thread that polls.
    pub waits: Waits,
}

impl Control {
    /// Of a load that begins.
    pub fn new(ignored_errors: Vec<u16>, schedule: Option<Schedule>, commit: Commit) -> Self {
        Self {
            stop: AtomicBool::new(false),
            ending: Default::default(),
            settle: AtomicBool::new(false),
            pause: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            failed: Mutex::new(None),
            ignored_errors,
            schedule: schedule.map(Mutex::new),
            commit,
            waits: Waits::default(),
        }
    }

    /// Ends the load.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.end_sleep();
    }

    fn end_sleep(&self) {
        drop(locked(&self.ending.0));
        self.ending.1.notify_all();
    }

    /// Sleeps so long, or until the load is to end.
    pub fn sleep(&self, most: Duration) {
        let (lock, ends) = &self.ending;
        let slept = ends.wait_timeout_while(locked(lock), most, |()| !self.stops());
        drop(slept.unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether the load is to end.
    #[inline]
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A window begins or ceases to wait for commits.
    pub fn settle(&self, waits: bool) {
        self.settle.store(waits, Ordering::Relaxed);
    }

    /// Whether a window waits for commits.
    #[inline]
    pub fn settles(&self) -> bool {
        self.settle.load(Ordering::Relaxed)
    }

    /// A pause begins or ends.
    pub fn pause(&self, pauses: bool) {
        if pauses {
            self.rests.store(false, Ordering::SeqCst);
        }
        self.pause.store(pauses, Ordering::SeqCst);
    }

    /// Whether no event is to begin.
    #[inline]
    pub fn pauses(&self) -> bool {
        self.pause.load(Ordering::Relaxed)
    }

    /// The thread that drives says that nothing is under way in the pause.
    pub fn rest(&self) {
        self.rests.store(true, Ordering::SeqCst);
    }

    /// Whether nothing is under way in the pause.
    pub fn rests(&self) -> bool {
        self.rests.load(Ordering::SeqCst)
    }

    /// Why the load has ended by itself.
    pub fn failed(&self) -> Option<Error> {
        locked(&self.failed).clone()
    }

    /// Whether the load goes on after this error.
    pub fn is_ignored(&self, error: &Error) -> bool {
        error
            .errno
            .is_some_and(|errno| self.ignored_errors.contains(&errno))
    }

    /// Ends the load for a reason, unless it is being stopped: then a connection may have been cut.
    pub fn fail(&self, error: Error) {
        if !self.stop.swap(true, Ordering::Relaxed) {
            *locked(&self.failed) = Some(error);
            self.end_sleep();
        }
    }

    /// Ends the load for a bug, which is told in any case.
    pub fn fail_for_bug(&self, error: Error) {
        self.stop();
        locked(&self.failed).get_or_insert(error);
    }
}
