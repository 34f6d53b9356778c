use std::borrow::Cow;
use std::fmt;

/// An ERR packet: the server's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The server's error number.
    pub errno: u16,
    /// Five characters; `HY000` where the server sent none.
    pub sqlstate: String,
    /// The server's message, at most 512 bytes of it.
    pub message: String,
}

/// Longest message that a server's error log or a `SIGNAL` yields (MYSQL_ERRMSG_SIZE).
const MESSAGE_LIMIT: usize = 512;

impl ServerError {
    /// Parses a payload that begins with 0xFF. Errors before the handshake carry no SQLSTATE.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let [0xFF, errno @ ..] = payload else {
            return Err(Error::protocol("an ERR packet does not begin with 0xFF"));
        };
        let Some((errno, mut rest)) = errno.split_first_chunk() else {
            return Err(Error::protocol("an ERR packet ends inside its error number"));
        };
        let mut sqlstate = "HY000".to_owned();
        if let [b'#', state @ ..] = rest {
            let Some((state, text)) = state.split_at_checked(5) else {
                return Err(Error::protocol("an ERR packet ends inside its SQLSTATE"));
            };
            sqlstate = String::from_utf8_lossy(state).into_owned();
            rest = text;
        }
        let message = &rest[..rest.len().min(MESSAGE_LIMIT)];
        Ok(Self {
            errno: u16::from_le_bytes(*errno),
            sqlstate,
            message: String::from_utf8_lossy(message).into_owned(),
        })
    }
}

/// Why a conversation cannot go on as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The peer does not speak the protocol as it must.
    Protocol(Cow<'static, str>),
    /// The server asks for something that it may ask for, but that is not spoken here.
    Unspoken {
        /// What it is.
        what: String,
        /// What helps.
        hint: &'static str,
    },
    /// The server answered with an error; the connection may still be usable.
    Server(ServerError),
}

impl Error {
    pub(crate) fn protocol(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Protocol(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(message) => f.write_str(message),
            Self::Unspoken { what, .. } => f.write_str(what),
            Self::Server(error) => write!(
                f,
                "{} (error {}, SQLSTATE {})",
                error.message, error.errno, error.sqlstate
            ),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_before_the_handshake_has_no_sqlstate() {
        let error = ServerError::parse(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!(error.errno, 1040);
        assert_eq!(error.sqlstate, "HY000");
        assert_eq!(error.message, "Too many connections");
    }

    #[test]
    fn an_error_after_the_handshake_carries_its_sqlstate() {
        let error = ServerError::parse(b"\xff\xbd\x04#40001Deadlock found").unwrap();
        assert_eq!((error.errno, error.sqlstate.as_str()), (1213, "40001"));
        assert_eq!(error.message, "Deadlock found");
    }

    #[test]
    fn a_truncated_error_is_a_protocol_error() {
        for payload in [&b"\xff"[..], b"\xff\x10", b"\xff\x10\x04#4000", b"\x00\x10\x04"] {
            assert!(matches!(ServerError::parse(payload), Err(Error::Protocol(_))));
        }
    }

    #[test]
    fn a_message_longer_than_a_server_sends_is_cut() {
        let mut payload = b"\xff\x10\x04".to_vec();
        payload.extend(std::iter::repeat_n(b'x', 100_000));
        assert_eq!(ServerError::parse(&payload).unwrap().message.len(), MESSAGE_LIMIT);
    }
}
