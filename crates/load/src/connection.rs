use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use flushlab_protocol::command::{self, Param};
use flushlab_protocol::packet::{frame, last_sequence, Inbox, HEADER};
use flushlab_protocol::response::{text_columns, Completed, Preparation, Response, Step};

use crate::address::Address;
use crate::connect::{open, Opened};
use crate::endpoint::{Endpoint, READ_TIMEOUT};
use crate::stream::Stream;
use crate::{Cancellation, Error, ErrorKind};

/// Rows that a query of the engine's own may yield; these are all catalogue look-ups.
const MAX_ROWS: usize = 10_000;

/// How much longer a server may take to answer than its own limit for a wait.
const MARGIN: Duration = Duration::from_secs(10);

/// No answer may take longer, whatever the server's limits are.
const LONGEST_ANSWER: Duration = Duration::from_secs(7 * 86_400);

/// What ends a statement that waits or runs for too long: of both, of MySQL, of MariaDB.
const LIMITS: &str = "SHOW SESSION VARIABLES WHERE Variable_name IN \
    ('innodb_lock_wait_timeout', 'max_execution_time', 'max_statement_time')";

/// A statement prepared on one connection.
#[derive(Debug)]
pub(crate) struct PreparedStatement {
    id: u32,
    types_sent: bool,
}

impl PreparedStatement {
    /// Appends its execution as a whole command packet. Types go along the first time only: the server
    /// keeps them, whatever becomes of the execution.
    #[inline]
    pub fn execute<'a>(
        &mut self,
        out: &mut Vec<u8>,
        params: impl Iterator<Item = Param<'a>> + Clone,
    ) -> Result<(), Error> {
        command::execute(out, self.id, !self.types_sent, params)?;
        self.types_sent = true;
        Ok(())
    }
}

/// One blocking connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    inbox: Inbox,
    out: Vec<u8>,
    /// Bytes of `out` that the stream has taken.
    taken: usize,
    response: Response,
    blocks: bool,
    peer: String,
    /// How long the server may take over an answer without sending or taking a byte.
    patience: Duration,
    /// Bytes that were sent and received.
    moved: u64,
}

impl Connection {
    /// Connects and logs in, with autocommit on.
    pub fn open(
        endpoint: &Endpoint,
        address: &Address,
        database: Option<&str>,
        cancellation: &Cancellation,
    ) -> Result<Self, Error> {
        let Opened { stream, inbox } = open(endpoint, address, database, cancellation)?;
        let mut connection = Self {
            stream,
            inbox,
            out: Vec::with_capacity(1024),
            taken: 0,
            response: Response::new(),
            blocks: true,
            peer: address.to_string(),
            patience: READ_TIMEOUT,
            moved: 0,
        };
        connection.allow(READ_TIMEOUT)?;
        connection.query("SET autocommit=1")?;
        Ok(connection)
    }

    /// Bounds how long the server may be silent over each answer from now on.
    pub fn allow(&mut self, timeout: Duration) -> Result<(), Error> {
        self.patience = timeout;
        self.stream
            .set_timeouts(timeout)
            .map_err(|error| Error::lost(&self.peer, &error))
    }

    /// Lets the server be silent for longer than its own limits for lock waits and statements: a wait must end as
    /// the server's error, not as a lost connection.
    pub fn follow_limits(&mut self) -> Result<(), Error> {
        let limits = self.rows(LIMITS)?;
        let longest = limits.iter().map(|row| limit(row)).max().unwrap_or_default();
        let patience = READ_TIMEOUT.max(longest + MARGIN).min(LONGEST_ANSWER);
        if patience == self.patience {
            return Ok(());
        }
        self.allow(patience)
    }

    /// How long the server may be silent over an answer.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// How many bytes have been sent and received: a server that moves some is not silent.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// From now on neither [`Connection::push`] nor [`Connection::pull`] waits.
    pub fn set_nonblocking(&mut self) -> Result<(), Error> {
        self.blocks = false;
        let set = self.stream.set_nonblocking(true);
        set.map_err(|error| Error::lost(&self.peer, &error))
    }

    /// Takes the command that `write` appends; [`Connection::push`] sends it.
    #[inline]
    pub fn encode<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<T, Error>) -> Result<T, Error> {
        self.out.clear();
        self.taken = 0;
        self.response = Response::new();
        let written = write(&mut self.out)?;
        self.inbox.sent(last_sequence(&self.out));
        Ok(written)
    }

    /// Sends the command, or as much of it as there is room for.
    #[inline]
    pub fn push(&mut self) -> Result<(), Error> {
        while self.taken < self.out.len() {
            match self.stream.write(&self.out[self.taken..]) {
                Ok(0) => return Err(self.cut(&io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.taken += count;
                    self.moved += count as u64;
                }
                Err(error) if self.waits(&error) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.cut(&error)),
            }
        }
        match self.stream.flush() {
            Err(error) if !self.waits(&error) => Err(self.cut(&error)),
            _ => Ok(()),
        }
    }

    /// Whether a part of the command is still to be sent.
    #[inline]
    pub fn wants_write(&self) -> bool {
        self.taken < self.out.len() || self.stream.wants_write()
    }

    /// Takes what has come of the answer, dropping rows: the answer, once it is complete.
    #[inline]
    pub fn pull(&mut self) -> Result<Option<Completed>, Error> {
        self.pull_rows(|_| Ok(()))
    }

    #[inline]
    fn pull_rows(
        &mut self,
        mut row: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Option<Completed>, Error> {
        let mut more = true;
        loop {
            while self.inbox.ready()? {
                match self.response.step(self.inbox.take()?)? {
                    Step::More => {}
                    Step::Row(payload) => row(payload)?,
                    Step::File => return Err(unasked()),
                    Step::Done(completed) => return Ok(Some(completed)),
                }
            }
            if !more {
                return Ok(None);
            }
            more = self.read()? || self.stream.has_buffered();
        }
    }

    /// Reads once; whether to read again before waiting for the socket: a read that left room has emptied it.
    #[inline]
    fn read(&mut self) -> Result<bool, Error> {
        loop {
            let spare = self.inbox.spare();
            let room = spare.len();
            match self.stream.read(spare) {
                Ok(0) => return Err(Error::lost(&self.peer, &io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    self.inbox.filled(count);
                    self.moved += count as u64;
                    return Ok(self.blocks || count == room);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.waits(&error) => return Ok(false),
                Err(error) => return Err(Error::lost(&self.peer, &error)),
            }
        }
    }

    /// Whether that only means that one has to wait. A blocking socket says the same when its time is over.
    fn waits(&self, error: &io::Error) -> bool {
        !self.blocks && error.kind() == io::ErrorKind::WouldBlock
    }

    /// The error of a write that failed. A server that closes says why before it does: its last words are
    /// preferred to a broken pipe.
    fn cut(&mut self, error: &io::Error) -> Error {
        let said = self.set_nonblocking().and_then(|()| self.pull());
        match said {
            Err(said) if said.errno.is_some() => said,
            _ => Error::lost(&self.peer, error),
        }
    }

    /// The error of an answer that does not come.
    pub fn timed_out(&self) -> Error {
        Error::lost(&self.peer, &io::ErrorKind::TimedOut.into())
    }

    /// Asks for an answer that costs the server next to nothing.
    pub fn ping(&mut self) -> Result<(), Error> {
        self.ask(command::ping, |_| Ok(())).map(drop)
    }

    /// Runs a statement in the text protocol and drops its rows.
    pub fn query(&mut self, sql: &str) -> Result<Completed, Error> {
        self.query_bytes(sql.as_bytes())
    }

    /// As [`Connection::query`], for SQL that was built as bytes.
    pub fn query_bytes(&mut self, sql: &[u8]) -> Result<Completed, Error> {
        self.ask(|out| command::query(out, sql), |_| Ok(()))
    }

    /// Runs a statement in the text protocol and returns its rows.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        let mut rows = Vec::new();
        self.ask(
            |out| command::query(out, sql.as_bytes()),
            |row| {
                if rows.len() == MAX_ROWS {
                    return Err(Error::new(
                        ErrorKind::Protocol,
                        format!("a look-up yields more than {MAX_ROWS} rows"),
                    ));
                }
                let columns = text_columns(row)
                    .map(|column| Ok(column?.map(|bytes| String::from_utf8_lossy(bytes).into_owned())));
                rows.push(columns.collect::<Result<_, Error>>()?);
                Ok(())
            },
        )?;
        Ok(rows)
    }

    /// Runs a LOAD DATA LOCAL whose rows `more` appends, a packet at a time, until it appends none. What it appends
    /// at once goes as several packets if it is longer than `most` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Server`]: it refused, or is gone.
    pub fn load(
        &mut self,
        sql: &[u8],
        most: usize,
        mut more: impl FnMut(&mut Vec<u8>),
    ) -> Result<Completed, Error> {
        self.encode(|out| Ok(command::query(out, sql)?))?;
        self.push()?;
        self.response = Response::to_load();
        while !self.inbox.ready()? {
            self.read()?;
        }
        if self.response.step(self.inbox.take()?)? != Step::File {
            return Err(unasked());
        }
        loop {
            let sequence = self.inbox.sequence();
            self.out.clear();
            self.taken = 0;
            let mut long = Vec::new();
            frame(&mut self.out, sequence, |out| {
                let start = out.len();
                more(out);
                if out.len() - start > most {
                    long = out.split_off(start);
                }
            })?;
            if !long.is_empty() {
                self.send_pieces(&long, most)?;
                continue;
            }
            self.inbox.sent(last_sequence(&self.out));
            self.push()?;
            if self.out.len() == HEADER {
                break;
            }
        }
        loop {
            if let Some(completed) = self.pull()? {
                return Ok(completed);
            }
        }
    }

    fn send_pieces(&mut self, rows: &[u8], most: usize) -> Result<(), Error> {
        for piece in rows.chunks(most) {
            let sequence = self.inbox.sequence();
            self.out.clear();
            self.taken = 0;
            frame(&mut self.out, sequence, |out| out.extend_from_slice(piece))?;
            self.inbox.sent(last_sequence(&self.out));
            self.push()?;
        }
        Ok(())
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, sql: &str) -> Result<PreparedStatement, Error> {
        self.encode(|out| Ok(command::prepare(out, sql.as_bytes())?))?;
        self.push()?;
        let mut preparation = Preparation::new();
        loop {
            while self.inbox.ready()? {
                if let Some(prepared) = preparation.step(self.inbox.take()?)? {
                    return Ok(PreparedStatement {
                        id: prepared.id,
                        types_sent: false,
                    });
                }
            }
            self.read()?;
        }
    }

    /// Runs a prepared statement with values that are written already.
    pub fn execute_written(
        &mut self,
        statement: &mut PreparedStatement,
        nulls: &[u8],
        types: &[u8],
        values: &[u8],
    ) -> Result<Completed, Error> {
        let types = (!std::mem::replace(&mut statement.types_sent, true)).then_some(types);
        let id = statement.id;
        self.ask(
            |out| command::execute_written(out, id, nulls, types, values),
            |_| Ok(()),
        )
    }

    /// Sends a command and waits for its answer.
    fn ask(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), flushlab_protocol::Error>,
        mut row: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Completed, Error> {
        self.encode(|out| Ok(write(out)?))?;
        self.push()?;
        loop {
            if let Some(completed) = self.pull_rows(&mut row)? {
                return Ok(completed);
            }
        }
    }
}

/// A server's limit in seconds, but of `max_execution_time` in milliseconds; 0 is none.
fn limit(row: &[Option<String>]) -> Duration {
    let [Some(name), Some(value)] = row else {
        return Duration::ZERO;
    };
    let unit = if name == "max_execution_time" { 1e-3 } else { 1.0 };
    let seconds = value.parse::<f64>().unwrap_or_default() * unit;
    Duration::try_from_secs_f64(seconds).map_or(LONGEST_ANSWER, |limit| limit.min(LONGEST_ANSWER))
}

/// A server that wants rows where none were offered, or none where they were.
fn unasked() -> Error {
    Error::new(
        ErrorKind::Protocol,
        "the server and flushlab disagree on whether rows are to be sent",
    )
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.out.clear();
        if command::quit(&mut self.out).is_ok() {
            // Best effort: a server that is gone needs no farewell. Never waits.
            let _ = self.stream.set_nonblocking(true);
            let _ = self.stream.write(&self.out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted};

    fn patience(limits: &[[&'static str; 2]]) -> u64 {
        let rows: Vec<_> = limits.iter().map(|row| row.to_vec()).collect();
        let server = Scripted::start(move |sql| match sql.starts_with("SHOW SESSION VARIABLES") {
            true => Reply::Rows(rows.clone()),
            false => Reply::Ok,
        });
        let mut connection = server.connect();
        assert_eq!(connection.patience(), READ_TIMEOUT);
        connection.follow_limits().unwrap();
        connection.patience().as_secs()
    }

    #[test]
    fn a_server_may_be_silent_for_longer_than_its_own_limits() {
        let waits = |value| ["innodb_lock_wait_timeout", value];
        assert_eq!(patience(&[waits("50"), ["max_execution_time", "0"]]), 60);
        assert_eq!(patience(&[waits("300"), ["max_execution_time", "200000"]]), 310);
        assert_eq!(patience(&[waits("1"), ["max_execution_time", "200000"]]), 210);
        assert_eq!(patience(&[waits("50"), ["max_statement_time", "90.500000"]]), 100);
        assert_eq!(patience(&[waits("1073741824")]), 7 * 86_400);
        assert_eq!(patience(&[["innodb_lock_wait_timeout", "much"]]), 60);
    }
}
