//! The log lock as a combining lock (flat combining: Hendler, Incze, Shavit and Tzafrir, SPAA 2010): whoever finds
//! it free carries out what is ready, for all.
//!
//! Nobody waits for the lock to be carried out, and there is no writer thread. Who finds the lock taken may sleep:
//! its holder looks once more after giving it up, and wakes the owner of the first ready place if that one
//! sleeps; if it does not, it will look for itself before it does.

use std::io;
use std::ops::{Deref, DerefMut};

use crate::log_buffer::{LogBuffer, Place};
use crate::session::{Answer, Session};
use crate::sync::{fence, locked, yield_now, AtomicU64, Backoff, Mutex, MutexGuard, Ordering};

/// Bits of a place's tag that hold its owner; the rest is where its redo ends.
const OWNER_BITS: u32 = 9;
/// The highest of them says that the events are in the redo log too; there are at most 256 owners.
const IN_REDO: u64 = 1 << (OWNER_BITS - 1);

/// What a place's owner tells about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag {
    /// Up to here its redo must be persisted.
    pub(crate) lsn: u64,
    /// Whose place it is.
    pub(crate) owner: u32,
    /// Its events stand in the redo log too.
    pub(crate) in_redo: bool,
}

impl Tag {
    pub(crate) fn to_bits(self) -> u64 {
        let in_redo = if self.in_redo { IN_REDO } else { 0 };
        self.lsn << OWNER_BITS | in_redo | u64::from(self.owner)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self {
            lsn: bits >> OWNER_BITS,
            owner: (bits % IN_REDO) as u32,
            in_redo: bits & IN_REDO != 0,
        }
    }
}

/// How to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Give the processor to others once before carrying out: they may add to the group.
    pub(crate) lingers: bool,
    /// So often before sleeping; a thread that sleeps must be woken, which costs more.
    pub(crate) yields: u32,
    /// So many groups are carried out by one thread before another one's turn comes.
    pub(crate) rounds: u32,
}

/// The lock on `T`, which carrying out needs.
pub(crate) struct CombiningLock<T> {
    lock: Mutex<T>,
    pub(crate) buffer: LogBuffer,
    pub(crate) sessions: Box<[Session]>,
    /// Those who wait without sleeping, where there may be too many.
    yielding: AtomicU64,
}

/// So many wait without sleeping at most: more threads that may run would leave others no processor.
const MOST_YIELDING: usize = 64;

/// One who waits without sleeping.
pub(crate) struct Yielding<'a> {
    count: Option<&'a AtomicU64>,
    pub(crate) is_one_of_few: bool,
}

impl Drop for Yielding<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.count {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The lock while it is held.
pub(crate) struct Holder<'a, T> {
    lock: &'a CombiningLock<T>,
    guard: Option<MutexGuard<'a, T>>,
}

impl<T> Deref for Holder<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("the lock is held until it is dropped")
    }
}

impl<T> DerefMut for Holder<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("the lock is held until it is dropped")
    }
}

impl<T> Drop for Holder<'_, T> {
    fn drop(&mut self) {
        self.guard = None;
        // Either we see what was published by one who found the lock taken, or it finds it free: both
        // have a fence between the one and the other.
        fence(Ordering::SeqCst);
        if let Some(tag) = self.lock.buffer.first_ready() {
            self.lock.sessions[Tag::from_bits(tag).owner as usize].wake();
        }
    }
}

impl<T> CombiningLock<T> {
    pub(crate) fn new(state: T, buffer: LogBuffer, sessions: Box<[Session]>) -> Self {
        Self {
            lock: Mutex::new(state),
            buffer,
            sessions,
            yielding: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self) -> Holder<'_, T> {
        Holder {
            lock: self,
            guard: Some(locked(&self.lock)),
        }
    }

    pub(crate) fn try_lock(&self) -> Option<Holder<'_, T>> {
        let guard = self.lock.try_lock().ok()?;
        Some(Holder {
            lock: self,
            guard: Some(guard),
        })
    }

    /// Counts one who begins to wait; with few threads nothing needs to be counted.
    pub(crate) fn yielding(&self) -> Yielding<'_> {
        let count = (self.sessions.len() > MOST_YIELDING).then_some(&self.yielding);
        let before = count.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed));
        Yielding {
            count,
            is_one_of_few: before < MOST_YIELDING as u64,
        }
    }

    /// Carries out what is ready unless somebody is at it or nothing is; `false` if so.
    fn carry_out(&self, rounds: u32, work: &mut impl FnMut(&mut T) -> io::Result<()>) -> io::Result<bool> {
        fence(Ordering::SeqCst);
        if self.buffer.first_ready().is_none() {
            return Ok(false);
        }
        let Some(mut holder) = self.try_lock() else {
            return Ok(false);
        };
        for _ in 0..rounds {
            work(&mut holder)?;
            if self.buffer.first_ready().is_none() {
                break;
            }
        }
        Ok(true)
    }

    /// Waits until the buffer has room for a place; makes room by `work` while nobody else holds the lock.
    pub(crate) fn wait_for_room(
        &self,
        place: &Place,
        mut work: impl FnMut(&mut T) -> io::Result<()>,
        alive: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut backoff = Backoff::default();
        while !self.buffer.has_room(place) {
            if let Some(mut holder) = self.try_lock() {
                work(&mut holder)?;
            }
            alive()?;
            backoff.pause();
        }
        Ok(())
    }

    /// Waits for the answer to `me`; carries out by `work` whatever is ready while nobody else does.
    pub(crate) fn wait(
        &self,
        me: u32,
        patience: Patience,
        mut work: impl FnMut(&mut T) -> io::Result<()>,
        alive: impl Fn() -> io::Result<()>,
    ) -> io::Result<Answer> {
        let session = &self.sessions[me as usize];
        if patience.lingers {
            yield_now();
        }
        let yielding = self.yielding();
        for _ in 0..=if yielding.is_one_of_few {
            patience.yields
        } else {
            0
        } {
            if let Some(answer) = session.answer() {
                return Ok(answer);
            }
            if !self.carry_out(patience.rounds, &mut work)? {
                yield_now();
            }
        }
        drop(yielding);
        loop {
            alive()?;
            let answer = session.park_unless(|| self.carry_out(patience.rounds, &mut work))?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }
}
