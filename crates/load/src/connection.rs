use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;

use flushlab_wire::command::{self, Param};
use flushlab_wire::handshake::Handshake;
use flushlab_wire::login::{Credentials, Login, Step as LoginStep};
use flushlab_wire::packet::{frame, Inbox, MAX_PAYLOAD};
use flushlab_wire::response::{text_columns, Completed, Preparation, Response, Step};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::spec::{Address, Endpoint};
use crate::{Cutoff, Error, Kind};

/// How long a server may take to accept a connection, and for each packet of the login.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may take to answer; above the default innodb_lock_wait_timeout of 50 s, so that
/// a lock wait ends as the server's error.
pub const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Rows that a query of the engine's own may yield; these are all catalogue look-ups.
const MAX_ROWS: usize = 10_000;

/// A statement prepared on one connection.
#[derive(Debug)]
pub(crate) struct Statement {
    id: u32,
    types_sent: bool,
}

/// One blocking connection.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Arc<Socket>,
    inbox: Inbox,
    out: Vec<u8>,
    peer: String,
}

impl Connection {
    /// Connects and logs in, with autocommit on.
    pub fn open(
        endpoint: &Endpoint,
        address: &Address,
        database: Option<&str>,
        cutoff: &Cutoff,
    ) -> Result<Self, Error> {
        let peer = address.to_string();
        let socket = connect(address).map_err(|error| {
            Error::new(
                Kind::Server,
                format!("cannot connect to the server at {peer}: {error}"),
            )
        })?;
        let socket = Arc::new(socket);
        cutoff.watch(&socket);
        let mut connection = Self {
            socket,
            inbox: Inbox::new(MAX_PAYLOAD),
            out: Vec::with_capacity(1024),
            peer,
        };
        let credentials = Credentials {
            user: &endpoint.user,
            password: &endpoint.password,
            database,
            private_channel: matches!(address, Address::Socket(_)),
        };
        connection
            .log_in(credentials)
            .map_err(|error| error.during(format_args!("connecting to {address}")))?;
        connection.allow(READ_TIMEOUT)?;
        connection.query("SET autocommit=1")?;
        Ok(connection)
    }

    /// Bounds how long the server may take over each answer from now on.
    pub fn allow(&self, timeout: Duration) -> Result<(), Error> {
        self.set_timeouts(timeout)
            .map_err(|error| Error::lost(&self.peer, &error))
    }

    fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(timeout))?;
        self.socket.set_write_timeout(Some(timeout))
    }

    fn log_in(&mut self, credentials: Credentials<'_>) -> Result<(), Error> {
        let handshake = Handshake::parse(self.receive()?)?;
        let (mut login, mut answer) = Login::begin(credentials, &handshake);
        loop {
            let sequence = self.inbox.sequence();
            self.out.clear();
            frame(&mut self.out, sequence, |out| out.extend_from_slice(&answer))?;
            self.send(sequence)?;
            answer = loop {
                match login.step(self.receive()?)? {
                    LoginStep::Send(payload) => break payload,
                    LoginStep::Wait => {}
                    LoginStep::Done => return Ok(()),
                }
            };
        }
    }

    /// Runs a statement in the text protocol and drops its rows.
    pub fn query(&mut self, sql: &str) -> Result<Completed, Error> {
        self.query_bytes(sql.as_bytes())
    }

    /// As [`Connection::query`], for SQL that was built as bytes.
    pub fn query_bytes(&mut self, sql: &[u8]) -> Result<Completed, Error> {
        self.out.clear();
        command::query(&mut self.out, sql)?;
        self.send(0)?;
        self.answer(|_| Ok(()))
    }

    /// Runs a statement in the text protocol and returns its rows.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        self.out.clear();
        command::query(&mut self.out, sql.as_bytes())?;
        self.send(0)?;
        let mut rows = Vec::new();
        self.answer(|row| {
            if rows.len() == MAX_ROWS {
                return Err(Error::new(
                    Kind::Protocol,
                    format!("a look-up yields more than {MAX_ROWS} rows"),
                ));
            }
            let columns = text_columns(row)
                .map(|column| Ok(column?.map(|bytes| String::from_utf8_lossy(bytes).into_owned())));
            rows.push(columns.collect::<Result<_, Error>>()?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.out.clear();
        command::prepare(&mut self.out, sql.as_bytes())?;
        self.send(0)?;
        let mut preparation = Preparation::new();
        loop {
            if let Some(prepared) = preparation.step(self.receive()?)? {
                return Ok(Statement {
                    id: prepared.id,
                    types_sent: false,
                });
            }
        }
    }

    /// Runs a prepared statement and drops its rows.
    #[inline]
    pub fn execute<'a>(
        &mut self,
        statement: &mut Statement,
        params: impl Iterator<Item = Param<'a>> + Clone,
    ) -> Result<Completed, Error> {
        self.out.clear();
        command::execute(&mut self.out, statement.id, !statement.types_sent, params)?;
        self.send(0)?;
        let completed = self.answer(|_| Ok(()))?;
        statement.types_sent = true;
        Ok(completed)
    }

    #[inline]
    fn answer(&mut self, mut row: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<Completed, Error> {
        let mut response = Response::new();
        loop {
            match response.step(self.receive()?)? {
                Step::More => {}
                Step::Row(payload) => row(payload)?,
                Step::Done(completed) => return Ok(completed),
            }
        }
    }

    /// Sends what is in `out`, which ends with a packet of that sequence number.
    #[inline]
    fn send(&mut self, sequence: u8) -> Result<(), Error> {
        let sent = (&*self.socket).write_all(&self.out);
        self.inbox.sent(sequence);
        // A server that closes says why before it does: prefer its last words to a broken pipe.
        match sent {
            Ok(()) => Ok(()),
            Err(error) => Err(self
                .last_words()
                .unwrap_or_else(|| Error::lost(&self.peer, &error))),
        }
    }

    fn last_words(&mut self) -> Option<Error> {
        self.socket.set_nonblocking(true).ok()?;
        let payload = self.receive().ok()?;
        Response::new().step(payload).err().map(Error::from)
    }

    #[inline]
    fn receive(&mut self) -> Result<&[u8], Error> {
        while !self.inbox.ready()? {
            match (&*self.socket).read(self.inbox.spare()) {
                Ok(0) => return Err(Error::lost(&self.peer, &io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.inbox.filled(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::lost(&self.peer, &error)),
            }
        }
        Ok(self.inbox.take()?)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.out.clear();
        if command::quit(&mut self.out).is_ok() {
            // Best effort: a server that is gone needs no farewell. Never waits.
            let _ = self.socket.set_nonblocking(true);
            let _ = (&*self.socket).write(&self.out);
        }
    }
}

fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Socket(path) => {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            bound(&socket)?; // connect() on a unix socket keeps to the write timeout
            socket.connect(&SockAddr::unix(path)?)?;
            Ok(socket)
        }
        Address::Tcp(host, port) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for resolved in (host.as_str(), *port).to_socket_addrs()? {
                let socket = Socket::new(Domain::for_address(resolved), Type::STREAM, None)?;
                bound(&socket)?;
                match socket.connect_timeout(&resolved.into(), CONNECT_TIMEOUT) {
                    Ok(()) => {
                        socket.set_tcp_nodelay(true)?;
                        return Ok(socket);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

fn bound(socket: &Socket) -> io::Result<()> {
    socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))
}
