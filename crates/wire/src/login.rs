//! From greeting to OK: the authentication conversation as a state machine.

use std::fmt;

use crate::auth::{encrypt_password, Plugin, NONCE};
use crate::field::Reader;
use crate::handshake::{put_response, Handshake};
use crate::packet::MAX_PAYLOAD;
use crate::{Error, ServerError};

/// Who logs in, and where to.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// Account name.
    pub user: &'a str,
    /// Its password; may be empty.
    pub password: &'a str,
    /// Default database, if there is to be one.
    pub database: Option<&'a str>,
    /// Nobody can listen (a unix socket): the full `caching_sha2_password` exchange may then send
    /// the password as it is. Otherwise it goes under the server's RSA key.
    pub private_channel: bool,
}

impl fmt::Debug for Credentials<'_> {
    /// Never shows the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("database", &self.database)
            .field("private_channel", &self.private_channel)
            .finish_non_exhaustive()
    }
}

/// What to do after a packet of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this payload, then read on.
    Send(Vec<u8>),
    /// Read on.
    Wait,
    /// Logged in.
    Done,
}

/// Packets that a login may take: greeting, switch, key, OK are six at most in a real server.
const MAX_STEPS: u8 = 16;

/// A login under way.
#[derive(Debug)]
pub struct Login<'a> {
    credentials: Credentials<'a>,
    plugin: Plugin,
    nonce: [u8; NONCE],
    awaits_key: bool,
    steps: u8,
}

impl<'a> Login<'a> {
    /// Answers a greeting: the login and the payload to send.
    pub fn begin(credentials: Credentials<'a>, handshake: &Handshake) -> (Self, Vec<u8>) {
        // An unknown default plugin is no reason to give up: the account may have another one, to
        // which the server then switches.
        let plugin = Plugin::named(&handshake.plugin).unwrap_or(Plugin::Native);
        let login = Self {
            credentials,
            plugin,
            nonce: handshake.nonce,
            awaits_key: false,
            steps: 0,
        };
        let mut payload = Vec::new();
        put_response(
            &mut payload,
            credentials.user,
            &login.scramble(),
            credentials.database,
            plugin.name(),
            MAX_PAYLOAD as u32,
        );
        (login, payload)
    }

    fn scramble(&self) -> Vec<u8> {
        self.plugin
            .scramble(self.credentials.password.as_bytes(), &self.nonce)
    }

    /// Takes the server's next payload.
    pub fn step(&mut self, payload: &[u8]) -> Result<Step, Error> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Error::protocol(format!(
                "the login takes more than {MAX_STEPS} packets"
            )));
        }
        match payload {
            [0x00, ..] => Ok(Step::Done),
            [0xFF, ..] => Err(Error::Server(ServerError::parse(payload)?)),
            [0xFE] => Err(Error::protocol(
                "the server asks for the authentication of MySQL before 4.1, which flushlab does not speak",
            )),
            [0xFE, request @ ..] => self.switch(request),
            [0x01, data @ ..] => self.more(data),
            _ => Err(Error::protocol(
                "the server's answer to the login is no known packet",
            )),
        }
    }

    fn switch(&mut self, request: &[u8]) -> Result<Step, Error> {
        let mut reader = Reader::new(request);
        let name = reader.null_terminated()?;
        self.plugin = Plugin::named(name).ok_or_else(|| {
            Error::protocol(format!(
                "the server asks for authentication by {:?}; flushlab speaks mysql_native_password and \
                 caching_sha2_password",
                String::from_utf8_lossy(&name[..name.len().min(64)])
            ))
        })?;
        self.nonce = reader.rest().first_chunk::<NONCE>().copied().ok_or_else(|| {
            Error::protocol("the server switches the authentication with a nonce under 20 bytes")
        })?;
        self.awaits_key = false;
        Ok(Step::Send(self.scramble()))
    }

    /// `caching_sha2_password` beyond the scramble (MySQL source, sql/auth/sha2_password.cc).
    fn more(&mut self, data: &[u8]) -> Result<Step, Error> {
        const FAST_AUTH_SUCCEEDED: u8 = 3;
        const PERFORM_FULL_AUTH: u8 = 4;
        const REQUEST_PUBLIC_KEY: u8 = 2;
        if self.plugin != Plugin::CachingSha2 {
            return Err(Error::protocol(
                "the server asks for more than mysql_native_password has",
            ));
        }
        let password = self.credentials.password.as_bytes();
        match data {
            key if self.awaits_key => {
                self.awaits_key = false;
                Ok(Step::Send(encrypt_password(password, &self.nonce, key)?))
            }
            [FAST_AUTH_SUCCEEDED] => Ok(Step::Wait),
            [PERFORM_FULL_AUTH] if self.credentials.private_channel => {
                Ok(Step::Send([password, &[0]].concat()))
            }
            [PERFORM_FULL_AUTH] => {
                self.awaits_key = true;
                Ok(Step::Send(vec![REQUEST_PUBLIC_KEY]))
            }
            _ => Err(Error::protocol(
                "the server continues caching_sha2_password in an unknown way",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::tests::greeting;
    use proptest::prelude::*;

    const SERVER_NONCE: &[u8; NONCE] = b"abcdefghijklmnopqrst";

    fn begin(plugin: &[u8], private_channel: bool) -> (Login<'static>, Vec<u8>) {
        let handshake = Handshake::parse(&greeting(b"8.0.15", SERVER_NONCE, plugin)).unwrap();
        let credentials = Credentials {
            user: "me",
            password: "secret",
            database: None,
            private_channel,
        };
        Login::begin(credentials, &handshake)
    }

    #[test]
    fn native_password_is_done_after_one_answer() {
        let (mut login, sent) = begin(b"mysql_native_password", false);
        let scramble = Plugin::Native.scramble(b"secret", SERVER_NONCE);
        assert!(sent.windows(20).any(|window| window == scramble));
        assert_eq!(login.step(b"\x00\x00\x00\x02\x00\x00\x00"), Ok(Step::Done));
    }

    #[test]
    fn fast_sha2_waits_for_the_ok() {
        let (mut login, _) = begin(b"caching_sha2_password", false);
        assert_eq!(login.step(b"\x01\x03"), Ok(Step::Wait));
        assert_eq!(login.step(b"\x00\x00\x00\x02\x00\x00\x00"), Ok(Step::Done));
    }

    #[test]
    fn full_sha2_on_a_private_channel_sends_the_password() {
        let (mut login, _) = begin(b"caching_sha2_password", true);
        assert_eq!(login.step(b"\x01\x04"), Ok(Step::Send(b"secret\0".to_vec())));
    }

    #[test]
    fn full_sha2_on_an_open_channel_asks_for_the_key_and_never_sends_the_password() {
        let (mut login, sent) = begin(b"caching_sha2_password", false);
        assert!(!sent.windows(6).any(|window| window == b"secret"));
        assert_eq!(login.step(b"\x01\x04"), Ok(Step::Send(vec![2])));
        assert!(matches!(login.step(b"\x01not a key"), Err(Error::Protocol(_))));
    }

    #[test]
    fn a_switch_answers_with_the_new_plugin_and_nonce() {
        let (mut login, _) = begin(b"caching_sha2_password", false);
        let due = Plugin::Native.scramble(b"secret", b"01234567890123456789");
        let step = login.step(b"\xfemysql_native_password\x0001234567890123456789\x00");
        assert_eq!(step, Ok(Step::Send(due)));
    }

    #[test]
    fn an_unknown_plugin_is_named_in_the_error() {
        let (mut login, _) = begin(b"mysql_native_password", false);
        let Err(Error::Protocol(message)) = login.step(b"\xfemysql_clear_password\0") else {
            panic!("a protocol error was due");
        };
        assert!(message.contains("mysql_clear_password"), "{message}");
    }

    #[test]
    fn an_endless_login_ends() {
        let (mut login, _) = begin(b"caching_sha2_password", false);
        let ended = (0..100).any(|_| login.step(b"\x01\x03").is_err());
        assert!(ended);
    }

    #[test]
    fn credentials_never_show_the_password() {
        let (login, _) = begin(b"mysql_native_password", false);
        assert!(!format!("{login:?}").contains("secret"));
    }

    proptest! {
        #[test]
        fn arbitrary_packets_never_panic(
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..20),
            sha2: bool,
        ) {
            let plugin: &[u8] = if sha2 { b"caching_sha2_password" } else { b"mysql_native_password" };
            let (mut login, _) = begin(plugin, false);
            for packet in packets {
                if login.step(&packet).is_err() {
                    break;
                }
            }
        }
    }
}
