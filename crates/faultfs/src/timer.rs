//! Answers that wait for their time, so that no handler sleeps.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

type Answer = Box<dyn FnOnce() + Send>;

struct Waiting {
    due: Instant,
    turn: u64,
    answer: Answer,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.turn).cmp(&(other.due, other.turn))
    }
}

#[derive(Default)]
struct Queue {
    waiting: BinaryHeap<Reverse<Waiting>>,
    turn: u64,
}

/// A thread that gives answers when they are due.
pub struct Timer(Arc<(Mutex<Queue>, Condvar)>);

impl Timer {
    /// Starts the thread, which ends with the process.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new((Mutex::<Queue>::default(), Condvar::new()));
        let own = shared.clone();
        thread::Builder::new().name("timer".to_owned()).spawn(move || {
            wake_exactly();
            run(&own.0, &own.1);
        })?;
        Ok(Self(shared))
    }

    /// Gives an answer at a time.
    pub fn at(&self, due: Instant, answer: impl FnOnce() + Send + 'static) {
        let mut queue = self.0 .0.lock();
        queue.turn += 1;
        let turn = queue.turn;
        queue.waiting.push(Reverse(Waiting {
            due,
            turn,
            answer: Box::new(answer),
        }));
        let is_next = queue
            .waiting
            .peek()
            .is_some_and(|Reverse(next)| next.turn == turn);
        drop(queue);
        if is_next {
            self.0 .1.notify_one();
        }
    }
}

fn run(queue: &Mutex<Queue>, more: &Condvar) {
    let mut guard = queue.lock();
    loop {
        let now = Instant::now();
        match guard.waiting.peek().map(|Reverse(next)| next.due) {
            None => more.wait(&mut guard),
            Some(due) if due > now => drop(more.wait_until(&mut guard, due)),
            Some(_) => {
                let Some(Reverse(next)) = guard.waiting.pop() else {
                    continue;
                };
                drop(guard);
                // One that panics is answered by its end, with an I/O error; the others still wait for theirs.
                let _ = catch_unwind(AssertUnwindSafe(next.answer));
                guard = queue.lock();
            }
        }
    }
}

/// The kernel may wake a thread 50 µs late to save power, prctl(2); not this one.
#[allow(unsafe_code)]
fn wake_exactly() {
    // SAFETY: it takes numbers alone.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
    }
}

/// This thread, and those that it starts, run before all others where the kernel lets them.
#[allow(unsafe_code)]
pub fn be_punctual() {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer lives as long as the call.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn an_answer_that_panics_does_not_keep_the_others_from_theirs() {
        let timer = Timer::start().unwrap();
        let (send, receive) = mpsc::channel();
        let now = Instant::now();
        timer.at(now, || panic!("an answer came undone"));
        timer.at(now + Duration::from_millis(5), move || send.send(()).unwrap());
        receive.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn answers_come_in_the_order_of_their_times_and_not_before() {
        let timer = Timer::start().unwrap();
        let (send, receive) = mpsc::channel();
        let begun = Instant::now();
        for ms in [30_u64, 10, 20, 0] {
            let send = send.clone();
            timer.at(begun + Duration::from_millis(ms), move || {
                send.send((ms, Instant::now())).unwrap()
            });
        }
        let answers: Vec<_> = (0..4).map(|_| receive.recv().unwrap()).collect();
        assert_eq!(
            answers.iter().map(|(ms, _)| *ms).collect::<Vec<_>>(),
            [0, 10, 20, 30]
        );
        assert!(answers
            .iter()
            .all(|(ms, at)| *at >= begun + Duration::from_millis(*ms)));
    }
}
