//! The server's side of the protocol on a unix socket; the test says what it answers.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use flushlab_protocol::field::put_lenenc_bytes;
use flushlab_protocol::packet::{frame, last_sequence, Inbox, LARGEST};

pub const OK: &[u8] = b"\x00\x01\x00\x02\x00\x00\x00";
pub const EOF: &[u8] = b"\xfe\x00\x00\x02\x00";

/// A socket whose clients have a thread each; the file goes with it.
pub struct Socket {
    pub path: PathBuf,
}

impl Socket {
    /// Serves each client by its number, from 1. Every thread of the server calls `begin` first.
    pub fn listen(
        begin: fn(),
        serve: impl Fn(u64, Conversation) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("flushlab-server-{}-{number}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            begin();
            for (number, stream) in (1..).zip(listener.incoming().flatten()) {
                let serve = serve.clone();
                // A client that leaves ends its conversation with an error: that is its right.
                std::thread::spawn(move || {
                    begin();
                    serve(number, Conversation::new(stream))
                });
            }
        });
        Self { path }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What is said to one client.
pub struct Conversation {
    pub stream: UnixStream,
    inbox: Inbox,
}

impl Conversation {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            inbox: Inbox::new(LARGEST),
        }
    }

    /// Greets, and takes the client's login.
    pub fn greet(&mut self) -> io::Result<()> {
        let mut greeting =
            b"\x0a5.5.5-10.11.19-MariaDB\0\x07\0\0\0abcdefgh\0\xfe\xf7\x08\x02\0\xff\x81\x15".to_vec();
        greeting.extend_from_slice(&[0; 10]);
        greeting.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
        self.send(&[&greeting])?;
        self.receive().map(drop)
    }

    /// The client's next command.
    pub fn command(&mut self) -> io::Result<Vec<u8>> {
        self.inbox.sent(255); // a command begins at sequence number 0
        self.receive()
    }

    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        while !self.inbox.ready().unwrap() {
            match self.stream.read(self.inbox.spare())? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.inbox.filled(count),
            }
        }
        Ok(self.inbox.take().unwrap().to_vec())
    }

    pub fn send(&mut self, payloads: &[&[u8]]) -> io::Result<()> {
        let mut out = Vec::new();
        for payload in payloads {
            let (start, sequence) = (out.len(), self.inbox.sequence());
            frame(&mut out, sequence, |out| out.extend_from_slice(payload)).unwrap();
            self.inbox.sent(last_sequence(&out[start..]));
        }
        self.stream.write_all(&out)
    }

    pub fn send_rows<'a>(&mut self, rows: &[impl AsRef<[&'a str]>]) -> io::Result<()> {
        let columns = rows[0].as_ref().len();
        let mut payloads = vec![vec![columns as u8]];
        payloads.extend(std::iter::repeat_n(b"definition".to_vec(), columns));
        payloads.push(EOF.to_vec());
        payloads.extend(rows.iter().map(|row| {
            let mut payload = Vec::new();
            let columns = row.as_ref().iter();
            columns.for_each(|column| put_lenenc_bytes(&mut payload, column.as_bytes()));
            payload
        }));
        payloads.push(EOF.to_vec());
        self.send(&payloads.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}
