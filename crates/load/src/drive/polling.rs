//! Many connections, one thread: epoll says whose answer has come.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::connection::READ_TIMEOUT;
use crate::lane::{Desk, Lane, Turn};
use crate::reconnect::{Lost, Reopening};
use crate::schedule::Take;
use crate::sync::locked;
use crate::{Error, Kind};

/// How often overdue answers are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Most answers that are taken from epoll at once.
const MOST_EVENTS: usize = 256;

/// What epoll says when the timer rings, and when somebody knocks; lanes have their index.
const TIMER: u64 = u64::MAX;
const KNOCK: u64 = u64::MAX - 1;

fn unable(what: &str, error: impl Into<io::Error>) -> Error {
    Error::new(Kind::Measurement, format!("{what}: {}", error.into()))
}

/// Where others reach a polling thread.
#[derive(Debug)]
pub(crate) struct Mailbox {
    bell: EventFd,
    reopened: Mutex<Vec<(usize, Lane)>>,
}

impl Mailbox {
    pub fn new() -> Result<Self, Error> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = EventFd::from_value_and_flags(0, flags);
        Ok(Self {
            bell: bell.map_err(|error| unable("the system gives no event descriptor", error))?,
            reopened: Mutex::default(),
        })
    }

    /// Makes the thread look at what has changed.
    pub fn knock(&self) {
        // It can only fail when it rings already.
        let _ = self.bell.write(1);
    }

    /// Gives a lane back.
    pub fn give_back(&self, index: usize, lane: Lane) {
        locked(&self.reopened).push((index, lane));
        self.knock();
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").finish_non_exhaustive()
    }
}

/// A lane's place in the thread.
struct Seat {
    /// None while its connection is opened anew.
    lane: Option<Lane>,
    /// It waits for room in the socket as well.
    writes: bool,
    /// When it is woken at the latest.
    wakes: Option<Instant>,
    free: bool,
}

/// A thread that drives many connections.
pub(crate) struct Polling<'a> {
    desk: Desk<'a>,
    seats: Vec<Seat>,
    /// Whose next event may begin, the longest free first.
    free: VecDeque<usize>,
    wakes: BinaryHeap<Reverse<(Instant, usize)>>,
    epoll: Epoll,
    timer: TimerFd,
    /// When the timer rings.
    armed: Option<Instant>,
    /// Nothing is due before.
    quiet_until: Option<Instant>,
    swept: Instant,
    mailbox: Arc<Mailbox>,
    reopening: &'a Reopening,
}

impl<'a> Polling<'a> {
    /// A thread for `lanes`, which do not block any more.
    ///
    /// # Errors
    /// [`Kind::Measurement`]: the system does not give what it takes.
    pub fn new(
        lanes: Vec<Lane>,
        desk: Desk<'a>,
        mailbox: Arc<Mailbox>,
        reopening: &'a Reopening,
    ) -> Result<Self, Error> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|error| unable("the system gives no epoll descriptor", error))?;
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
        )
        .map_err(|error| unable("the system gives no timer", error))?;
        // Edges: neither needs to be read.
        let edge = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        let watch = |result: nix::Result<()>| result.map_err(|error| unable("epoll", error));
        watch(epoll.add(&timer, EpollEvent::new(edge, TIMER)))?;
        watch(epoll.add(&mailbox.bell, EpollEvent::new(edge, KNOCK)))?;
        let count = lanes.len();
        let mut polling = Self {
            desk,
            seats: Vec::with_capacity(count),
            free: VecDeque::with_capacity(count),
            wakes: BinaryHeap::with_capacity(4 * count),
            epoll,
            timer,
            armed: None,
            quiet_until: None,
            swept: Instant::now(),
            mailbox,
            reopening,
        };
        for (index, lane) in lanes.into_iter().enumerate() {
            polling.seats.push(Seat {
                lane: None,
                writes: false,
                wakes: None,
                free: false,
            });
            polling.seat(index, lane)?;
        }
        Ok(polling)
    }

    /// Takes a lane whose connection is open, and free.
    fn seat(&mut self, index: usize, mut lane: Lane) -> Result<(), Error> {
        lane.connection.set_nonblocking()?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, index as u64);
        self.epoll
            .add(&lane.connection, event)
            .map_err(|error| unable("epoll", error))?;
        let seat = &mut self.seats[index];
        (seat.lane, seat.writes, seat.free) = (Some(lane), false, true);
        self.free.push_back(index);
        Ok(())
    }

    /// Runs events until it is told to stop.
    ///
    /// # Errors
    /// What ends the load.
    pub fn run(mut self) -> Result<(), Error> {
        let mut events = vec![EpollEvent::empty(); self.seats.len().min(MOST_EVENTS) + 2];
        loop {
            if self.desk.shared.stops() {
                if !self.is_busy() {
                    return Ok(());
                }
            } else {
                self.begin()?;
            }
            self.arm()?;
            let sweep = EpollTimeout::try_from(SWEEP).expect("a second is a timeout");
            let count = match self.epoll.wait(&mut events, sweep) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(error) => return Err(unable("epoll", error)),
            };
            for event in &events[..count] {
                match event.data() {
                    TIMER => self.armed = None,
                    KNOCK => self.answer_door()?,
                    index => self.serve(index as usize, event.events())?,
                }
            }
            self.wake()?;
            self.sweep()?;
        }
    }

    fn is_busy(&self) -> bool {
        let mut lanes = self.seats.iter().filter_map(|seat| seat.lane.as_ref());
        lanes.any(|lane| lane.waits_since().is_some())
    }

    /// Begins what is due, as far as lanes are free.
    #[inline]
    fn begin(&mut self) -> Result<(), Error> {
        let Some(schedule) = &self.desk.shared.schedule else {
            while let Some(index) = self.free.pop_front() {
                self.seats[index].free = false;
                self.act(index, |lane, _| {
                    let now = Instant::now();
                    lane.begin(now, now)
                })?;
            }
            return Ok(());
        };
        while let Some(&index) = self.free.front() {
            let now = Instant::now();
            if self.quiet_until.is_some_and(|until| now < until) {
                return Ok(());
            }
            match locked(schedule).take(now) {
                Take::Due(due) => {
                    self.free.pop_front();
                    self.seats[index].free = false;
                    self.act(index, |lane, desk| lane.begin_due(due, now, desk))?;
                }
                Take::Later(next) => {
                    self.quiet_until = Some(next);
                    return Ok(());
                }
                // As good as never; a window that opens knocks.
                Take::Over => {
                    self.quiet_until = Some(now + READ_TIMEOUT);
                    return Ok(());
                }
            }
        }
        self.quiet_until = None;
        Ok(())
    }

    /// Lets a lane do something and notes what it then waits for.
    #[inline]
    fn act(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Lane, Desk<'_>) -> Result<Turn, Error>,
    ) -> Result<(), Error> {
        let seat = &mut self.seats[index];
        let Some(lane) = &mut seat.lane else { return Ok(()) };
        let turn = act(lane, self.desk);
        let wakes = match turn {
            Ok(Turn::Busy) => None,
            Ok(Turn::Thinking(until)) => Some(until),
            Ok(Turn::Free) => lane.commit_due(),
            Err(error) => return self.lose(index, error),
        };
        let frees = turn == Ok(Turn::Free);
        if frees && !seat.free {
            self.free.push_back(index);
        } else if !frees && seat.free {
            // Its event, or a commit: it is free again after that.
            self.free.retain(|&other| other != index);
        }
        seat.free = frees;
        if let Some(until) = wakes {
            if seat.wakes.is_none_or(|wakes| until < wakes) {
                seat.wakes = Some(until);
                self.wakes.push(Reverse((until, index)));
            }
        }
        // A statement that is thought about lies in the buffer, and must stay there until its time.
        let thinks = matches!(turn, Ok(Turn::Thinking(_)));
        let writes = !thinks && lane.connection.wants_write();
        if writes != seat.writes {
            seat.writes = writes;
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, writes);
            self.epoll
                .modify(&lane.connection, &mut EpollEvent::new(flags, index as u64))
                .map_err(|error| unable("epoll", error))?;
        }
        Ok(())
    }

    /// A lane's connection is gone, or the load ends here.
    fn lose(&mut self, index: usize, error: Error) -> Result<(), Error> {
        if !self.reopening.may_reopen(&error) {
            return Err(error);
        }
        let seat = &mut self.seats[index];
        if seat.free {
            self.free.retain(|&other| other != index);
            seat.free = false;
        }
        if let Some(mut lane) = seat.lane.take() {
            // Its descriptor leaves epoll when it is closed, but that is later.
            let _ = self.epoll.delete(&lane.connection);
            lane.lost(&error, self.desk);
            self.reopening.send(Lost {
                index,
                lane,
                mailbox: self.mailbox.clone(),
            });
        }
        Ok(())
    }

    #[inline]
    fn serve(&mut self, index: usize, flags: EpollFlags) -> Result<(), Error> {
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.act(index, |lane, _| lane.writable())?;
        }
        if flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            self.act(index, Lane::readable)?;
            if !self.desk.shared.stops() {
                self.begin()?;
            }
        }
        Ok(())
    }

    /// A window has ended or begun, lanes have come back, or it is time to stop.
    fn answer_door(&mut self) -> Result<(), Error> {
        self.quiet_until = None;
        let reopened = std::mem::take(&mut *locked(&self.mailbox.reopened));
        for (index, lane) in reopened {
            self.seat(index, lane)?;
        }
        if self.desk.shared.settles() {
            for index in 0..self.seats.len() {
                if self.seats[index].free {
                    self.act(index, Lane::wake)?;
                }
            }
        }
        Ok(())
    }

    /// Sets the timer to what comes first.
    fn arm(&mut self) -> Result<(), Error> {
        let due = self.quiet_until.filter(|_| !self.free.is_empty());
        let wakes = self.wakes.peek().map(|Reverse((at, _))| *at);
        let first = due.into_iter().chain(wakes).min();
        if first.is_none() || first == self.armed {
            return Ok(());
        }
        self.armed = first;
        let left = first.map_or(SWEEP, |at| at.saturating_duration_since(Instant::now()));
        let once = Expiration::OneShot(TimeSpec::from_duration(left.max(Duration::from_nanos(1))));
        self.timer
            .set(once, TimerSetTimeFlags::empty())
            .map_err(|error| unable("the timer", error))
    }

    /// Wakes lanes whose time has come.
    fn wake(&mut self) -> Result<(), Error> {
        if self.wakes.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        while let Some(&Reverse((at, index))) = self.wakes.peek() {
            if at > now {
                return Ok(());
            }
            self.wakes.pop();
            let seat = &mut self.seats[index];
            if seat.wakes == Some(at) {
                seat.wakes = None;
                self.act(index, Lane::wake)?;
            }
        }
        Ok(())
    }

    /// Looks for servers that owe an answer for too long.
    fn sweep(&mut self) -> Result<(), Error> {
        if self.swept.elapsed() < SWEEP {
            return Ok(());
        }
        self.swept = Instant::now();
        for index in 0..self.seats.len() {
            let waits_since = self.seats[index].lane.as_ref().and_then(Lane::waits_since);
            if waits_since.is_some_and(|since| since.elapsed() > READ_TIMEOUT) {
                self.act(index, |lane, _| Err(lane.connection.timed_out()))?;
            }
        }
        Ok(())
    }
}
