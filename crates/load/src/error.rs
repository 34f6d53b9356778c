use std::any::Any;
use std::fmt;
use std::io;

/// Whose fault it is; the class of exception that the caller raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The server answered with an error, cannot be reached or went away.
    Server,
    /// The peer does not speak the protocol as it must.
    Protocol,
    /// The load could not be measured.
    Measurement,
    /// A file cannot be written.
    Storage,
    /// The request cannot be carried out as it was written.
    Usage,
    /// flushlab itself: a bug.
    Harness,
}

impl ErrorKind {
    /// `server`, `protocol`, `measurement`, `storage`, `usage` or `harness`.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Protocol => "protocol",
            Self::Measurement => "measurement",
            Self::Storage => "storage",
            Self::Usage => "usage",
            Self::Harness => "harness",
        }
    }
}

/// What stops a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// The server's error number, if the server answered.
    pub errno: Option<u16>,
    /// The server's SQLSTATE, if the server answered.
    pub sqlstate: Option<String>,
    /// What happened, for people; never contains a password.
    pub message: String,
    /// The way out, if one is known.
    pub hint: Option<String>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            errno: None,
            sqlstate: None,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// What is made of a thread that panicked: what it said.
    pub fn panicked(said: &(dyn Any + Send)) -> Self {
        let text = said.downcast_ref::<&str>().copied();
        let text = text.or_else(|| said.downcast_ref::<String>().map(String::as_str));
        let message = format!(
            "a thread of flushlab panicked: {}",
            text.unwrap_or("it said nothing")
        );
        Self::new(ErrorKind::Harness, message).hint("this is a bug: please report it with this message")
    }

    /// The same error with the way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A failed read or write on an established connection.
    pub(crate) fn lost(peer: &str, error: &io::Error) -> Self {
        let what = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "did not answer in time".to_owned(),
            io::ErrorKind::UnexpectedEof => "closed the connection".to_owned(),
            _ => format!("is gone: {error}"),
        };
        Self::new(ErrorKind::Server, format!("the server at {peer} {what}"))
    }

    /// The same error with what was being done in front of its message.
    pub(crate) fn during(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl From<flushlab_protocol::Error> for Error {
    fn from(error: flushlab_protocol::Error) -> Self {
        match error {
            flushlab_protocol::Error::Protocol(message) => Self::new(ErrorKind::Protocol, message),
            flushlab_protocol::Error::Unspoken { what, hint } => {
                Self::new(ErrorKind::Server, what).hint(hint)
            }
            flushlab_protocol::Error::Server(error) => Self {
                kind: ErrorKind::Server,
                errno: Some(error.errno),
                hint: way_out(error.errno).map(str::to_owned),
                sqlstate: Some(error.sqlstate),
                message: error.message,
            },
        }
    }
}

/// What helps against a server's refusal, by its error number (MySQL manual, "Server Error Message
/// Reference"; MariaDB has the same numbers).
fn way_out(errno: u16) -> Option<&'static str> {
    Some(match errno {
        1040 => "raise max_connections (--set max_connections=N), or take fewer --threads",
        1129 => "the server blocks this host after failed connections: FLUSH HOSTS there",
        1153 => "raise max_allowed_packet (--set max_allowed_packet=N), or write fewer rows per statement",
        1203 => "raise max_user_connections, or take fewer --threads",
        1226 => "the account has limits (ALTER USER … WITH MAX_USER_CONNECTIONS 0 …)",
        1461 => "raise max_prepared_stmt_count, or take fewer --threads or --tables",
        3159 => "the server takes encrypted connections only: --transport tcp --ssl-mode required",
        _ => return None,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (self.errno, &self.sqlstate) {
            (Some(errno), Some(sqlstate)) => write!(f, " (error {errno}, SQLSTATE {sqlstate})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Errors with which a server ends connections or does not take new ones for now: shutdown (1053, 1079),
/// too many connections (1040, 1203), killed (1927 MariaDB, 3169 MySQL), not ready (3168; 1047 of a Galera node
/// without a quorum), idle too long (4031), and those of its side of the network (1152-1161).
pub(crate) fn is_passing(errno: u16) -> bool {
    matches!(
        errno,
        1040 | 1047 | 1053 | 1079 | 1152..=1161 | 1203 | 1927 | 3168 | 3169 | 4031
    )
}
