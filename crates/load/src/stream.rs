//! The bytes of one connection: a unix socket, TCP, or TLS over TCP.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConnection;
use socket2::Socket;

/// One connection's bytes, whatever carries them.
///
/// Sockets block at first; after [`Stream::set_nonblocking`] whatever would block fails with
/// [`io::ErrorKind::WouldBlock`]. Who waits for many (epoll) must know three things of TLS, which never
/// apply to the others:
///
/// * Bytes may be here already that the socket no longer has: before waiting for the socket to become
///   readable, read until [`Stream::has_buffered`] is false.
/// * `write` takes bytes and sends as much as the socket accepts; what is left is sent by `flush`. So every
///   message ends with `flush`, and while [`Stream::wants_write`] says so, the socket's becoming writable
///   is waited for too, and then `flush` is called again.
/// * `read` may send as well (answers to key updates), so that `wants_write` can be true after it.
pub(crate) enum Stream {
    /// A unix socket.
    Unix(Arc<Socket>),
    /// TCP in the clear.
    Tcp(Arc<Socket>),
    /// TLS over TCP.
    Tls(Box<Tls>),
}

impl Stream {
    /// The socket below.
    pub fn socket(&self) -> &Arc<Socket> {
        match self {
            Self::Unix(socket) | Self::Tcp(socket) => socket,
            Self::Tls(tls) => &tls.socket,
        }
    }

    /// Makes what would block fail instead, or block again.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket().set_nonblocking(nonblocking)
    }

    /// Bounds how long one read or write of the socket may block.
    pub fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        self.socket().set_read_timeout(Some(timeout))?;
        self.socket().set_write_timeout(Some(timeout))
    }

    /// Whether a read yields bytes without the socket.
    #[inline]
    pub fn has_buffered(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Tcp(_) => false,
            Self::Tls(tls) => tls.buffered > 0,
        }
    }

    /// Whether `flush` has something to send that the socket did not accept yet.
    #[inline]
    pub fn wants_write(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Tcp(_) => false,
            Self::Tls(tls) => tls.session.wants_write(),
        }
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) | Self::Tcp(socket) => (&**socket).read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) | Self::Tcp(socket) => (&**socket).write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Tls(tls) => tls.send(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket().as_raw_fd()
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Unix(_) => "Unix",
            Self::Tcp(_) => "Tcp",
            Self::Tls(_) => "Tls",
        };
        f.debug_tuple(kind).field(self.socket()).finish()
    }
}

/// A TLS session and the socket below it.
pub(crate) struct Tls {
    socket: Arc<Socket>,
    session: ClientConnection,
    /// Bytes that were decrypted and not read yet.
    buffered: usize,
}

impl Tls {
    /// Shakes hands over a blocking socket; `bound` is called before each wait and limits it.
    pub fn shake_hands(
        socket: Arc<Socket>,
        session: ClientConnection,
        mut bound: impl FnMut(&Socket) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut tls = Self {
            socket,
            session,
            buffered: 0,
        };
        while tls.session.is_handshaking() || tls.session.wants_write() {
            bound(&tls.socket)?;
            if tls.session.wants_write() {
                tls.session.write_tls(&mut &*tls.socket)?;
            } else {
                tls.receive()?;
            }
        }
        Ok(tls)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.receive()?,
                Ok(count) => {
                    self.buffered -= count;
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads once from the socket and decrypts. At the end of the stream the session's reader says so.
    fn receive(&mut self) -> io::Result<()> {
        let count = self.session.read_tls(&mut &*self.socket)?;
        let processed = self.session.process_new_packets();
        // Alerts and answers to key updates; whether the peer still reads them does not matter here.
        let _ = self.send();
        match processed {
            Ok(state) => self.buffered = state.plaintext_bytes_to_read(),
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
        if count == 0 && self.session.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send()?; // what the socket did not take must not pile up
        let count = self.session.writer().write(bytes)?;
        match self.send() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut &*self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;
    use crate::tls::Trust;

    type Peer = StreamOwned<ServerConnection, UnixStream>;

    /// A TLS stream and its peer, over a pair of unix sockets.
    fn pair() -> (Stream, Peer) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ours = Socket::from(OwnedFd::from(ours));
        let certificate = CertificateDer::from_pem_slice(include_bytes!("../tests/tls/cert.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("../tests/tls/key.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let mut session = ServerConnection::new(Arc::new(config)).unwrap();
        let peer = thread::spawn(move || {
            let mut socket = theirs;
            while session.is_handshaking() {
                session.complete_io(&mut socket).unwrap();
            }
            StreamOwned::new(session, socket)
        });
        let session = Trust::anybody().unwrap().session("localhost").unwrap();
        let tls = Tls::shake_hands(Arc::new(ours), session, |_| Ok(())).unwrap();
        (Stream::Tls(Box::new(tls)), peer.join().unwrap())
    }

    fn would_block<T: std::fmt::Debug>(result: io::Result<T>) -> bool {
        matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn what_was_decrypted_is_read_without_the_socket() {
        let (mut stream, mut peer) = pair();
        stream.set_nonblocking(true).unwrap();
        let mut buffer = [0; 1000];
        assert!(would_block(stream.read(&mut buffer)));
        assert!(!stream.has_buffered());
        peer.write_all(&[7; 2500]).unwrap();
        let mut left = Vec::new();
        for (count, buffered) in [(1000, true), (1000, true), (500, false)] {
            assert_eq!(stream.read(&mut buffer).unwrap(), count);
            left.push(stream.has_buffered() == buffered);
        }
        assert_eq!(left, [true; 3]);
        assert!(would_block(stream.read(&mut buffer)));
    }

    #[test]
    fn what_the_socket_does_not_take_is_sent_by_flush() {
        let (mut stream, mut peer) = pair();
        stream.set_nonblocking(true).unwrap();
        let sent: Vec<u8> = (0..4 << 20).map(|number: u32| (number % 251) as u8).collect();
        let mut taken = 0;
        while let Ok(count) = stream.write(&sent[taken..]) {
            taken += count;
            assert!(taken < sent.len(), "the socket took everything");
        }
        assert!(taken > 0 && stream.wants_write());
        assert!(would_block(stream.flush()));
        let reader = thread::spawn(move || {
            let mut read = vec![0; taken];
            peer.read_exact(&mut read).unwrap();
            read
        });
        stream.set_nonblocking(false).unwrap();
        stream.flush().unwrap();
        assert!(!stream.wants_write());
        assert_eq!(reader.join().unwrap(), sent[..taken]);
    }

    #[test]
    fn a_peer_that_leaves_ends_the_stream() {
        for says_goodbye in [true, false] {
            let (mut stream, mut peer) = pair();
            if says_goodbye {
                peer.conn.send_close_notify();
                peer.flush().unwrap();
            }
            drop(peer);
            match stream.read(&mut [0; 10]) {
                Ok(count) => assert!(says_goodbye && count == 0),
                Err(error) => assert!(!says_goodbye && error.kind() == io::ErrorKind::UnexpectedEof),
            }
        }
    }
}
