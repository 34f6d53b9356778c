//! Acknowledgement table: each connection counts its transactions in a table, and every acknowledged one is noted outside.
//!
//! After a crash the table says what the server kept and the notes say what it had promised. A note holds the
//! position of the disk's record, read after the server's OK has come: whatever the server synced before it
//! answered is at that position or before it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flushlab_protocol::command::{self, Param};
use flushlab_protocol::response::Completed;
use flushlab_rows::shape::{write_pad, PAD_LENGTH};
use flushlab_rows::Random;
use nix::time::{clock_gettime, ClockId};
use serde::Deserialize;

use super::event::{Effect, Next, Rank, Workload};
use super::rand_json::within;
use crate::connection::{Connection, PreparedStatement};
use crate::sync::locked;
use crate::{Error, ErrorKind};

/// Most rows of a transaction.
const MAX_ROWS: u32 = 1_000;
const INSERT: &str = "INSERT INTO flushlab_acks (c, n, part, pad) VALUES (?, ?, ?, ?)";

/// `flushlab.record.AcksSpec`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acks {
    file: PathBuf,
    /// Holds the disk's position in 8 bytes, little-endian; empty: there is none, and it is 0.
    #[serde(default)]
    position: PathBuf,
    /// Of each transaction.
    rows: u32,
}

impl Acks {
    pub fn checked(self) -> Result<Self, Error> {
        within("acks.rows", self.rows, 1, MAX_ROWS)?;
        Ok(self)
    }

    pub fn open(&self) -> Result<Notes, Error> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error| {
                Error::new(
                    ErrorKind::Storage,
                    format!("the file of acknowledgements {path}: {error}"),
                )
            }
        };
        let position = (!self.position.as_os_str().is_empty())
            .then(|| File::open(&self.position).map_err(failed(&self.position)))
            .transpose()?;
        let file = File::create(&self.file).map_err(failed(&self.file))?;
        Ok(Notes {
            rows: self.rows,
            file: Arc::new(Mutex::new(file)),
            position: position.map(Arc::new),
        })
    }
}

/// Where acknowledged transactions are noted; one file for all connections.
#[derive(Clone)]
pub(crate) struct Notes {
    rows: u32,
    file: Arc<Mutex<File>>,
    position: Option<Arc<File>>,
}

impl Notes {
    /// Appends connection, counter, position and nanoseconds of CLOCK_MONOTONIC, 8 bytes each. Not buffered:
    /// what is noted outlives this process.
    fn note(&self, connection: u64, counter: u64) -> std::io::Result<()> {
        let mut position = [0; 8];
        if let Some(file) = &self.position {
            file.read_exact_at(&mut position, 0)?;
        }
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
        let time_ns = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
        let mut note = [0; 32];
        note[..8].copy_from_slice(&connection.to_le_bytes());
        note[8..16].copy_from_slice(&counter.to_le_bytes());
        note[16..24].copy_from_slice(&position);
        note[24..].copy_from_slice(&time_ns.to_le_bytes());
        locked(&self.file).write_all(&note)
    }
}

/// Whose statement is under way, and what its answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Under {
    /// No event.
    Nothing,
    /// BEGIN or an INSERT into the acknowledgement table; `sent`: rows of the transaction that were sent.
    Own { sent: u32, last: bool },
    /// The last statement of a transaction that writes the acknowledgement table only.
    OwnCommit { last: bool },
    /// One of the workload's; the event ends with it or not.
    Theirs { last: bool },
}

/// A workload with the acknowledgement table in its transactions, or `acked_inserts`.
///
/// If the workload begins its transactions, the rows of the table are part of them. If the workload commits each
/// statement by itself, the rows are a transaction of their own in front of the event.
pub(crate) struct Acked {
    notes: Notes,
    inner: Option<Box<dyn Workload>>,
    /// Number of the workload's kinds of statements; the kinds of the acknowledgement table follow them.
    theirs: usize,
    insert: Option<PreparedStatement>,
    /// From 1.
    connection: u64,
    /// Of the transaction that is under way or comes next, from 1.
    counter: u64,
    under: Under,
    /// The rows of the acknowledgement table are part of the workload's transaction.
    joined: bool,
    /// The workload's first statement, which waits for the transaction of the acknowledgement table.
    held: Vec<u8>,
    holds: Option<Next>,
    failed: Option<std::io::Error>,
}

impl Acked {
    pub fn new(notes: &Notes, inner: Option<Box<dyn Workload>>, rank: Rank) -> Self {
        Self {
            notes: notes.clone(),
            theirs: inner.as_ref().map_or(0, |inner| inner.statements().len()),
            inner,
            insert: None,
            connection: u64::from(rank.number) + 1,
            counter: 1,
            under: Under::Nothing,
            joined: false,
            held: Vec::with_capacity(1024),
            holds: None,
            failed: None,
        }
    }

    fn own(&self, kind: usize, last: bool, commits: bool) -> Next {
        Next {
            statement: self.theirs + kind,
            last,
            commits,
            ..Next::SINGLE
        }
    }

    fn put_row(&mut self, part: u32, random: &mut Random, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut pad = [0; PAD_LENGTH];
        write_pad(&mut pad, random);
        let params = [
            Param::BigInt(self.connection as i64),
            Param::BigInt(self.counter as i64),
            Param::BigInt(i64::from(part)),
            Param::Char(&pad),
        ];
        let insert = self.insert.as_mut().expect("it is prepared before events run");
        insert.execute(out, params.into_iter())
    }

    /// The first statement of a transaction that writes the acknowledgement table only.
    fn begin_own(&mut self, last: bool, random: &mut Random, out: &mut Vec<u8>) -> Result<Next, Error> {
        if self.notes.rows == 1 {
            self.put_row(1, random, out)?;
            self.under = Under::OwnCommit { last };
            return Ok(self.own(0, last, true));
        }
        command::query(out, b"BEGIN")?;
        self.under = Under::Own { sent: 0, last };
        Ok(self.own(1, false, false))
    }

    fn next_of_theirs(&mut self, random: &mut Random, out: &mut Vec<u8>) -> Result<Next, Error> {
        let inner = self
            .inner
            .as_mut()
            .expect("acked_inserts alone has ended its event");
        let next = match self.holds.take() {
            Some(next) => {
                out.extend_from_slice(&self.held);
                next
            }
            None => inner.next(random, out)?,
        };
        self.under = Under::Theirs { last: next.last };
        Ok(next)
    }
}

impl Workload for Acked {
    fn statements(&self) -> Vec<String> {
        let mut names = self.inner.as_ref().map_or(Vec::new(), |inner| inner.statements());
        let own = ["INSERT", "BEGIN", "COMMIT"].map(|name| format!("{name} of acks"));
        names.extend(own);
        names
    }

    fn transactions(&self) -> Vec<(String, usize)> {
        self.inner
            .as_ref()
            .map_or(Vec::new(), |inner| inner.transactions())
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<(), Error> {
        self.insert = Some(connection.prepare(INSERT)?);
        self.inner
            .as_mut()
            .map_or(Ok(()), |inner| inner.prepare(connection))
    }

    fn next(&mut self, random: &mut Random, out: &mut Vec<u8>) -> Result<Next, Error> {
        if let Some(error) = self.failed.take() {
            return Err(Error::new(
                ErrorKind::Storage,
                format!("acknowledgements cannot be written: {error}"),
            ));
        }
        match self.under {
            Under::Nothing => {
                self.joined = false;
                let Some(inner) = &mut self.inner else {
                    return self.begin_own(true, random, out);
                };
                self.held.clear();
                let next = inner.next(random, &mut self.held)?;
                if !next.begins {
                    self.holds = Some(next);
                    return self.begin_own(false, random, out);
                }
                out.extend_from_slice(&self.held);
                self.joined = true;
                self.under = Under::Own { sent: 0, last: false };
                Ok(next)
            }
            Under::Own { sent, last } if sent < self.notes.rows => {
                self.put_row(sent + 1, random, out)?;
                self.under = Under::Own { sent: sent + 1, last };
                Ok(self.own(0, false, false))
            }
            Under::Own { last, .. } if !self.joined => {
                command::query(out, b"COMMIT")?;
                self.under = Under::OwnCommit { last };
                Ok(self.own(2, last, true))
            }
            _ => self.next_of_theirs(random, out),
        }
    }

    fn answered(&mut self, completed: &Completed) -> Effect {
        let (acknowledges, ends) = match self.under {
            Under::OwnCommit { last } => (true, last),
            Under::Theirs { last } => (self.joined && last, last),
            Under::Nothing | Under::Own { .. } => (false, false),
        };
        // If the rows are part of the workload's transaction, BEGIN was the workload's.
        let theirs = matches!(
            (self.under, self.joined),
            (Under::Theirs { .. }, _) | (Under::Own { sent: 0, .. }, true)
        );
        if acknowledges {
            self.failed = self.notes.note(self.connection, self.counter).err();
            self.counter += 1;
        }
        if ends {
            self.under = Under::Nothing;
        }
        match &mut self.inner {
            Some(inner) if theirs => inner.answered(completed),
            _ => Effect::TRANSACTION,
        }
    }

    fn abandon(&mut self) {
        if let Some(inner) = &mut self.inner {
            inner.abandon();
        }
        self.holds = None;
        self.under = Under::Nothing;
    }
}
