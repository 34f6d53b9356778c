//! Atomics, locks and sleep: the standard library's, or loom's where its model checker runs them.

#[cfg(feature = "loom")]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        atomic::{fence, AtomicU64, Ordering},
        Mutex, MutexGuard,
    },
    thread::{yield_now, Thread},
};
#[cfg(not(feature = "loom"))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        atomic::{fence, AtomicU64, Ordering},
        Mutex, MutexGuard,
    },
    thread::{yield_now, Thread},
};

use std::sync::PoisonError;
use std::time::Duration;

/// Sleeps until somebody wakes this thread, or a while has passed.
pub(crate) fn park(limit: Duration) {
    #[cfg(not(feature = "loom"))]
    std::thread::park_timeout(limit);
    // loom knows no time: what would only be saved by it is a deadlock there.
    #[cfg(feature = "loom")]
    {
        let _ = limit;
        loom::thread::park();
    }
}

/// The lock, also after a thread has panicked under it: the run fails by that thread's end.
#[inline]
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What several threads write stands in cache lines of its own (two: the hardware fetches pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Waits for what another thread is about to do: spins, then gives the processor away.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    const SPINS: u32 = 64;

    /// For what takes microseconds.
    pub(crate) fn pause(&mut self) {
        if self.0 < Self::SPINS {
            self.0 += 1;
            spin_loop();
        } else {
            yield_now();
        }
    }

    /// For what may take a disk's time.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn pause_long(&mut self) {
        const YIELDS: u32 = 16;
        if self.0 < Self::SPINS + YIELDS {
            self.pause();
            self.0 += 1;
        } else {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}
