//! What is known of a dump under way, shared by who splits it and the connections that run it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::Serialize;

use super::session_state::SessionState;
use crate::script::excerpt;
use crate::Error;

/// What has been run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamProgress {
    /// Statements that the server has answered, and those left out.
    pub statements: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Statements left out, by the rule that says so.
    pub left_out: BTreeMap<String, u64>,
    /// Statements, of the script and those that build indexes, that other connections than the first ran.
    pub beside: u64,
    /// Tables whose indexes are being built now.
    pub building: Vec<String>,
}

/// Where a statement stands in the script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Among the statements of all files.
    pub number: u64,
    /// Of its file.
    pub line: u32,
    /// Of [`State::files`]; none: the script itself.
    pub file: Option<usize>,
}

impl Place {
    pub const END: Self = Self {
        number: u64::MAX,
        line: 0,
        file: None,
    };
}

#[derive(Debug)]
pub(crate) struct DumpStatement {
    pub place: Place,
    pub sql: Vec<u8>,
}

/// What any connection may run whose session is set alike.
#[derive(Debug)]
pub(crate) struct Job {
    pub place: Place,
    pub sql: Vec<u8>,
    pub session: Arc<SessionState>,
    /// The table whose indexes it builds; else it is a statement of the script, rows of literals.
    pub builds: Option<String>,
}

/// What becomes of indexes that a worker is asked to build.
#[derive(Debug, Default)]
pub(crate) enum Offer {
    #[default]
    None,
    Open(Job),
    /// A worker sets its session alike.
    Looked,
    Accepted,
    Refused(Job),
}

/// Jobs, and who is at them.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Rows that any worker may take.
    pub rows: VecDeque<Job>,
    pub rows_running: usize,
    pub builds_running: usize,
    /// What met a lock of others of these: runs alone.
    pub again: Vec<Job>,
    pub offer: Offer,
    pub workers: usize,
    pub busy: usize,
    /// Of what failed, what stands first in the script.
    pub failed: Option<(u64, Error)>,
    pub closed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub waiting: VecDeque<DumpStatement>,
    /// Of those that wait, and of those under way.
    pub bytes: usize,
    pub ended: bool,
    /// The server has answered everything.
    pub done: bool,
    pub failed: Option<Error>,
    pub progress: StreamProgress,
    pub work: Work,
    /// Those that the script has read.
    pub files: Vec<String>,
}

impl State {
    /// The server's words as its own client prints them, behind where it said them.
    pub fn told(&self, mut error: Error, place: Place) -> Error {
        let Place { number, line, file } = place;
        let place = match (file, number) {
            (Some(file), _) => format!("line {line} of {}", self.files[file]),
            (None, u64::MAX) => "at the end".to_owned(),
            (None, number) => format!("statement {number} (line {line})"),
        };
        error.message = match (error.errno, &error.sqlstate) {
            (Some(errno), Some(sqlstate)) => {
                format!("{place}: ERROR {errno} ({sqlstate}): {}", error.message)
            }
            _ => format!("{place}: {}", error.message),
        };
        error
    }

    /// What does not run is what stands behind it.
    pub fn fail(&mut self, number: u64, error: Error) {
        let work = &mut self.work;
        if work.failed.as_ref().is_none_or(|(first, _)| number < *first) {
            work.failed = Some((number, error));
            work.rows.retain(|job| job.place.number < number);
        }
    }

    /// What runs alone, once nothing runs beside it, is not ahead of the server: the script goes on meanwhile.
    pub fn set_aside(&mut self, job: Job) {
        if job.builds.is_none() {
            self.bytes = self.bytes.saturating_sub(job.sql.len());
        }
        self.work.again.push(job);
    }

    /// The jobs that were set aside, but for those behind a statement that failed.
    pub fn take_again(&mut self) -> Vec<Job> {
        let mut again = std::mem::take(&mut self.work.again);
        if let Some((first, _)) = &self.work.failed {
            again.retain(|job| job.place.number < *first);
        }
        let rows = again.iter().filter(|job| job.builds.is_none());
        self.bytes += rows.map(|job| job.sql.len()).sum::<usize>();
        again
    }

    pub fn answered(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.progress.statements += 1;
        self.progress.bytes += bytes as u64;
    }
}

#[derive(Debug, Default)]
pub(crate) struct SharedQueue {
    state: Mutex<State>,
    /// For who feeds the script and who runs it.
    pub changed: Condvar,
    /// For the workers.
    pub offered: Condvar,
}

impl SharedQueue {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits on `changed`.
    pub fn wait_while(&self, condition: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        self.changed.wait_while(&mut state, condition);
        state
    }

    pub fn next(&self) -> Option<DumpStatement> {
        let mut state = self.wait_while(|state| state.waiting.is_empty() && !state.ended);
        state.waiting.pop_front()
    }

    pub fn answered(&self, bytes: usize, left_out: Vec<String>) {
        let mut state = self.lock();
        state.answered(bytes);
        for rule in left_out {
            *state.progress.left_out.entry(rule).or_default() += 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    pub fn failing(&self) -> bool {
        self.lock().work.failed.is_some()
    }

    pub fn fail(&self, place: Place, error: Error) {
        let mut state = self.lock();
        let told = state.told(error, place);
        state.fail(place.number, told);
    }

    /// Nothing is under way any more.
    pub fn conclude(&self) {
        let mut state = self.lock();
        state.failed = state.work.failed.take().map(|(_, error)| error);
        state.done = state.failed.is_none();
        state.ended = true;
        state.waiting.clear();
        drop(state);
        self.changed.notify_all();
    }
}

/// What the server said to a statement of the script, with its beginning.
pub(crate) fn quoting(mut error: Error, sql: &[u8]) -> Error {
    if error.errno.is_some() {
        error.message.push_str("\n  ");
        error.message.push_str(&excerpt(sql));
    }
    error
}
