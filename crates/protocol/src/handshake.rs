//! The server's greeting (protocol version 10) and the client's answer.

use crate::auth::NONCE;
use crate::field::{put_lenenc_bytes, Reader};
use crate::{Error, ServerError};

/// Capability bits (MySQL internals manual, "Capability Flags").
pub mod capability {
    /// Old flag, always set.
    pub const LONG_PASSWORD: u32 = 1;
    /// Longer flags in column definitions.
    pub const LONG_FLAG: u32 = 1 << 2;
    /// The answer names a database.
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    /// LOAD DATA LOCAL may ask for what stands for a file.
    pub const LOCAL_FILES: u32 = 1 << 7;
    /// The protocol since 4.1.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// The connection goes on under TLS.
    pub const SSL: u32 = 1 << 11;
    /// Status flags in OK and EOF.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// Nonces of 20 bytes.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// A statement may answer with several results (CALL).
    pub const MULTI_RESULTS: u32 = 1 << 17;
    /// Authentication plugins are named.
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    /// What every server that flushlab talks to must offer.
    pub const REQUIRED: u32 = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH;
}

/// `utf8mb4_general_ci`: known to every MySQL since 5.5 and every MariaDB.
const CHARSET_UTF8MB4: u8 = 45;

/// A server's greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// As the server names itself, without the `5.5.5-` that MariaDB before 11 puts in front.
    pub version: String,
    /// Id of the connection on the server.
    pub connection_id: u32,
    /// Its capability bits.
    pub capabilities: u32,
    /// Fresh random bytes.
    pub nonce: [u8; NONCE],
    /// Name of the plugin that the server prefers.
    pub plugin: Vec<u8>,
}

impl Handshake {
    /// Whether the server takes a request for TLS.
    pub fn offers_tls(&self) -> bool {
        self.capabilities & capability::SSL != 0
    }

    /// Parses the first payload of a connection, which may be an error instead
    /// (too many connections, host blocked).
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(payload);
        match reader.u8()? {
            10 => {}
            0xFF => return Err(Error::Server(ServerError::parse(payload)?)),
            other => {
                return Err(Error::protocol(format!(
                    "the server greets with protocol version {other}; 10 was due"
                )))
            }
        }
        let version = reader.null_terminated()?;
        let connection_id = reader.u32()?;
        let nonce_start = reader.bytes(8)?;
        reader.bytes(1)?;
        let mut capabilities = u32::from(reader.u16()?);
        reader.bytes(1 + 2)?; // charset, status
        capabilities |= u32::from(reader.u16()?) << 16;
        if capabilities & capability::REQUIRED != capability::REQUIRED {
            return Err(Error::protocol(format!(
                "the server offers capabilities {capabilities:#010x}; {:#010x} are needed (MySQL 5.5 and later have them)",
                capability::REQUIRED
            )));
        }
        reader.bytes(1 + 10)?; // length of the nonce, which is 21 in every server; reserved
        let nonce_end = reader.bytes(NONCE - 8)?;
        reader.bytes(1)?;
        // A server without the final NUL (MySQL bug 59453) is understood too.
        let plugin = reader.rest().split(|&byte| byte == 0).next().unwrap_or_default();

        let mut nonce = [0; NONCE];
        nonce[..8].copy_from_slice(nonce_start);
        nonce[8..].copy_from_slice(nonce_end);
        let version = version.strip_prefix(b"5.5.5-").unwrap_or(version);
        Ok(Self {
            version: String::from_utf8_lossy(version).into_owned(),
            connection_id,
            capabilities,
            nonce,
            plugin: plugin.to_vec(),
        })
    }
}

/// Client's side of the capabilities.
fn capabilities(with_database: bool, local_files: bool, tls: bool) -> u32 {
    let when = |wanted: bool, bit: u32| if wanted { bit } else { 0 };
    capability::REQUIRED
        | capability::LONG_PASSWORD
        | capability::LONG_FLAG
        | capability::TRANSACTIONS
        | capability::MULTI_RESULTS
        | when(with_database, capability::CONNECT_WITH_DB)
        | when(local_files, capability::LOCAL_FILES)
        | when(tls, capability::SSL)
}

/// What an answer and a request for TLS begin with.
fn put_head(out: &mut Vec<u8>, capabilities: u32, max_packet: u32) {
    out.extend_from_slice(&capabilities.to_le_bytes());
    out.extend_from_slice(&max_packet.to_le_bytes());
    out.push(CHARSET_UTF8MB4);
    out.extend_from_slice(&[0; 23]);
}

/// Appends the payload that asks for TLS; the handshake of TLS follows, then [`put_response`].
pub fn put_ssl_request(out: &mut Vec<u8>, with_database: bool, local_files: bool, max_packet: u32) {
    put_head(out, capabilities(with_database, local_files, true), max_packet);
}

/// The client's answer to a greeting.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    /// Account name.
    pub user: &'a str,
    /// First answer to the nonce; at most 250 bytes.
    pub auth: &'a [u8],
    /// Default database.
    pub database: Option<&'a str>,
    /// Name of the plugin that made `auth`.
    pub plugin: &'a str,
    /// Longest packet that the client takes.
    pub max_packet: u32,
    /// LOAD DATA LOCAL may ask for what stands for a file.
    pub local_files: bool,
    /// It goes out under TLS.
    pub tls: bool,
}

/// Appends the payload of the client's answer to a greeting.
pub fn put_response(out: &mut Vec<u8>, response: Response<'_>) {
    put_head(
        out,
        capabilities(response.database.is_some(), response.local_files, response.tls),
        response.max_packet,
    );
    put_null_terminated(out, response.user.as_bytes());
    debug_assert!(response.auth.len() < 251, "one length byte (SECURE_CONNECTION)");
    put_lenenc_bytes(out, response.auth);
    if let Some(database) = response.database {
        put_null_terminated(out, database.as_bytes());
    }
    put_null_terminated(out, response.plugin.as_bytes());
}

fn put_null_terminated(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().copied().filter(|&byte| byte != 0));
    out.push(0);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A greeting as servers build it.
    pub(crate) fn greeting(version: &[u8], nonce: &[u8; NONCE], plugin: &[u8]) -> Vec<u8> {
        let mut out = vec![10];
        out.extend_from_slice(version);
        out.push(0);
        out.extend_from_slice(&7u32.to_le_bytes());
        out.extend_from_slice(&nonce[..8]);
        out.push(0);
        out.extend_from_slice(&0xF7FEu16.to_le_bytes());
        out.push(8);
        out.extend_from_slice(&2u16.to_le_bytes());
        out.extend_from_slice(&0x81FFu16.to_le_bytes());
        out.push(21);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(&nonce[8..]);
        out.push(0);
        out.extend_from_slice(plugin);
        out.push(0);
        out
    }

    #[test]
    fn mariadbs_greeting_is_read_without_its_version_prefix() {
        let payload = greeting(
            b"5.5.5-10.11.19-MariaDB",
            b"abcdefghijklmnopqrst",
            b"mysql_native_password",
        );
        let handshake = Handshake::parse(&payload).unwrap();
        assert_eq!(handshake.version, "10.11.19-MariaDB");
        assert_eq!(handshake.connection_id, 7);
        assert_eq!(&handshake.nonce, b"abcdefghijklmnopqrst");
        assert_eq!(handshake.plugin, b"mysql_native_password");
    }

    #[test]
    fn too_many_connections_instead_of_a_greeting_is_the_servers_error() {
        let Err(Error::Server(error)) = Handshake::parse(b"\xff\x10\x04Too many connections") else {
            panic!("a server's error was due");
        };
        assert_eq!(error.errno, 1040);
    }

    #[test]
    fn an_old_protocol_and_missing_capabilities_are_protocol_errors() {
        assert!(matches!(Handshake::parse(b"\x093.20\0"), Err(Error::Protocol(_))));
        let mut payload = greeting(b"8.0", b"abcdefghijklmnopqrst", b"x");
        let capabilities = 1 + 4 + 4 + 8 + 1;
        payload[capabilities + 1] = 0;
        assert!(matches!(Handshake::parse(&payload), Err(Error::Protocol(_))));
    }

    #[test]
    fn a_greeting_cut_anywhere_before_its_plugin_is_a_protocol_error() {
        let payload = greeting(b"8.0.15", b"abcdefghijklmnopqrst", b"");
        for end in 0..payload.len() - 1 {
            assert!(
                matches!(Handshake::parse(&payload[..end]), Err(Error::Protocol(_))),
                "cut at {end}"
            );
        }
    }

    const ANSWER: Response<'static> = Response {
        user: "me",
        auth: b"\x01\x02",
        database: Some("db"),
        plugin: "mysql_native_password",
        max_packet: 0x0100_0000,
        local_files: false,
        tls: false,
    };

    #[test]
    fn a_request_for_tls_is_the_head_of_the_answer_that_follows() {
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        put_ssl_request(&mut request, true, false, 0x0100_0000);
        put_response(&mut answer, Response { tls: true, ..ANSWER });
        assert_eq!(request.len(), 32);
        assert_eq!(request[..5], *b"\x0d\xaa\x0a\x00\x00");
        assert!(answer.starts_with(&request));
    }

    #[test]
    fn the_answer_has_the_manuals_bytes() {
        let mut out = Vec::new();
        put_response(&mut out, ANSWER);
        let mut due = b"\x0d\xa2\x0a\x00\x00\x00\x00\x01\x2d".to_vec();
        due.extend_from_slice(&[0; 23]);
        due.extend_from_slice(b"me\0\x02\x01\x02db\0mysql_native_password\0");
        assert_eq!(out, due);
    }

    proptest! {
        #[test]
        fn greetings_round_trip(version in "[1-9][0-9.]{0,20}", nonce: [u8; NONCE], plugin in "[a-z_]{0,30}") {
            let handshake = Handshake::parse(&greeting(version.as_bytes(), &nonce, plugin.as_bytes())).unwrap();
            prop_assert_eq!(handshake.nonce, nonce);
            prop_assert_eq!(handshake.plugin, plugin.as_bytes());
        }

        #[test]
        fn arbitrary_greetings_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            let _ = Handshake::parse(&bytes);
            bytes[0] = 10;
            let _ = Handshake::parse(&bytes);
        }
    }
}
