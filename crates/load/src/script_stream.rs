//! A script that comes in pieces, run while the next pieces are read and split.
//!
//! For dumps: of any size, with statements to leave out. What is left out is the caller's to say.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use flushlab_protocol::packet::LARGEST;
use serde::Deserialize;

use crate::address::{Address, Transport};
use crate::connection::Connection;
use crate::dump::late_indexes::LateIndexes;
use crate::dump::queue::{DumpStatement, Place, SharedQueue, State, StreamProgress};
use crate::dump::rules::Rules;
use crate::dump::session::Session;
use crate::dump::workers::Workers;
use crate::endpoint::Endpoint;
use crate::script::{Modes, Source, Splitter};
use crate::spec::unreadable;
use crate::{Cancellation, Error};

/// Statements that wait for the server take at most this much, or one of them does.
const AHEAD_BYTES: usize = 32 << 20;

/// How long [`ScriptStream::wait`] waits before it looks up.
const PATIENCE: Duration = Duration::from_millis(200);

/// An index over a large table takes its time.
const LONGEST_STATEMENT: Duration = Duration::from_secs(7 * 86_400);

/// Where a script in pieces runs (`flushlab.record.StreamSpec`).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamJson {
    endpoint: Endpoint,
    /// The default database at the beginning.
    database: Option<String>,
    /// Beginnings of statements that are not run, as words in capitals.
    leave_out: Vec<String>,
    /// Databases of which nothing is run.
    leave_out_databases: Vec<String>,
    /// Words that are taken out of statements that set `sql_mode`.
    leave_out_modes: Vec<String>,
    /// Rows of a table before its indexes wait for the rest; they never do without.
    late_indexes_from_bytes: Option<usize>,
    /// At most, at once.
    connections: usize,
}

/// A script under way.
#[derive(Debug)]
pub struct ScriptStream {
    shared: Arc<SharedQueue>,
    cancellation: Arc<Cancellation>,
    worker: Option<JoinHandle<()>>,
    /// The script, and the files within files that are being read.
    parts: Vec<Part>,
    number: u64,
}

#[derive(Debug)]
struct Part {
    script: Pieces,
    /// Of [`State::files`].
    file: Option<usize>,
}

/// A script that comes in pieces, on its way through a splitter.
#[derive(Debug)]
pub(crate) struct Pieces {
    splitter: Splitter,
    pending: Vec<u8>,
    /// Not to be scanned again before so many bytes are there: the end of something long is missing.
    enough: usize,
    /// Bytes that may wait for the end of a statement.
    most: usize,
}

impl Pieces {
    pub fn new(splitter: Splitter) -> Self {
        Self {
            most: LARGEST,
            splitter,
            pending: Vec::new(),
            enough: 0,
        }
    }

    /// Takes the next piece, perhaps the last; `found` gets line and text of each statement. If another file is to
    /// be read, what stands behind that is scanned with the next piece.
    ///
    /// # Errors
    /// As [`Splitter::scan`]; [`crate::ErrorKind::Usage`] too for a statement that is longer than any server takes.
    pub fn feed(
        &mut self,
        piece: &[u8],
        last: bool,
        mut found: impl FnMut(u32, &[u8]),
    ) -> Result<Option<Source>, Error> {
        self.pending.extend_from_slice(piece);
        if !last && self.pending.len() < self.enough {
            return Ok(None);
        }
        let pending = &self.pending;
        let scanned = self.splitter.scan(pending, last, |line, from, to| {
            found(line, pending[from..to].trim_ascii_end());
        });
        let done = self.splitter.forget(&self.pending);
        self.pending.drain(..done);
        if self.pending.len() > self.most && matches!(scanned, Ok(None)) {
            let line = self.splitter.pending_line();
            let most = self.most;
            return Err(Error::usage(format!(
                "line {line}: no statement ends within {most} bytes behind it"
            ))
            .hint(
                "does a string end in a backslash there? set sql_mode to NO_BACKSLASH_ESCAPES in the script \
                     if it was written in that mode",
            ));
        }
        self.enough = match &scanned {
            Ok(Some(_)) => 0,
            _ => (self.pending.len() * 3 / 2).min(self.most),
        };
        scanned
    }
}

impl ScriptStream {
    /// Connects.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Usage`]: no spec; [`crate::ErrorKind::Server`]: no connection.
    pub fn open(spec: &[u8], cancellation: Arc<Cancellation>) -> Result<Self, Error> {
        let spec: StreamJson =
            serde_json::from_slice(spec).map_err(|error| Error::usage(unreadable(&error)))?;
        let transport = Transport {
            transport: "socket",
            ssl_mode: "disabled",
            ssl_ca: "",
        };
        let address = Address::of(&spec.endpoint, transport)?;
        let dial = {
            let (endpoint, cancellation) = (spec.endpoint, cancellation.clone());
            move |database: Option<&str>| {
                let mut connection = Connection::open(&endpoint, &address, database, &cancellation)?;
                connection.allow(LONGEST_STATEMENT)?;
                Ok(connection)
            }
        };
        let shared = Arc::new(SharedQueue::default());
        let mut session = Session {
            connection: dial(spec.database.as_deref())?,
            rules: Rules::new(&spec.leave_out, spec.leave_out_databases, spec.leave_out_modes),
            late_indexes: LateIndexes::new(spec.late_indexes_from_bytes),
            workers: Workers::new(
                shared.clone(),
                spec.connections.saturating_sub(1),
                Box::new(move || dial(None)),
            ),
            taken: None,
            building: Vec::new(),
            escapes: true,
            shared: shared.clone(),
        };
        // As MySQL's own client asks before it begins to split.
        let escapes = session.connection.query("DO 0")?.backslash_escapes();
        session.escapes = escapes;
        let worker = {
            let shared = shared.clone();
            std::thread::spawn(move || {
                if let Err(said) = catch_unwind(AssertUnwindSafe(|| session.work())) {
                    shared.lock().failed = Some(Error::panicked(&*said));
                    shared.changed.notify_all();
                }
            })
        };
        Ok(Self {
            shared,
            cancellation,
            worker: Some(worker),
            parts: vec![Part {
                script: Pieces::new(Splitter::of_client(b";").in_modes(Modes::new(escapes))),
                file: None,
            }],
            number: 0,
        })
    }

    /// Takes the next piece of the script, or of the file that was entered last; [`ScriptStream::wait`] says when
    /// there is room for more. What is returned names a file: enter it, feed it, and feed this one again. With its
    /// last piece a file that was entered is left.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Usage`]: something in the script does not end, or is no business of a server.
    pub fn feed(&mut self, piece: &[u8], last: bool) -> Result<Option<Source>, Error> {
        let nested = self.parts.len() > 1;
        let part = self.parts.last_mut().expect("the script itself is never left");
        let (number, file) = (&mut self.number, part.file);
        let (mut found, mut bytes) = (VecDeque::new(), 0);
        let fed = part.script.feed(piece, last, |line, sql| {
            *number += 1;
            bytes += sql.len();
            let number = *number;
            found.push_back(DumpStatement {
                place: Place { number, line, file },
                sql: sql.to_vec(),
            });
        });
        let left_out = std::mem::take(&mut part.script.splitter.left_out);
        if last && nested && matches!(fed, Ok(None)) {
            let ended = self.parts.pop().expect("it is nested");
            let outer = self.parts.last_mut().expect("the script itself is never left");
            let splitter = &mut outer.script.splitter;
            splitter.set_delimiter(ended.script.splitter.delimiter());
            splitter.modes = ended.script.splitter.modes;
        }
        let mut state = self.shared.lock();
        for command in left_out {
            *state.progress.left_out.entry(command).or_default() += 1;
        }
        state.waiting.append(&mut found);
        state.bytes += bytes;
        let fed = fed.map_err(|mut error| {
            if let Some(file) = file {
                error.message = format!("{}, {}", state.files[file], error.message);
            }
            error
        });
        drop(state);
        self.shared.changed.notify_all();
        fed
    }

    /// Goes on with a file that the script has read.
    pub fn enter(&mut self, name: String) {
        let outer = &self
            .parts
            .last()
            .expect("the script itself is never left")
            .script
            .splitter;
        let splitter = Splitter::of_client(outer.delimiter()).in_modes(outer.modes.clone());
        let script = Pieces::new(splitter);
        let mut state = self.shared.lock();
        state.files.push(name);
        let file = Some(state.files.len() - 1);
        drop(state);
        self.parts.push(Part { script, file });
    }

    /// The script is whole.
    ///
    /// # Errors
    /// As [`ScriptStream::feed`], and for a file that is to be read.
    pub fn end(&mut self) -> Result<(), Error> {
        let fed = self.feed(b"", true);
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        match fed? {
            None => Ok(()),
            Some(Source { line, name }) => Err(Error::usage(format!("line {line}: {name} is not read here"))),
        }
    }

    /// Waits a little while for room for the next piece, or with `all` for the last answer; whether it is so.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Server`] with number, line and beginning of the statement that the server refused.
    pub fn wait(&self, all: bool) -> Result<bool, Error> {
        let ready = |state: &State| match all {
            true => state.done,
            false => state.bytes < AHEAD_BYTES,
        };
        let waits = |state: &mut State| state.failed.is_none() && !ready(state);
        let mut state = self.shared.lock();
        self.shared.changed.wait_while_for(&mut state, waits, PATIENCE);
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(ready(&state)),
        }
    }

    /// What has been run.
    pub fn progress(&self) -> StreamProgress {
        self.shared.lock().progress.clone()
    }
}

impl Drop for ScriptStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let finished = state.done;
        state.waiting.clear();
        state.ended = true;
        drop(state);
        if !finished {
            self.cancellation.cancel();
        }
        self.shared.changed.notify_all();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join(); // what it had to say is in the shared state
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_statement_that_does_not_end_is_refused_before_it_takes_all_memory() {
        let mut pieces = Pieces::new(Splitter::of_client(b";"));
        pieces.most = 10_000;
        let mut found = 0;
        pieces
            .feed(b"SELECT 1;\nSELECT 'C:\\';\n", false, |_, _| found += 1)
            .unwrap();
        let refused = (0..100).find_map(|_| pieces.feed(&[b'x'; 1000], false, |_, _| found += 1).err());
        let error = refused.unwrap();
        assert_eq!((error.kind, found), (ErrorKind::Usage, 1));
        assert!(
            error
                .message
                .starts_with("line 2: no statement ends within 10000 bytes"),
            "{error}"
        );
        assert!(error.hint.unwrap().contains("NO_BACKSLASH_ESCAPES"));
        assert!(pieces.pending.len() < 12_000);
    }
}
