//! One connection and the ranges that it loads.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flushlab_generate::Format;
use flushlab_protocol::response::Completed;
use nix::time::{clock_gettime, ClockId};

use super::batch::Batch;
use super::counts::Phase;
use super::shared::SharedSlices;
use super::spec::{unwritable, Method, Range, Spec};
use super::statement::{head, write_statement};
use crate::connection::Connection;
use crate::{Cancellation, Error, ErrorKind};

/// How long a statement may take: a transaction of 64 MiB on a slow disk that is busy with a checkpoint.
const LONGEST_STATEMENT: Duration = Duration::from_secs(1800);

/// How often a transaction is sent again that the server gave up for another's sake.
const MOST_RETRIES: u32 = 10;

/// Before it is sent again; doubled each time, up to half a second.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How often a connection is used while the load is held, so that the server does not close it.
const STAYS_IN_USE: Duration = Duration::from_secs(10);

/// ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK: the same statements may pass a moment later.
const GAVE_WAY: [u16; 2] = [1205, 1213];

/// Rows generated at once, at most, so that a packet's size is looked at often enough.
const ROWS_AT_ONCE: u64 = 64;

/// Bytes by which a packet may be longer than asked for, and of its header.
const PACKET_SLACK: usize = 64 << 10;

/// A connection that is ready for rows.
pub(super) fn connect(spec: &Spec, cancellation: &Cancellation) -> Result<Connection, Error> {
    let mut connection = Connection::open(&spec.endpoint, &spec.address, Some(&spec.database), cancellation)?;
    connection.allow(LONGEST_STATEMENT)?;
    for sql in &spec.session {
        connection.query(sql)?;
    }
    if spec.chunk_bytes > 0 {
        connection.query("SET autocommit=0")?;
    }
    Ok(connection)
}

pub(super) struct Worker<'a> {
    shared: &'a SharedSlices,
    connection: Connection,
    cpu: Duration,
    statement: Vec<u8>,
    head: Vec<u8>,
    batch: Option<Batch>,
    /// Rows of the transaction under way.
    sent: u64,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a SharedSlices, mut connection: Connection) -> Self {
        let spec = &shared.spec;
        let prepared = spec.method == Method::Prepared;
        Self {
            batch: prepared.then(|| Batch::prepare(spec, &mut connection)).flatten(),
            connection,
            cpu: Duration::ZERO,
            statement: Vec::with_capacity(spec.packet_bytes + PACKET_SLACK),
            head: head(spec),
            sent: 0,
            shared,
        }
    }

    /// Loads ranges until none is left, or the load is to end.
    pub fn work(mut self) -> Result<(), Error> {
        // Without the right to it the load is slower, and no less exact.
        let _ = self.shared.spec.policy.apply();
        self.use_cpu();
        while let Some(range) = self.shared.take() {
            let mut next = range.from;
            while next < range.to && !self.shared.stops() {
                while self.shared.is_held(STAYS_IN_USE) {
                    self.connection.query("DO 0")?; // wait_timeout
                }
                next = self.patiently(range, next)?;
            }
        }
        Ok(())
    }

    /// Loads rows from `first` on in one transaction, once more if it deadlocks or waits too long for a lock; the row
    /// behind them.
    fn patiently(&mut self, range: Range, first: u64) -> Result<u64, Error> {
        let counts = &self.shared.counts;
        for retry in 0.. {
            self.sent = 0;
            let error = match self.transaction(range, first) {
                Err(error) if retry < MOST_RETRIES && !self.shared.stop.load(Ordering::Relaxed) => error,
                outcome => return outcome,
            };
            let Some(errno) = error.errno.filter(|errno| GAVE_WAY.contains(errno)) else {
                return Err(error);
            };
            self.connection.query("ROLLBACK")?; // after a lock wait only the statement was
            counts.rows.fetch_sub(self.sent, Ordering::Relaxed);
            *counts.retried.lock().entry(errno).or_default() += 1;
            std::thread::sleep(LONGEST_PAUSE.min(FIRST_PAUSE * (1 << retry)));
        }
        unreachable!("the last retry returns what came of it")
    }

    /// Loads rows from `first` on in one transaction; the row behind them.
    fn transaction(&mut self, range: Range, first: u64) -> Result<u64, Error> {
        let spec = &self.shared.spec;
        let next = match spec.method {
            Method::LoadData => self.load_data(range, first)?,
            Method::Insert | Method::Prepared => self.inserts(range, first)?,
        };
        if spec.chunk_bytes > 0 {
            self.commit(range, first, next)?;
        }
        let counts = &self.shared.counts;
        counts.committed.fetch_add(next - first, Ordering::Relaxed);
        counts.commits.fetch_add(1, Ordering::Relaxed);
        Ok(next)
    }

    fn load_data(&mut self, range: Range, first: u64) -> Result<u64, Error> {
        let (shared, spec) = (self.shared, &self.shared.spec);
        let table = spec.table();
        let (mut next, mut bytes, mut since) = (first, 0, Instant::now());
        let mut at_once = 1; // until it is seen how long rows are
        let mut failed = None;
        let most = spec.packet_bytes + spec.packet_bytes / 4;
        let completed = self.connection.load(&self.head, most, |out| {
            let counts = &shared.counts;
            let began = Instant::now();
            counts.spent(Phase::Send, began - since);
            let (start, from) = (out.len(), next);
            let full = |out: &Vec<u8>| out.len() - start >= spec.packet_bytes;
            // A transaction without a row would come to no end.
            if failed.is_none() && (next == first || !shared.stops()) {
                while next < range.to && !full(out) && bytes + out.len() - start < spec.chunk_bytes {
                    let (upto, before) = ((next + at_once).min(range.to), out.len());
                    if let Err(error) = table.write_rows(next..upto, Format::LoadData, out) {
                        // What has been sent is rolled back with the connection.
                        failed = Some(unwritable(error));
                        out.truncate(start);
                        break;
                    }
                    let row = ((out.len() - before) as u64 / (upto - next)).max(1);
                    at_once = (spec.packet_bytes as u64 / 4 / row).clamp(1, ROWS_AT_ONCE);
                    next = upto;
                }
            }
            bytes += out.len() - start;
            self.sent += next - from;
            counts.rows.fetch_add(next - from, Ordering::Relaxed);
            counts
                .bytes
                .fetch_add((out.len() - start) as u64, Ordering::Relaxed);
            since = Instant::now();
            counts.spent(Phase::Generate, since - began);
        });
        shared.counts.spent(Phase::Answer, since.elapsed());
        self.use_cpu();
        if let Some(error) = failed {
            return Err(error);
        }
        self.took(&completed?, first, next)?;
        Ok(next)
    }

    /// Inserts rows until a transaction is full: one statement, or several.
    fn inserts(&mut self, range: Range, first: u64) -> Result<u64, Error> {
        let (mut next, mut bytes) = (first, 0);
        loop {
            let (upto, sent) = self.insert(range, next)?;
            bytes += sent;
            next = upto;
            if next == range.to || bytes >= self.shared.spec.chunk_bytes || self.shared.stops() {
                return Ok(next);
            }
        }
    }

    /// Inserts rows from `first` on in one statement; the row behind them, and bytes sent.
    fn insert(&mut self, range: Range, first: u64) -> Result<(u64, usize), Error> {
        let (counts, spec) = (&self.shared.counts, &self.shared.spec);
        let began = Instant::now();
        let mut batch = self.batch.as_mut();
        batch = batch.filter(|batch| range.to - first >= batch.rows()); // the last rows go as text
        if let Some(written) = &mut batch {
            if !written.write(spec.table(), first, spec.packet_bytes)? {
                batch = None;
            }
        }
        let (next, bytes) = match &batch {
            Some(batch) => (first + batch.rows(), batch.bytes()),
            None => {
                let next = write_statement(spec, &self.head, range, first, &mut self.statement)?;
                (next, self.statement.len())
            }
        };
        let generated = Instant::now();
        counts.spent(Phase::Generate, generated - began);
        let completed = match batch {
            Some(batch) => batch.execute(&mut self.connection),
            None => self.connection.query_bytes(&self.statement),
        };
        counts.spent(Phase::Answer, generated.elapsed());
        self.sent += next - first;
        counts.rows.fetch_add(next - first, Ordering::Relaxed);
        counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.use_cpu();
        self.took(
            &completed.map_err(|error| at_rows(error, first, next))?,
            first,
            next,
        )?;
        Ok((next, bytes))
    }

    /// Whether the server took all rows as they are; LOAD DATA LOCAL goes on where it did not.
    fn took(&mut self, completed: &Completed, first: u64, next: u64) -> Result<(), Error> {
        self.shared.counts.statements.fetch_add(1, Ordering::Relaxed);
        let sent = next - first;
        if completed.warnings == 0 && completed.affected_rows == sent {
            return Ok(());
        }
        let mut refused: Option<(u16, String)> = None;
        for row in self.connection.rows("SHOW WARNINGS")? {
            let [Some(level), Some(code), Some(text)] = &row[..] else {
                continue;
            };
            if level == "Note" {
                let told = format!("{text} (note {code})");
                *self.shared.counts.notes.lock().entry(told).or_default() += 1;
            } else if refused.is_none() {
                refused = Some((code.parse().unwrap_or_default(), text.clone()));
            }
        }
        let left_out = sent.saturating_sub(completed.affected_rows);
        let what = match (left_out, &refused) {
            (0, None) => return Ok(()),
            (0, Some((_, text))) => format!("the server would change rows: {text}"),
            (count, Some((_, text))) => format!("the server would leave out {count} of {sent} rows: {text}"),
            (count, None) => {
                format!("the server would leave out {count} of {sent} rows, and does not say why")
            }
        };
        self.connection.query("ROLLBACK")?;
        let mut error = Error::new(ErrorKind::Server, what);
        error.errno = refused.map(|(code, _)| code);
        error.sqlstate = error.errno.map(|_| "HY000".to_owned());
        Err(at_rows(error, first, next))
    }

    /// Commits, with the note of it in the same transaction.
    fn commit(&mut self, range: Range, first: u64, next: u64) -> Result<(), Error> {
        let began = Instant::now();
        if let Some(notes) = &self.shared.spec.notes {
            let sql = format!(
                "UPDATE {notes} SET next_row={next} WHERE id={} AND next_row={first}",
                range.id
            );
            if self.connection.query(&sql)?.affected_rows != 1 {
                self.connection.query("ROLLBACK")?;
                return Err(Error::new(
                    ErrorKind::Server,
                    format!(
                        "rows {first} to {} were loaded by somebody else meanwhile",
                        next - 1
                    ),
                )
                .hint("end the other load of this table, then use --continue"));
            }
        }
        self.connection.query("COMMIT")?;
        self.shared.counts.spent(Phase::Commit, began.elapsed());
        self.use_cpu();
        Ok(())
    }

    /// Adds the thread's processor time since the last call.
    fn use_cpu(&mut self) {
        if let Ok(now) = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID) {
            let now = Duration::from(now);
            self.shared.counts.used_cpu(now.saturating_sub(self.cpu));
            self.cpu = now;
        }
    }
}

/// The same error with the rows that it is about, counted from 0.
fn at_rows(mut error: Error, first: u64, next: u64) -> Error {
    if error.errno.is_some() {
        error.message = format!("rows {first} to {}: {}", next - 1, error.message);
    }
    error
}
