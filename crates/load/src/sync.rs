use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock, also after a thread has panicked under it: counts are then at worst short of one event.
#[inline]
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
