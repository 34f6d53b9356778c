//! Opens lost connections anew, where that was asked for.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::control::Control;
use crate::dialer::{is_loss, Dialer};
use crate::handoff::Handoff;
use crate::session::Session;
use crate::worker::guarded;
use crate::{Error, ErrorKind};

/// Pauses between attempts: each twice as long as the last, up to the longest; the first attempt is made at
/// once, and one that succeeds begins anew.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long the first attempt may take at each node. Each next attempt may take twice as long, up to the endpoint's
/// own limit: a dead node that answers nothing must not add its ten seconds to the time of a failover.
const FIRST_LIMIT: Duration = Duration::from_secs(1);
/// Connections that are opened at the same time; a thread each.
const MOST_AT_ONCE: usize = 256;

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
        let (mut pause, mut limit) = (FIRST_PAUSE, FIRST_LIMIT);
        while !self.control.stops() {
            let opened = self
                .dialer
                .open_within(limit)
                .and_then(|connection| session.renew(connection));
            match opened {
                Ok(()) => return Ok(true),
                Err(error) if is_loss(&error) => {}
                Err(error) => return Err(error.during("opening a lost connection anew")),
            }
            self.control.sleep(pause);
            limit = limit.saturating_mul(2);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        Ok(false)
    }

    /// Opens connections for polling threads side by side, until none of them is left. An error ends the load.
    pub fn run(&self, lost: &Receiver<Lost>) {
        let (give, free) = mpsc::channel();
        for _ in 0..MOST_AT_ONCE {
            let _ = give.send(());
        }
        thread::scope(|scope| {
            for one in lost {
                let _ = free.recv(); // this function keeps a sender
                let give = give.clone();
                let open = move || {
                    guarded(&self.control, || self.open(one));
                    let _ = give.send(());
                };
                let named = thread::Builder::new().name("load-reconnect".to_owned());
                if let Err(error) = named.spawn_scoped(scope, open) {
                    let message =
                        format!("the system gives no thread to open a lost connection anew: {error}");
                    self.control.fail(Error::new(ErrorKind::Measurement, message));
                }
            }
        });
    }

    fn open(&self, lost: Lost) -> Result<(), Error> {
        let Lost {
            index,
            mut session,
            handoff,
        } = lost;
        if self.reopen(&mut session)? {
            handoff.give(index, session);
        }
        Ok(())
    }
}
