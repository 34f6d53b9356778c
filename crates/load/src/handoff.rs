//! What wakes a thread that waits in epoll, and the sessions that are handed to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::session::Session;
use crate::sync::locked;
use crate::{Error, ErrorKind};

/// Where others reach a polling thread: an event descriptor, and sessions whose connections were opened anew.
pub(crate) struct Handoff {
    event: EventFd,
    reopened: Mutex<Vec<(usize, Session)>>,
}

impl Handoff {
    /// An empty one.
    ///
    /// # Errors
    /// [`ErrorKind::Measurement`]: the system gives no descriptor.
    pub fn new() -> Result<Self, Error> {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let event = event.map_err(|error| {
            let error = io::Error::from(error);
            let message = format!("the system gives no event descriptor: {error}");
            Error::new(ErrorKind::Measurement, message)
        })?;
        Ok(Self {
            event,
            reopened: Mutex::default(),
        })
    }

    /// Makes the thread look at what has changed.
    pub fn wake(&self) {
        // It can only fail when the counter is full: then the thread is woken already.
        let _ = self.event.write(1);
    }

    /// Hands over a session that has a connection again.
    pub fn give(&self, index: usize, session: Session) {
        locked(&self.reopened).push((index, session));
        self.wake();
    }

    /// Takes the sessions that were handed over.
    pub fn take(&self) -> Vec<(usize, Session)> {
        std::mem::take(&mut *locked(&self.reopened))
    }
}

impl AsFd for Handoff {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
