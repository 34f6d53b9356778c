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

use std::io;
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

/// Waits for what another thread is about to do: spins, gives the processor away, then sleeps, longer each time.
/// However many wait and however long, few of them want the processor.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    const SPINS: u32 = 64;
    const YIELDS: u32 = 32;
    const SHORTEST: Duration = Duration::from_micros(50);
    /// Doublings of the shortest sleep.
    const DOUBLINGS: u32 = 7;

    pub(crate) fn pause(&mut self) {
        // loom is to try every other thread, and knows no time.
        if cfg!(feature = "loom") {
            return yield_now();
        }
        self.0 = self.0.saturating_add(1);
        match self.0.checked_sub(Self::SPINS + Self::YIELDS) {
            None if self.0 < Self::SPINS => spin_loop(),
            None => yield_now(),
            Some(sleeps) => std::thread::sleep(Self::SHORTEST * (1 << sleeps.min(Self::DOUBLINGS))),
        }
    }
}

/// How whoever holds the only right to make room waits for others: they may be waiting for room themselves, so
/// `make_room` makes what it can each time, and says whether that was all.
pub(crate) fn make_room_until_done(
    mut make_room: impl FnMut() -> io::Result<bool>,
    alive: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let mut backoff = Backoff::default();
    while !make_room()? {
        alive()?;
        backoff.pause();
    }
    Ok(())
}
