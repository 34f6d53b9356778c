//! For the tests of this crate: a server on a unix socket that lets everybody in and answers queries as it is told.

#[path = "../tests/server/mod.rs"]
mod server;

use std::io;

use server::{Conversation, Socket, OK};

use crate::address::Address;
use crate::connection::Connection;
use crate::endpoint::{Endpoint, CONNECT_TIMEOUT};
use crate::Cancellation;

/// The answer to a query.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Ok,
    /// As the server would send it.
    Raw(&'static [u8]),
    Rows(Vec<Vec<&'static str>>),
}

/// The server.
pub(crate) struct Scripted(Socket);

impl Scripted {
    /// One that answers queries so.
    pub fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self(Socket::listen(|| (), move |_, client| converse(client, &answer)))
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
        let address = Address::Socket(self.0.path.to_str().unwrap().to_owned());
        Connection::open(&endpoint, &address, None, &Cancellation::new()).unwrap()
    }
}

fn converse(mut client: Conversation, answer: &dyn Fn(&str) -> Reply) -> io::Result<()> {
    client.greet()?;
    client.send(&[OK])?;
    loop {
        let command = client.command()?;
        let [0x03, sql @ ..] = &command[..] else {
            return Ok(());
        };
        match answer(&String::from_utf8_lossy(sql)) {
            Reply::Ok => client.send(&[OK])?,
            Reply::Raw(payload) => client.send(&[payload])?,
            Reply::Rows(rows) => client.send_rows(&rows)?,
        }
    }
}
