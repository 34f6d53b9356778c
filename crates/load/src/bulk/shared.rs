//! What the threads of a load and its owner share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::counts::Counts;
use super::spec::{Range, Spec};
use crate::Error;

/// What the threads of a load share.
pub(super) struct SharedSlices {
    pub spec: Spec,
    pub counts: Counts,
    ranges: Mutex<VecDeque<Range>>,
    pub stop: AtomicBool,
    held: Mutex<bool>,
    let_go: Condvar,
    pub failed: Mutex<Option<Error>>,
    /// Threads that have not ended.
    pub working: AtomicUsize,
    /// When the last thread has ended.
    pub ended: Mutex<Option<Duration>>,
    pub changed: Condvar,
    pub began: Instant,
}

impl SharedSlices {
    /// Of a load that begins on so many connections.
    pub fn new(spec: Spec, connections: usize) -> Self {
        Self {
            ranges: Mutex::new(spec.ranges.iter().copied().collect()),
            working: AtomicUsize::new(connections),
            spec,
            counts: Counts::default(),
            stop: AtomicBool::new(false),
            held: Mutex::new(false),
            let_go: Condvar::new(),
            failed: Mutex::new(None),
            // Without a range there is nobody to say so.
            ended: Mutex::new((connections == 0).then_some(Duration::ZERO)),
            changed: Condvar::new(),
            began: Instant::now(),
        }
    }

    /// The next range that nobody has.
    pub fn take(&self) -> Option<Range> {
        self.ranges.lock().pop_front()
    }

    /// Whether nothing is to begin any more.
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.spec.limit.is_some_and(|limit| self.began.elapsed() >= limit)
    }

    /// Begins no transaction from now on, or goes on.
    pub fn hold(&self, held: bool) {
        *self.held.lock() = held;
        self.let_go.notify_all();
    }

    /// Waits as long as the load is held, up to a limit; whether it is held then.
    pub fn is_held(&self, limit: Duration) -> bool {
        let waits = |held: &mut bool| *held && !self.stops();
        let mut held = self.held.lock();
        self.let_go.wait_while_for(&mut held, waits, limit);
        waits(&mut held)
    }

    /// Begins nothing any more.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.hold(false);
    }

    /// Ends the load for a reason; the first one counts.
    pub fn fail(&self, error: Error) {
        if !self.stop.swap(true, Ordering::Relaxed) {
            *self.failed.lock() = Some(error);
        }
        self.end();
    }
}
