//! One connection, one thread, a blocking socket: nothing is cheaper for a single connection.

use std::time::{Duration, Instant};

use crate::reconnect::Reconnect;
use crate::schedule::Take;
use crate::session::{Context, Session, Turn};
use crate::sync::locked;
use crate::Error;

/// Longest wait without a look at what has changed.
const NAP: Duration = Duration::from_millis(100);

/// Runs events until it is told to stop.
///
/// # Errors
/// What ends the load.
pub(crate) fn run(mut session: Session, context: Context<'_>, reconnect: &Reconnect) -> Result<(), Error> {
    while !context.control.stops() {
        if context.control.pauses() && session.rests() {
            rest(&mut session, context);
            continue;
        }
        if let Err(error) = turn(&mut session, context) {
            if !reconnect.may_reopen(&error) {
                return Err(error);
            }
            session.lost(&error, context);
            if !reconnect.reopen(&mut session)? {
                break;
            }
        }
    }
    Ok(())
}

/// Waits for the end of a pause, which unparks the thread.
fn rest(session: &mut Session, context: Context<'_>) {
    while context.control.pauses() && !context.control.stops() {
        context.control.rest();
        std::thread::park_timeout(NAP);
    }
    session.resumed(Instant::now());
}

/// One event with what it takes before and after it, or a nap.
fn turn(session: &mut Session, context: Context<'_>) -> Result<(), Error> {
    let now = Instant::now();
    if context.control.pauses() {
        let committing = session.wake(context)?;
        return end(session, committing, context);
    }
    let begun = match &context.control.schedule {
        None => session.begin(now, now),
        Some(schedule) => {
            let taken = locked(schedule).take(now);
            let next = match taken {
                Take::Due(due) => {
                    let begun = session.begin_due(due, now, context)?;
                    return end(session, begun, context);
                }
                Take::Later(next) => Some(next),
                Take::Over => None,
            };
            let waiting = session.wake(context)?;
            end(session, waiting, context)?;
            nap(next.into_iter().chain(session.commit_due()).min());
            return Ok(());
        }
    };
    end(session, begun?, context)
}

fn end(session: &mut Session, mut turn: Turn, context: Context<'_>) -> Result<(), Error> {
    loop {
        turn = match turn {
            Turn::Free => return Ok(()),
            Turn::Busy => session.readable(context)?,
            Turn::Thinking(until) => {
                while Instant::now() < until {
                    if context.control.stops() {
                        return Ok(());
                    }
                    nap(Some(until));
                }
                session.wake(context)?
            }
        }
    }
}

fn nap(until: Option<Instant>) {
    let left = until.map_or(NAP, |until| until.saturating_duration_since(Instant::now()));
    std::thread::park_timeout(left.min(NAP));
}
