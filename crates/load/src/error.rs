use std::fmt;
use std::io;

/// Whose fault it is; the class of exception that the caller raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The server answered with an error, cannot be reached or went away.
    Server,
    /// The peer does not speak the protocol as it must.
    Protocol,
    /// The load could not be measured.
    Measurement,
    /// The request cannot be carried out as it was written.
    Usage,
}

impl Kind {
    /// `server`, `protocol`, `measurement` or `usage`.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Protocol => "protocol",
            Self::Measurement => "measurement",
            Self::Usage => "usage",
        }
    }
}

/// What stops a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Whose fault it is.
    pub kind: Kind,
    /// The server's error number, if the server answered.
    pub errno: Option<u16>,
    /// The server's SQLSTATE, if the server answered.
    pub sqlstate: Option<String>,
    /// What happened, for people; never contains a password.
    pub message: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            errno: None,
            sqlstate: None,
            message: message.into(),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// A failed read or write on an established connection.
    pub(crate) fn lost(peer: &str, error: &io::Error) -> Self {
        let what = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "did not answer in time".to_owned(),
            io::ErrorKind::UnexpectedEof => "closed the connection".to_owned(),
            _ => format!("is gone: {error}"),
        };
        Self::new(Kind::Server, format!("the server at {peer} {what}"))
    }

    /// The same error with what was being done in front of its message.
    pub(crate) fn during(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl From<flushlab_wire::Error> for Error {
    fn from(error: flushlab_wire::Error) -> Self {
        match error {
            flushlab_wire::Error::Protocol(message) => Self::new(Kind::Protocol, message),
            flushlab_wire::Error::Server(error) => Self {
                kind: Kind::Server,
                errno: Some(error.errno),
                sqlstate: Some(error.sqlstate),
                message: error.message,
            },
        }
    }
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
