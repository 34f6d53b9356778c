//! From greeting to OK: the authentication conversation as a state machine.

use std::fmt;

use crate::auth::{encrypt_password, Plugin, NONCE};
use crate::field::Reader;
use crate::handshake::{put_response, Handshake, Response};
use crate::packet::LARGEST;
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
    /// Nobody can listen (a unix socket, TLS): the password may then go as it is, which
    /// `mysql_clear_password` and the full exchange of `caching_sha2_password` want. Otherwise the former is
    /// refused, and the latter sends it under the server's RSA key, if that is taken.
    pub private_channel: bool,
    /// On a channel that is not private the server's RSA key is asked for and taken unseen: who can put himself
    /// between could send his own and read the password. `--get-server-public-key` of MySQL's clients.
    pub get_server_public_key: bool,
    /// LOAD DATA LOCAL may ask for what stands for a file; nothing is read from a disk here.
    pub local_files: bool,
    /// The conversation goes on under TLS, which was asked for before.
    pub tls: bool,
}

impl fmt::Debug for Credentials<'_> {
    /// Never shows the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("database", &self.database)
            .field("private_channel", &self.private_channel)
            .field("get_server_public_key", &self.get_server_public_key)
            .field("local_files", &self.local_files)
            .field("tls", &self.tls)
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
    ///
    /// # Errors
    /// None of what a server can do; they are those of [`Plugin::answer`].
    pub fn begin(credentials: Credentials<'a>, handshake: &Handshake) -> Result<(Self, Vec<u8>), Error> {
        // Any other default plugin is no reason to give up: the account may have another one, to which the
        // server then switches, with a nonce that fits.
        let plugin = match Plugin::named(&handshake.plugin) {
            Some(plugin @ (Plugin::Native | Plugin::CachingSha2)) => plugin,
            _ => Plugin::Native,
        };
        let login = Self {
            credentials,
            plugin,
            nonce: handshake.nonce,
            awaits_key: false,
            steps: 0,
        };
        let mut payload = Vec::new();
        let response = Response {
            user: credentials.user,
            auth: &login.answer(&handshake.nonce)?,
            database: credentials.database,
            plugin: plugin.name(),
            max_packet: LARGEST as u32,
            local_files: credentials.local_files,
            tls: credentials.tls,
        };
        put_response(&mut payload, response);
        Ok((login, payload))
    }

    fn answer(&self, nonce: &[u8]) -> Result<Vec<u8>, Error> {
        self.plugin.answer(self.credentials.password.as_bytes(), nonce)
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
            [0xFE] => Err(Error::Unspoken {
                what: "the server asks for the authentication of MySQL before 4.1".to_owned(),
                hint: "give the account a new password there",
            }),
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
        let nonce = reader.rest();
        self.plugin = Plugin::named(name).ok_or_else(|| unspoken(name))?;
        if self.plugin == Plugin::Clear && !self.credentials.private_channel {
            return Err(Error::Unspoken {
                what: "the server asks for the password in the clear (mysql_clear_password), where others \
                       could read it"
                    .to_owned(),
                hint: "connect over TLS (--transport tcp --ssl-mode required) or the unix socket",
            });
        }
        if let Some(nonce) = nonce.first_chunk() {
            self.nonce = *nonce; // caching_sha2_password comes back to it
        }
        self.awaits_key = false;
        Ok(Step::Send(self.answer(nonce)?))
    }

    /// `caching_sha2_password` beyond the scramble (MySQL source, sql/auth/sha2_password.cc).
    fn more(&mut self, data: &[u8]) -> Result<Step, Error> {
        const FAST_AUTH_SUCCEEDED: u8 = 3;
        const PERFORM_FULL_AUTH: u8 = 4;
        const REQUEST_PUBLIC_KEY: u8 = 2;
        if self.plugin != Plugin::CachingSha2 {
            return Err(Error::protocol(format!(
                "the server asks for more than {} has",
                self.plugin.name()
            )));
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
            [PERFORM_FULL_AUTH] if !self.credentials.get_server_public_key => Err(Error::Unspoken {
                what: "the server asks for the password under an RSA key that it would send itself \
                       (caching_sha2_password without TLS): whoever sits in between could send another key and \
                       read the password"
                    .to_owned(),
                hint: "connect over TLS (--transport tcp --ssl-mode required) or the unix socket; only where \
                       nobody can sit in between, set the endpoint's get_server_public_key",
            }),
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

fn unspoken(name: &[u8]) -> Error {
    if name == b"sha256_password" {
        return Error::Unspoken {
            what: "the server asks for authentication by \"sha256_password\"".to_owned(),
            // MySQL does not tell whether an account exists: for those that do not it draws a plugin
            // (MySQL source, sql/auth/sql_authentication.cc, decoy_user).
            hint:
                "MySQL may ask for it where no such account exists: check user and host; if it does, give it \
                   caching_sha2_password",
        };
    }
    let name = String::from_utf8_lossy(&name[..name.len().min(64)]);
    Error::Unspoken {
        what: format!("the server asks for authentication by {name:?}"),
        hint:
            "give the account a plugin that flushlab speaks: mysql_native_password, caching_sha2_password, \
               ed25519 (MariaDB) or, over TLS and unix sockets, mysql_clear_password",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::tests::greeting;
    use proptest::prelude::*;

    const SERVER_NONCE: &[u8; NONCE] = b"abcdefghijklmnopqrst";

    fn begin(plugin: &[u8], private_channel: bool) -> (Login<'static>, Vec<u8>) {
        begin_trusting(plugin, private_channel, false)
    }

    fn begin_trusting(
        plugin: &[u8],
        private_channel: bool,
        get_server_public_key: bool,
    ) -> (Login<'static>, Vec<u8>) {
        let handshake = Handshake::parse(&greeting(b"8.0.15", SERVER_NONCE, plugin)).unwrap();
        let credentials = Credentials {
            user: "me",
            password: "secret",
            database: None,
            private_channel,
            get_server_public_key,
            local_files: false,
            tls: false,
        };
        Login::begin(credentials, &handshake).unwrap()
    }

    #[test]
    fn native_password_is_done_after_one_answer() {
        let (mut login, sent) = begin(b"mysql_native_password", false);
        let scramble = Plugin::Native.answer(b"secret", SERVER_NONCE).unwrap();
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
    fn full_sha2_on_an_open_channel_takes_no_key_unasked() {
        let (mut login, _) = begin(b"caching_sha2_password", false);
        let Err(Error::Unspoken { what, hint }) = login.step(b"\x01\x04") else {
            panic!("it had to be refused");
        };
        assert!(
            what.contains("RSA key") && hint.contains("--ssl-mode required"),
            "{what}; {hint}"
        );
        assert!(hint.contains("get_server_public_key"), "{hint}");
    }

    #[test]
    fn full_sha2_on_an_open_channel_asks_for_the_key_and_never_sends_the_password() {
        let (mut login, sent) = begin_trusting(b"caching_sha2_password", false, true);
        assert!(!sent.windows(6).any(|window| window == b"secret"));
        assert_eq!(login.step(b"\x01\x04"), Ok(Step::Send(vec![2])));
        assert!(matches!(login.step(b"\x01not a key"), Err(Error::Protocol(_))));
    }

    #[test]
    fn a_switch_answers_with_the_new_plugin_and_nonce() {
        let (mut login, _) = begin(b"caching_sha2_password", false);
        let due = Plugin::Native.answer(b"secret", b"01234567890123456789").unwrap();
        let step = login.step(b"\xfemysql_native_password\x0001234567890123456789\x00");
        assert_eq!(step, Ok(Step::Send(due)));
    }

    #[test]
    fn a_switch_to_ed25519_signs_its_longer_nonce() {
        let (mut login, _) = begin(b"mysql_native_password", false);
        let nonce = b"0123456789abcdef0123456789abcdef";
        let due = Plugin::Ed25519.answer(b"secret", nonce).unwrap();
        let step = login.step(&[&b"\xfeclient_ed25519\0"[..], nonce].concat());
        assert_eq!(step, Ok(Step::Send(due)));
        let (mut login, _) = begin(b"mysql_native_password", false);
        let short = login.step(&[&b"\xfeclient_ed25519\0"[..], &nonce[1..]].concat());
        assert!(matches!(short, Err(Error::Protocol(_))));
    }

    #[test]
    fn a_clear_password_goes_over_private_channels_only() {
        let (mut login, _) = begin(b"mysql_native_password", true);
        assert_eq!(
            login.step(b"\xfemysql_clear_password\0"),
            Ok(Step::Send(b"secret\0".to_vec()))
        );
        let (mut login, _) = begin(b"mysql_clear_password", false);
        let Err(Error::Unspoken { what, hint }) = login.step(b"\xfemysql_clear_password\0") else {
            panic!("it had to be refused");
        };
        assert!(
            what.contains("mysql_clear_password") && hint.contains("TLS"),
            "{what}; {hint}"
        );
    }

    #[test]
    fn an_unknown_plugin_is_named_with_those_that_are_spoken() {
        let (mut login, _) = begin(b"mysql_native_password", false);
        let Err(Error::Unspoken { what, hint }) = login.step(b"\xfeauth_gssapi_client\0") else {
            panic!("it had to be refused");
        };
        assert!(what.contains("auth_gssapi_client"), "{what}");
        assert!(hint.contains("caching_sha2_password"), "{hint}");
    }

    #[test]
    fn the_authentication_before_4_1_is_refused() {
        let (mut login, _) = begin(b"mysql_native_password", false);
        assert!(matches!(login.step(b"\xfe"), Err(Error::Unspoken { .. })));
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
