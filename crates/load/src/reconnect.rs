//! Opens lost connections anew, where that was asked for.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::Arc;
use std::time::Duration;

use crate::control::Control;
use crate::dialer::{is_loss, Dialer};
use crate::handoff::Handoff;
use crate::session::Session;
use crate::Error;

/// Pauses between attempts: each twice as long as the last, up to the longest; the first attempt is made at
/// once, and one that succeeds begins anew.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often the stop is looked for in a pause.
const GLANCE: Duration = Duration::from_millis(10);

/// A session that lost its connection, and where it belongs.
pub(crate) struct Lost {
    pub index: usize,
    pub session: Session,
    pub handoff: Arc<Handoff>,
}

/// What to do about lost connections.
pub(crate) struct Reconnect {
    pub dialer: Arc<Dialer>,
    pub control: Arc<Control>,
    /// To the thread that opens them; none if they end the load.
    pub queue: Option<Sender<Lost>>,
}

impl Reconnect {
    /// Whether the load goes on after this error with another connection.
    pub fn may_reopen(&self, error: &Error) -> bool {
        self.queue.is_some() && !self.control.stops() && is_loss(error)
    }

    /// Has a session's connection opened by the thread that does so.
    pub fn send(&self, lost: Lost) {
        if let Some(queue) = &self.queue {
            // Its other end is gone only when the load stops.
            let _ = queue.send(lost);
        }
    }

    /// Opens a session's connection anew, however long it takes; not, if the load stops.
    ///
    /// # Errors
    /// Why no attempt will succeed.
    pub fn reopen(&self, session: &mut Session) -> Result<bool, Error> {
        let mut pause = FIRST_PAUSE;
        while !self.control.stops() {
            let opened = self
                .dialer
                .open()
                .and_then(|connection| session.renew(connection));
            match opened {
                Ok(()) => return Ok(true),
                Err(error) if is_loss(&error) => {}
                Err(error) => return Err(error.during("opening a lost connection anew")),
            }
            let mut left = pause;
            while !left.is_zero() && !self.control.stops() {
                std::thread::sleep(left.min(GLANCE));
                left = left.saturating_sub(GLANCE);
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        Ok(false)
    }

    /// Opens connections for polling threads, until none of them is left.
    ///
    /// # Errors
    /// Why no attempt will succeed.
    pub fn run(&self, lost: &Receiver<Lost>) -> Result<(), Error> {
        for Lost {
            index,
            mut session,
            handoff,
        } in lost
        {
            if !self.reopen(&mut session)? {
                break;
            }
            handoff.give(index, session);
        }
        Ok(())
    }
}
