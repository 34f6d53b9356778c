//! A script that comes in pieces, run on one connection while the next pieces are read and split.
//!
//! For dumps: of any size, with statements to leave out. What is left out is the caller's to say.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::address::{Address, Transport};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::late_indexes::LateIndexes;
use crate::script::{excerpt, words, Splitter};
use crate::spec::unreadable;
use crate::{Cutoff, Error};

/// Statements that wait for the server take at most this much, or one of them does.
const AHEAD_BYTES: usize = 32 << 20;

/// How long [`ScriptStream::wait`] waits before it looks up.
const PATIENCE: Duration = Duration::from_millis(200);

/// An index over a large table takes its time.
const LONGEST_STATEMENT: Duration = Duration::from_secs(7 * 86_400);

/// Words at a statement's beginning that rules look at.
const RULE_WORDS: usize = 4;

/// Where a script in pieces runs (`flushlab.record.StreamSpec`).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
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
}

/// What has been run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamProgress {
    /// Statements that the server has answered, and those left out.
    pub statements: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Statements left out, by the rule that says so.
    pub left_out: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    line: u32,
    sql: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Of those that wait, and of the one under way.
    bytes: usize,
    ended: bool,
    /// The server has answered everything.
    done: bool,
    failed: Option<Error>,
    progress: StreamProgress,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A script under way.
#[derive(Debug)]
pub struct ScriptStream {
    shared: Arc<Shared>,
    cutoff: Arc<Cutoff>,
    worker: Option<JoinHandle<()>>,
    splitter: Splitter,
    pending: Vec<u8>,
    /// Not to be scanned again before so many bytes are there: the end of something long is missing.
    enough: usize,
    number: u64,
}

impl ScriptStream {
    /// Connects.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`]: no spec; [`crate::Kind::Server`]: no connection.
    pub fn open(spec: &[u8], cutoff: Arc<Cutoff>) -> Result<Self, Error> {
        let spec: Json = serde_json::from_slice(spec).map_err(|error| Error::usage(unreadable(&error)))?;
        let transport = Transport {
            transport: "socket",
            ssl_mode: "disabled",
            ssl_ca: "",
        };
        let address = Address::of(&spec.endpoint, transport)?;
        let connection = Connection::open(&spec.endpoint, &address, spec.database.as_deref(), &cutoff)?;
        connection.allow(LONGEST_STATEMENT)?;
        let shared = Arc::new(Shared::default());
        let worker = {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let mut session = Session {
                    connection,
                    late_indexes: LateIndexes::new(spec.late_indexes_from_bytes),
                    rules: Rules::of(spec),
                    outside: false,
                };
                let working = AssertUnwindSafe(|| work(&shared, &mut session));
                if let Err(said) = catch_unwind(working) {
                    shared.lock().failed = Some(Error::panicked(&*said));
                    shared.changed.notify_all();
                }
            })
        };
        Ok(Self {
            shared,
            cutoff,
            worker: Some(worker),
            splitter: Splitter::new(),
            pending: Vec::new(),
            enough: 0,
            number: 0,
        })
    }

    /// Takes the next piece of the script; [`ScriptStream::wait`] says when there is room for more.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`]: something in the script does not end.
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.pending.extend_from_slice(piece);
        if self.pending.len() < self.enough {
            return Ok(());
        }
        self.split(false)
    }

    /// The script is whole.
    ///
    /// # Errors
    /// As [`ScriptStream::feed`].
    pub fn end(&mut self) -> Result<(), Error> {
        let split = self.split(true);
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        split
    }

    /// Waits a little while for room for the next piece, or with `all` for the last answer; whether it is so.
    ///
    /// # Errors
    /// [`crate::Kind::Server`] with number, line and beginning of the statement that the server refused.
    pub fn wait(&self, all: bool) -> Result<bool, Error> {
        let ready = |state: &State| match all {
            true => state.done,
            false => state.bytes < AHEAD_BYTES,
        };
        let state = self.shared.lock();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, PATIENCE, |state| state.failed.is_none() && !ready(state))
            .unwrap_or_else(PoisonError::into_inner);
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(ready(&state)),
        }
    }

    /// What has been run.
    pub fn progress(&self) -> StreamProgress {
        self.shared.lock().progress.clone()
    }

    fn split(&mut self, whole: bool) -> Result<(), Error> {
        let (pending, number) = (&self.pending, &mut self.number);
        let (mut found, mut bytes) = (VecDeque::new(), 0);
        let split = self.splitter.scan(pending, whole, |line, from, to| {
            *number += 1;
            let sql = pending[from..to].trim_ascii_end().to_vec();
            bytes += sql.len();
            found.push_back(Waiting {
                number: *number,
                line,
                sql,
            });
        });
        let done = self.splitter.forget(&self.pending);
        self.pending.drain(..done);
        self.enough = self.pending.len() * 3 / 2;
        if !found.is_empty() {
            let mut state = self.shared.lock();
            state.waiting.append(&mut found);
            state.bytes += bytes;
            drop(state);
            self.shared.changed.notify_all();
        }
        split
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
            self.cutoff.fire();
        }
        self.shared.changed.notify_all();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join(); // what it had to say is in the shared state
        }
    }
}

/// Runs statements until the script ends or one fails; each is tried once.
fn work(shared: &Shared, session: &mut Session) {
    loop {
        let state = shared.lock();
        let mut state = shared
            .changed
            .wait_while(state, |state| state.waiting.is_empty() && !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        let Some(statement) = state.waiting.pop_front() else {
            drop(state);
            let outcome = session.late_indexes.give_back(&mut session.connection);
            let mut state = shared.lock();
            state.done = outcome.is_ok();
            state.failed = outcome.err().map(|error| told(error, "at the end"));
            drop(state);
            shared.changed.notify_all();
            return;
        };
        drop(state);
        let outcome = session.run(&statement.sql);
        let mut state = shared.lock();
        state.bytes = state.bytes.saturating_sub(statement.sql.len());
        match outcome {
            Ok(left_out) => {
                state.progress.statements += 1;
                state.progress.bytes += statement.sql.len() as u64;
                if let Some(rule) = left_out {
                    *state.progress.left_out.entry(rule).or_default() += 1;
                }
            }
            Err(error) => {
                let at = format!("statement {} (line {})", statement.number, statement.line);
                let mut error = told(error, &at);
                if error.errno.is_some() {
                    error.message.push_str("\n  ");
                    error.message.push_str(&excerpt(&statement.sql));
                }
                state.failed = Some(error);
                state.waiting.clear();
                state.ended = true;
            }
        }
        let over = state.failed.is_some();
        drop(state);
        shared.changed.notify_all();
        if over {
            return;
        }
    }
}

/// The server's words as its own client prints them, behind where it said them.
fn told(mut error: Error, at: &str) -> Error {
    error.message = match (error.errno, &error.sqlstate) {
        (Some(errno), Some(sqlstate)) => format!("{at}: ERROR {errno} ({sqlstate}): {}", error.message),
        _ => format!("{at}: {}", error.message),
    };
    error
}

struct Session {
    connection: Connection,
    late_indexes: LateIndexes,
    rules: Rules,
    /// The current database is one of which nothing is run.
    outside: bool,
}

impl Session {
    /// Runs a statement, or says which rule leaves it out.
    fn run(&mut self, sql: &[u8]) -> Result<Option<String>, Error> {
        let beginning: Vec<String> = words(sql).take(RULE_WORDS).collect();
        let word = |at: usize| beginning.get(at).map_or("", String::as_str);
        if let Some(rule) = self.rules.leaves_out(&beginning) {
            return Ok(Some(rule.to_owned()));
        }
        let databases = matches!(word(1), "DATABASE" | "SCHEMA");
        if word(0) == "USE" || databases {
            let outside = self.rules.outside(sql);
            if word(0) == "USE" {
                self.outside = outside.is_some();
            }
            if let Some(name) = outside {
                return Ok(Some(format!("database {name}")));
            }
        } else if self.outside && word(0) != "SET" {
            return Ok(Some("statements in them".to_owned()));
        }
        let changed = match word(0) {
            "SET" => self.rules.without_modes(sql),
            _ => None,
        };
        self.late_indexes.before(&mut self.connection, sql)?;
        self.connection.query_bytes(changed.as_deref().unwrap_or(sql))?;
        Ok(changed.map(|_| "sql_mode".to_owned()))
    }
}

struct Rules {
    leave_out: Vec<(String, Vec<String>)>,
    databases: Vec<String>,
    modes: Vec<String>,
}

impl Rules {
    fn of(spec: Json) -> Self {
        let words = |rule: &String| rule.split(' ').map(str::to_owned).collect();
        Self {
            leave_out: spec
                .leave_out
                .iter()
                .map(|rule| (rule.clone(), words(rule)))
                .collect(),
            databases: spec.leave_out_databases,
            modes: spec.leave_out_modes,
        }
    }

    fn leaves_out(&self, beginning: &[String]) -> Option<&str> {
        let found = self
            .leave_out
            .iter()
            .find(|(_, words)| beginning.starts_with(words));
        found.map(|(rule, _)| rule.as_str())
    }

    /// The database that a USE or CREATE DATABASE names, if nothing of it is run.
    fn outside(&self, sql: &[u8]) -> Option<&str> {
        const WORDS: [&str; 9] = [
            "USE", "CREATE", "ALTER", "DROP", "DATABASE", "SCHEMA", "IF", "NOT", "EXISTS",
        ];
        let text = String::from_utf8_lossy(sql);
        let quoted = text.split('`').nth(1);
        let name = quoted.or_else(|| {
            let mut words = text.split(|byte: char| !(byte.is_alphanumeric() || "_-$!".contains(byte)));
            words.find(|word| {
                let known = WORDS.iter().any(|known| known.eq_ignore_ascii_case(word));
                !known && !word.is_empty() && !word.starts_with('!')
            })
        })?;
        let found = self
            .databases
            .iter()
            .find(|known| known.eq_ignore_ascii_case(name));
        found.map(String::as_str)
    }

    /// A statement that sets `sql_mode` without the modes to leave out, if it has one.
    fn without_modes(&self, sql: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(sql).ok()?;
        if self.modes.is_empty() || !text.to_ascii_lowercase().contains("sql_mode") {
            return None;
        }
        let pieces = text.split_inclusive([',', '\'', '"']);
        let mut kept = String::new();
        let mut changed = false;
        for piece in pieces {
            let bare = piece.trim_end_matches([',', '\'', '"']);
            if self.modes.iter().any(|mode| mode == bare) {
                changed = true;
                if !piece.ends_with(',') {
                    kept.truncate(kept.trim_end_matches(',').len());
                    kept.push_str(&piece[bare.len()..]);
                }
            } else {
                kept.push_str(piece);
            }
        }
        changed.then(|| kept.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules {
            leave_out: vec![("SET GLOBAL".into(), vec!["SET".into(), "GLOBAL".into()])],
            databases: vec!["mysql".into()],
            modes: vec!["NO_AUTO_CREATE_USER".into(), "ORACLE".into()],
        }
    }

    fn mended(sql: &str) -> Option<String> {
        rules()
            .without_modes(sql.as_bytes())
            .map(|sql| String::from_utf8(sql).unwrap())
    }

    #[test]
    fn modes_that_the_server_lacks_are_taken_out_wherever_they_stand() {
        assert_eq!(
            mended("SET sql_mode = 'A,NO_AUTO_CREATE_USER,B'").unwrap(),
            "SET sql_mode = 'A,B'"
        );
        assert_eq!(
            mended("SET sql_mode = 'A,NO_AUTO_CREATE_USER'").unwrap(),
            "SET sql_mode = 'A'"
        );
        assert_eq!(
            mended("SET SQL_MODE='NO_AUTO_CREATE_USER'").unwrap(),
            "SET SQL_MODE=''"
        );
        assert_eq!(
            mended("SET sql_mode='ORACLE,NO_AUTO_CREATE_USER'").unwrap(),
            "SET sql_mode=''"
        );
        assert_eq!(mended("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"), None);
        assert_eq!(mended("SET NAMES 'ORACLE'"), None);
    }

    #[test]
    fn rules_hold_for_the_first_words_in_whatever_comment_they_stand() {
        let rule = |sql: &str| {
            let beginning: Vec<_> = words(sql.as_bytes()).take(RULE_WORDS).collect();
            rules().leaves_out(&beginning).map(str::to_owned)
        };
        for sql in [
            "SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'x:1-5'",
            "/*!50700 SET global general_log = 1 */",
            "-- so\nset GLOBAL a=1",
        ] {
            assert_eq!(rule(sql).as_deref(), Some("SET GLOBAL"), "{sql}");
        }
        assert_eq!(rule("SET @OLD = @@GLOBAL.sql_mode"), None);
        assert_eq!(rule("INSERT INTO a VALUES ('SET GLOBAL')"), None);
    }

    #[test]
    fn databases_are_found_by_their_whole_names() {
        for sql in [
            "USE `mysql`",
            "use mysql",
            "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `mysql` /*!40100 x */",
            "/*!40000 DROP DATABASE IF EXISTS mysql*/",
        ] {
            assert_eq!(rules().outside(sql.as_bytes()), Some("mysql"), "{sql}");
        }
        for sql in [
            "USE `mysql_shop`",
            "USE mysql2",
            "USE `my mysql`",
            "CREATE DATABASE shop COMMENT 'was mysql'",
        ] {
            assert_eq!(rules().outside(sql.as_bytes()), None, "{sql}");
        }
    }
}
