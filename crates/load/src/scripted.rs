//! For the tests of this crate: a server on a unix socket that lets everybody in and answers queries as it is told.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use flushlab_protocol::field::put_lenenc_bytes;
use flushlab_protocol::packet::{frame, Inbox, LARGEST};

use crate::address::Address;
use crate::connection::Connection;
use crate::endpoint::{Endpoint, CONNECT_TIMEOUT};
use crate::Cancellation;

const OK: &[u8] = b"\x00\x01\x00\x02\x00\x00\x00";
const EOF: &[u8] = b"\xfe\x00\x00\x02\x00";

/// The answer to a query.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Ok,
    /// As the server would send it.
    Raw(&'static [u8]),
    Rows(Vec<Vec<&'static str>>),
}

/// The server; its socket goes with it.
pub(crate) struct Scripted {
    path: PathBuf,
}

impl Scripted {
    /// One that answers queries so.
    pub fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("flushlab-scripted-{}-{number}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = answer.clone();
                // A client that leaves ends its conversation with an error: that is its right.
                std::thread::spawn(move || converse(stream, &*answer));
            }
        });
        Self { path }
    }

    /// A connection to it.
    pub fn connect(&self) -> Connection {
        let endpoint = Endpoint {
            user: "u".to_owned(),
            password: "p".to_owned(),
            socket: None,
            host: None,
            port: None,
            get_server_public_key: false,
            local_files: false,
            connect_timeout: CONNECT_TIMEOUT,
        };
        let address = Address::Socket(self.path.to_str().unwrap().to_owned());
        Connection::open(&endpoint, &address, None, &Cancellation::new()).unwrap()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn converse(mut stream: UnixStream, answer: &dyn Fn(&str) -> Reply) -> io::Result<()> {
    let mut inbox = Inbox::new(LARGEST);
    let mut greeting =
        b"\x0a5.5.5-10.11.19-MariaDB\0\x07\0\0\0abcdefgh\0\xfe\xf7\x08\x02\0\xff\x81\x15".to_vec();
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
    send(&mut stream, &mut inbox, &[&greeting])?;
    receive(&mut stream, &mut inbox)?;
    send(&mut stream, &mut inbox, &[OK])?;
    loop {
        inbox.sent(255); // a command begins at sequence number 0
        let command = receive(&mut stream, &mut inbox)?;
        let [0x03, sql @ ..] = &command[..] else {
            return Ok(());
        };
        match answer(&String::from_utf8_lossy(sql)) {
            Reply::Ok => send(&mut stream, &mut inbox, &[OK])?,
            Reply::Raw(payload) => send(&mut stream, &mut inbox, &[payload])?,
            Reply::Rows(rows) => {
                let columns = rows[0].len();
                let mut payloads = vec![vec![columns as u8]];
                payloads.extend(std::iter::repeat_n(b"definition".to_vec(), columns));
                payloads.push(EOF.to_vec());
                for row in rows {
                    let mut payload = Vec::new();
                    row.iter()
                        .for_each(|column| put_lenenc_bytes(&mut payload, column.as_bytes()));
                    payloads.push(payload);
                }
                payloads.push(EOF.to_vec());
                let payloads: Vec<_> = payloads.iter().map(Vec::as_slice).collect();
                send(&mut stream, &mut inbox, &payloads)?;
            }
        }
    }
}

fn receive(stream: &mut UnixStream, inbox: &mut Inbox) -> io::Result<Vec<u8>> {
    while !inbox.ready().unwrap() {
        match stream.read(inbox.spare())? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => inbox.filled(count),
        }
    }
    Ok(inbox.take().unwrap().to_vec())
}

fn send(stream: &mut UnixStream, inbox: &mut Inbox, payloads: &[&[u8]]) -> io::Result<()> {
    let mut out = Vec::new();
    for payload in payloads {
        let sequence = inbox.sequence();
        frame(&mut out, sequence, |out| out.extend_from_slice(payload)).unwrap();
        inbox.sent(sequence);
    }
    stream.write_all(&out)
}
