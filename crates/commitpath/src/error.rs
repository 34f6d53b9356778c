use std::fmt;
use std::io;

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request cannot be carried out as it was written.
    Usage,
    /// The folder or the disk does not let us.
    Storage,
    /// Nothing was measured: a thread is missing or has died.
    Measurement,
}

impl ErrorKind {
    /// `usage`, `storage` or `measurement`.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Storage => "storage",
            Self::Measurement => "measurement",
        }
    }
}

/// What stops a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// What happened, for people.
    pub message: String,
    /// The way out, if one is known.
    pub hint: Option<String>,
    /// The kernel's number, of a storage error.
    pub errno: Option<i32>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            kind,
            message,
            hint: None,
            errno: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// The same error with the way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What the file system answered, about `what`.
    pub(crate) fn storage(what: impl fmt::Display, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space there, or give another --data-root"
            }
            io::ErrorKind::NotFound => "make the folder first, or give another --data-root",
            _ => "give a --data-root that may be written to",
        };
        let mut storage = Self::new(ErrorKind::Storage, format!("{what}: {error}")).hint(hint);
        storage.errno = error.raw_os_error();
        storage
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
