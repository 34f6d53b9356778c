use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock that events take, also after a thread has panicked under it: counts are then at worst short of one event.
/// Not parking_lot's: that one allocates when a thread waits for the first time.
#[inline]
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
