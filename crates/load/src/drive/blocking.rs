//! One connection, one thread, a blocking socket: nothing is cheaper for a single connection.

use std::time::Instant;

use super::NAP;
use crate::lane::{Desk, Lane, Turn};
use crate::reconnect::Reopening;
use crate::schedule::Take;
use crate::sync::locked;
use crate::Error;

/// Runs events until it is told to stop.
///
/// # Errors
/// What ends the load.
pub(crate) fn run(mut lane: Lane, desk: Desk<'_>, reopening: &Reopening) -> Result<(), Error> {
    while !desk.shared.stops() {
        if let Err(error) = turn(&mut lane, desk) {
            if !reopening.may_reopen(&error) {
                return Err(error);
            }
            lane.lost(&error, desk);
            if !reopening.reopen(&mut lane)? {
                break;
            }
        }
    }
    Ok(())
}

/// One event with what it takes before and after it, or a nap.
fn turn(lane: &mut Lane, desk: Desk<'_>) -> Result<(), Error> {
    let now = Instant::now();
    let begun = match &desk.shared.schedule {
        None => lane.begin(now, now),
        Some(schedule) => {
            let next = match locked(schedule).take(now) {
                Take::Due(due) => {
                    let begun = lane.begin_due(due, now, desk)?;
                    return end(lane, begun, desk);
                }
                Take::Later(next) => Some(next),
                Take::Over => None,
            };
            let waiting = lane.wake(desk)?;
            end(lane, waiting, desk)?;
            nap(next.into_iter().chain(lane.commit_due()).min());
            return Ok(());
        }
    };
    end(lane, begun?, desk)
}

fn end(lane: &mut Lane, mut turn: Turn, desk: Desk<'_>) -> Result<(), Error> {
    loop {
        turn = match turn {
            Turn::Free => return Ok(()),
            Turn::Busy => lane.readable(desk)?,
            Turn::Thinking(until) => {
                while Instant::now() < until {
                    if desk.shared.stops() {
                        return Ok(());
                    }
                    nap(Some(until));
                }
                lane.wake(desk)?
            }
        }
    }
}

fn nap(until: Option<Instant>) {
    let left = until.map_or(NAP, |until| until.saturating_duration_since(Instant::now()));
    std::thread::sleep(left.min(NAP));
}
