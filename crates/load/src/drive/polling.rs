//! Many connections, one thread: epoll says whose answer has come.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::endpoint::READ_TIMEOUT;
use crate::handoff::Handoff;
use crate::reconnect::{Lost, Reconnect};
use crate::schedule::Take;
use crate::session::{Context, Session, Turn};
use crate::sync::locked;
use crate::{Error, ErrorKind};

/// How often overdue answers are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Most answers that are taken from epoll at once.
const MOST_EVENTS: usize = 256;

/// What epoll says when the timer rings, and when somebody wakes the thread; sessions have their index.
const TIMER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;

fn unable(what: &str, error: impl Into<io::Error>) -> Error {
    Error::new(ErrorKind::Measurement, format!("{what}: {}", error.into()))
}

/// A session of the thread, and what epoll watches for it.
struct Slot {
    /// None while its connection is opened anew.
    session: Option<Session>,
    /// It waits for room in the socket as well.
    writes: bool,
    /// When it is woken at the latest.
    wakes: Option<Instant>,
    free: bool,
    /// Bytes that its connection had moved when a sweep last found that it had moved some, and when that was.
    heard: (u64, Instant),
}

/// A thread that drives many connections.
pub(crate) struct Polling<'a> {
    context: Context<'a>,
    slots: Vec<Slot>,
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
    /// A pause was seen and is not over.
    paused: bool,
    handoff: Arc<Handoff>,
    reconnect: &'a Reconnect,
}

impl<'a> Polling<'a> {
    /// A thread for `sessions`, which do not block any more.
    ///
    /// # Errors
    /// [`ErrorKind::Measurement`]: the system does not give what it takes.
    pub fn new(
        sessions: Vec<Session>,
        context: Context<'a>,
        handoff: Arc<Handoff>,
        reconnect: &'a Reconnect,
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
        watch(epoll.add(&*handoff, EpollEvent::new(edge, WAKE)))?;
        let count = sessions.len();
        let mut polling = Self {
            context,
            slots: Vec::with_capacity(count),
            free: VecDeque::with_capacity(count),
            wakes: BinaryHeap::with_capacity(4 * count),
            epoll,
            timer,
            armed: None,
            quiet_until: None,
            swept: Instant::now(),
            paused: false,
            handoff,
            reconnect,
        };
        for (index, session) in sessions.into_iter().enumerate() {
            polling.slots.push(Slot {
                session: None,
                writes: false,
                wakes: None,
                free: false,
                heard: (0, Instant::now()),
            });
            polling.attach(index, session)?;
        }
        Ok(polling)
    }

    /// Takes a session whose connection is open, and free.
    fn attach(&mut self, index: usize, mut session: Session) -> Result<(), Error> {
        session.connection.set_nonblocking()?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, index as u64);
        self.epoll
            .add(&session.connection, event)
            .map_err(|error| unable("epoll", error))?;
        let slot = &mut self.slots[index];
        (slot.session, slot.writes, slot.free) = (Some(session), false, true);
        self.free.push_back(index);
        Ok(())
    }

    /// Runs events until it is told to stop.
    ///
    /// # Errors
    /// What ends the load.
    pub fn run(mut self) -> Result<(), Error> {
        let mut events = vec![EpollEvent::empty(); self.slots.len().min(MOST_EVENTS) + 2];
        loop {
            if self.context.control.stops() {
                if !self.is_busy() {
                    return Ok(());
                }
            } else {
                self.begin()?;
            }
            if self.paused && self.rests() {
                self.context.control.rest();
            }
            self.arm()?;
            let sweep = EpollTimeout::try_from(SWEEP).expect("a second is a timeout");
            let count = match self.epoll.wait(&mut events, sweep) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(error) => return Err(unable("epoll", error)),
            };
            let ours = events[..count].iter().filter(|event| event.data() >= WAKE);
            self.context.control.waits.add(count - ours.count());
            for event in &events[..count] {
                match event.data() {
                    TIMER => self.armed = None,
                    WAKE => self.woken()?,
                    index => self.serve(index as usize, event.events())?,
                }
            }
            self.wake()?;
            self.sweep()?;
        }
    }

    fn is_busy(&self) -> bool {
        let mut sessions = self.slots.iter().filter_map(|slot| slot.session.as_ref());
        sessions.any(|session| session.waits_since().is_some())
    }

    fn rests(&self) -> bool {
        let mut sessions = self.slots.iter().filter_map(|slot| slot.session.as_ref());
        sessions.all(Session::rests)
    }

    fn resume(&mut self) {
        self.paused = false;
        let now = Instant::now();
        for session in self.slots.iter_mut().filter_map(|slot| slot.session.as_mut()) {
            session.resumed(now);
        }
    }

    /// Begins what is due, as far as sessions are free.
    #[inline]
    fn begin(&mut self) -> Result<(), Error> {
        if self.context.control.pauses() {
            (self.paused, self.quiet_until) = (true, None);
            return Ok(());
        }
        if self.paused {
            self.resume();
        }
        let Some(schedule) = &self.context.control.schedule else {
            while let Some(index) = self.free.pop_front() {
                self.slots[index].free = false;
                self.act(index, |session, _| {
                    let now = Instant::now();
                    session.begin(now, now)
                })?;
            }
            return Ok(());
        };
        while let Some(&index) = self.free.front() {
            let now = Instant::now();
            if self.quiet_until.is_some_and(|until| now < until) {
                return Ok(());
            }
            let taken = locked(schedule).take(now);
            match taken {
                Take::Due(due) => {
                    self.free.pop_front();
                    self.slots[index].free = false;
                    self.act(index, |session, context| session.begin_due(due, now, context))?;
                }
                Take::Later(next) => {
                    self.quiet_until = Some(next);
                    return Ok(());
                }
                // As good as never; a window that opens wakes us.
                Take::Over => {
                    self.quiet_until = Some(now + READ_TIMEOUT);
                    return Ok(());
                }
            }
        }
        self.quiet_until = None;
        Ok(())
    }

    /// Lets a session do something and notes what it then waits for.
    #[inline]
    fn act(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Session, Context<'_>) -> Result<Turn, Error>,
    ) -> Result<(), Error> {
        let slot = &mut self.slots[index];
        let Some(session) = &mut slot.session else {
            return Ok(());
        };
        let turn = act(session, self.context);
        let wakes = match turn {
            Ok(Turn::Busy) => None,
            Ok(Turn::Thinking(until)) => Some(until),
            Ok(Turn::Free) => session.commit_due(),
            Err(error) => return self.lose(index, error),
        };
        let frees = turn == Ok(Turn::Free);
        if frees && !slot.free {
            self.free.push_back(index);
        } else if !frees && slot.free {
            // Its event, or a commit: it is free again after that.
            self.free.retain(|&other| other != index);
        }
        slot.free = frees;
        if let Some(until) = wakes {
            if slot.wakes.is_none_or(|wakes| until < wakes) {
                slot.wakes = Some(until);
                self.wakes.push(Reverse((until, index)));
            }
        }
        // A statement that is thought about lies in the buffer, and must stay there until its time.
        let thinks = matches!(turn, Ok(Turn::Thinking(_)));
        let writes = !thinks && session.connection.wants_write();
        if writes != slot.writes {
            slot.writes = writes;
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, writes);
            self.epoll
                .modify(&session.connection, &mut EpollEvent::new(flags, index as u64))
                .map_err(|error| unable("epoll", error))?;
        }
        Ok(())
    }

    /// A session's connection is gone, or the load ends here.
    fn lose(&mut self, index: usize, error: Error) -> Result<(), Error> {
        if !self.reconnect.may_reopen(&error) {
            return Err(error);
        }
        let slot = &mut self.slots[index];
        if slot.free {
            self.free.retain(|&other| other != index);
            slot.free = false;
        }
        if let Some(mut session) = slot.session.take() {
            // Its descriptor leaves epoll when it is closed, but that is later.
            let _ = self.epoll.delete(&session.connection);
            session.lost(&error, self.context);
            self.reconnect.send(Lost {
                index,
                session,
                handoff: self.handoff.clone(),
            });
        }
        Ok(())
    }

    #[inline]
    fn serve(&mut self, index: usize, flags: EpollFlags) -> Result<(), Error> {
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.act(index, |session, _| session.writable())?;
        }
        if flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            self.act(index, Session::readable)?;
            if !self.context.control.stops() {
                self.begin()?;
            }
        }
        Ok(())
    }

    /// A window has ended or begun, a pause too, sessions have come back, or it is time to stop.
    fn woken(&mut self) -> Result<(), Error> {
        self.quiet_until = None;
        let reopened = self.handoff.take();
        for (index, session) in reopened {
            self.attach(index, session)?;
        }
        if self.context.control.settles() || self.context.control.pauses() {
            for index in 0..self.slots.len() {
                if self.slots[index].free {
                    self.act(index, Session::wake)?;
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

    /// Wakes sessions whose time has come.
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
            let slot = &mut self.slots[index];
            if slot.wakes == Some(at) {
                slot.wakes = None;
                self.act(index, Session::wake)?;
            }
        }
        Ok(())
    }

    /// Looks for servers that owe an answer and have been silent for too long.
    fn sweep(&mut self) -> Result<(), Error> {
        if self.swept.elapsed() < SWEEP {
            return Ok(());
        }
        let now = Instant::now();
        self.swept = now;
        for index in 0..self.slots.len() {
            let Slot { session, heard, .. } = &mut self.slots[index];
            let Some(session) = session else { continue };
            let Some(sent) = session.waits_since() else {
                continue;
            };
            let (moved, patience) = (session.connection.moved(), session.connection.patience());
            if moved != heard.0 {
                *heard = (moved, now);
            }
            if now.saturating_duration_since(sent.max(heard.1)) > patience {
                self.act(index, |session, _| Err(session.connection.timed_out()))?;
            }
        }
        Ok(())
    }
}
