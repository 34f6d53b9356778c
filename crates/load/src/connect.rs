//! Opens a connection: the transport, TLS over it, the login.

use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flushlab_protocol::handshake::{put_ssl_request, Handshake};
use flushlab_protocol::login::{Credentials, Login, Step};
use flushlab_protocol::packet::{frame, Inbox, LARGEST, MAX_PAYLOAD};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::address::Address;
use crate::endpoint::{Endpoint, READ_TIMEOUT};
use crate::stream::{Stream, Tls};
use crate::tls::{self, Trust};
use crate::{Cancellation, Error, ErrorKind};

/// A connection that is logged in: its bytes, and what came of them already.
#[derive(Debug)]
pub(crate) struct Opened {
    pub stream: Stream,
    pub inbox: Inbox,
}

/// Connects and logs in, within `endpoint.connect_timeout` in all. The socket blocks; its timeouts are the
/// caller's to set.
///
/// # Errors
/// [`ErrorKind::Server`] if the server cannot be reached, refuses, does not answer in time or asks for what is not
/// spoken here; [`ErrorKind::Protocol`] if it does not speak the protocol.
pub(crate) fn open(
    endpoint: &Endpoint,
    address: &Address,
    database: Option<&str>,
    cancellation: &Cancellation,
) -> Result<Opened, Error> {
    let deadline = Deadline(Instant::now() + endpoint.connect_timeout);
    let socket = connect(address, deadline, cancellation).map_err(|error| {
        Error::new(
            ErrorKind::Server,
            format!("cannot connect to the server at {address}: {error}"),
        )
    })?;
    let stream = match address {
        Address::Socket(_) => Stream::Unix(socket),
        Address::Tcp(..) | Address::Tls(..) => Stream::Tcp(socket),
    };
    let dialogue = Dialogue {
        stream,
        inbox: Inbox::new(MAX_PAYLOAD),
        deadline,
        peer: address.to_string(),
    };
    if cancellation.is_cancelled() {
        cancellation.watch(dialogue.stream.socket()); // a socket that was not connected yet is not cut
    }
    dialogue
        .log_in(endpoint, address, database)
        .map_err(|error| error.during(format_args!("connecting to {address}")))
}

/// The packets before a connection can be used; every wait ends at the deadline.
struct Dialogue {
    stream: Stream,
    inbox: Inbox,
    deadline: Deadline,
    peer: String,
}

impl Dialogue {
    fn log_in(
        mut self,
        endpoint: &Endpoint,
        address: &Address,
        database: Option<&str>,
    ) -> Result<Opened, Error> {
        let handshake = Handshake::parse(self.receive()?)?;
        let credentials = Credentials {
            user: &endpoint.user,
            password: &endpoint.password,
            database,
            private_channel: !matches!(address, Address::Tcp(..)),
            tls: matches!(address, Address::Tls(..)),
            get_server_public_key: endpoint.get_server_public_key,
            local_files: endpoint.local_files,
        };
        if let Address::Tls(host, _, trust) = address {
            self = self.secured(host, trust, &handshake, credentials)?;
        }
        let (mut login, answer) = Login::begin(credentials, &handshake)?;
        self.send(&answer)?;
        loop {
            match login.step(self.receive()?)? {
                Step::Send(payload) => self.send(&payload)?,
                Step::Wait => {}
                Step::Done => break,
            }
        }
        self.inbox.allow(LARGEST);
        Ok(Opened {
            stream: self.stream,
            inbox: self.inbox,
        })
    }

    /// Asks for TLS and shakes hands.
    fn secured(
        mut self,
        host: &str,
        trust: &Trust,
        handshake: &Handshake,
        credentials: Credentials<'_>,
    ) -> Result<Self, Error> {
        if !handshake.offers_tls() {
            return Err(tls::not_offered(&handshake.version));
        }
        let session = trust.session(host)?;
        let mut request = Vec::new();
        let with_database = credentials.database.is_some();
        put_ssl_request(
            &mut request,
            with_database,
            credentials.local_files,
            LARGEST as u32,
        );
        self.send(&request)?;
        if !self.inbox.is_empty() {
            // Bytes in the clear that would be taken for the server's, as if they had come under TLS.
            return Err(Error::new(
                ErrorKind::Protocol,
                "the server goes on in the clear after it was asked for TLS",
            ));
        }
        let deadline = self.deadline;
        let secured = Tls::shake_hands(self.stream.socket().clone(), session, |socket| {
            deadline.bound(socket)
        });
        self.stream = Stream::Tls(Box::new(secured.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::lost(&self.peer, &error),
            _ => tls::failed(&handshake.version, &error),
        })?));
        Ok(self)
    }

    fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        let sequence = self.inbox.sequence();
        let mut out = Vec::new();
        frame(&mut out, sequence, |out| out.extend_from_slice(payload))?;
        self.inbox.sent(sequence);
        self.deadline
            .bound(self.stream.socket())
            .and_then(|()| self.stream.write_all(&out))
            .and_then(|()| self.stream.flush())
            .map_err(|error| Error::lost(&self.peer, &error))
    }

    fn receive(&mut self) -> Result<&[u8], Error> {
        while !self.inbox.ready()? {
            let read = self
                .deadline
                .bound(self.stream.socket())
                .and_then(|()| self.stream.read(self.inbox.spare()));
            match read {
                Ok(0) => return Err(Error::lost(&self.peer, &io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.inbox.filled(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::lost(&self.peer, &error)),
            }
        }
        Ok(self.inbox.take()?)
    }
}

/// When waiting ends.
#[derive(Debug, Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    fn left(self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left)
    }

    /// Lets the socket's next read or write wait for the rest of the time. A unix socket's connect() keeps
    /// to the write timeout.
    fn bound(self, socket: &Socket) -> io::Result<()> {
        let left = Some(self.left()?);
        socket.set_read_timeout(left)?;
        socket.set_write_timeout(left)
    }
}

/// A socket that is connected. `cancellation` ends the attempt, too.
fn connect(address: &Address, deadline: Deadline, cancellation: &Cancellation) -> io::Result<Arc<Socket>> {
    let watched = |domain| {
        let socket = Arc::new(Socket::new(domain, Type::STREAM, None)?);
        cancellation.watch(&socket);
        io::Result::Ok(socket)
    };
    let (host, port) = match address {
        Address::Socket(path) => {
            let socket = watched(Domain::UNIX)?;
            deadline.bound(&socket)?;
            socket.connect(&SockAddr::unix(path)?)?;
            return Ok(socket);
        }
        Address::Tcp(host, port) | Address::Tls(host, port, _) => (host.as_str(), *port),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
    for (tried, &resolved) in addresses.iter().enumerate() {
        let socket = watched(Domain::for_address(resolved))?;
        // The first may be of a network that drops packets: each has its share of what is left.
        let share = deadline.left()? / (addresses.len() - tried) as u32;
        match socket.connect_timeout(&resolved.into(), share) {
            Ok(()) => {
                socket.set_tcp_nodelay(true)?;
                // A peer that vanished without a word: unacknowledged bytes and unanswered probes end the
                // connection about when a missing answer would.
                socket.set_tcp_user_timeout(Some(READ_TIMEOUT))?;
                let probes = TcpKeepalive::new().with_time(READ_TIMEOUT / 2);
                socket.set_tcp_keepalive(&probes.with_interval(READ_TIMEOUT / 6))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
