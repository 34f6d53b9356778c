//! Everything that reads a server's bytes, driven by arbitrary ones: the body of the fuzz target, and of the test
//! that needs no fuzzer (`tests/mutations.rs`).

use flushlab_protocol::handshake::Handshake;
use flushlab_protocol::login::{Credentials, Login, Step as LoginStep};
use flushlab_protocol::packet::Inbox;
use flushlab_protocol::response::{text_columns, Preparation, Response, Step};
use flushlab_protocol::Error;

/// Longest packet that is taken.
pub const LIMIT: usize = 1 << 20;

/// Reads `input` as what a server sends; its first byte says what the client waits for. A panic is a defect; who
/// calls watches what is allocated as well.
pub fn exercise(input: &[u8]) {
    let Some((waits_for, mut bytes)) = input.split_first() else {
        return;
    };
    let mut client = match waits_for % 4 {
        0 => Client::Greeting { private: false },
        1 => Client::Greeting { private: true },
        2 => Client::Response(Response::new()),
        _ => Client::Preparation(Preparation::new()),
    };
    let mut inbox = Inbox::new(LIMIT);
    while !bytes.is_empty() {
        let spare = inbox.spare();
        let count = spare.len().min(bytes.len());
        spare[..count].copy_from_slice(&bytes[..count]);
        inbox.filled(count);
        bytes = &bytes[count..];
        while let Ok(true) = inbox.ready() {
            let read = inbox.take().and_then(|payload| client.read(payload));
            match read {
                Ok(next) => client = next,
                Err(Error::Server(_)) => client = Client::Response(Response::new()),
                Err(_) => return,
            }
        }
    }
}

/// What is waited for.
enum Client {
    Greeting { private: bool },
    Login(Login<'static>),
    Response(Response),
    Preparation(Preparation),
}

impl Client {
    /// Takes a payload; what is waited for then.
    fn read(self, payload: &[u8]) -> Result<Self, Error> {
        Ok(match self {
            Self::Greeting { private } => {
                let credentials = Credentials {
                    user: "me",
                    password: "a test password",
                    database: None,
                    private_channel: private,
                    get_server_public_key: true,
                    local_files: true,
                    tls: false,
                };
                Self::Login(Login::begin(credentials, &Handshake::parse(payload)?)?.0)
            }
            Self::Login(mut login) => match login.step(payload)? {
                LoginStep::Send(_) | LoginStep::Wait => Self::Login(login),
                LoginStep::Done => Self::Response(Response::to_load()),
            },
            Self::Response(mut response) => match response.step(payload)? {
                Step::More | Step::File => Self::Response(response),
                Step::Row(row) => {
                    text_columns(row).for_each(drop);
                    Self::Response(response)
                }
                Step::Done(_) => Self::Response(Response::new()),
            },
            Self::Preparation(mut preparation) => match preparation.step(payload)? {
                None => Self::Preparation(preparation),
                Some(_) => Self::Response(Response::new()),
            },
        })
    }
}
