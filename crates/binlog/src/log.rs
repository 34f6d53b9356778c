//! Logs: files on disk with their index, rotated by size.
//!
//! One writer, one transaction after the other: for tests, tools and as the plainest example of what
//! [`Body`], [`file_head`] and [`rotate_event`] are for. Who writes in parallel uses those directly.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::body::{Body, Place};
use crate::error::EncodeError;
use crate::event::IN_USE_OFFSET;
use crate::format::{Flavor, Format};
use crate::gtid::{GtidList, GtidSet};
use crate::head::{file_head, rotate_event, stop_event, Head, Previous};

/// Bytes that are gathered before they are written.
const BUFFER_SIZE: usize = 1 << 20;

/// What a log is made with.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// Names of its files before the number: `binlog` gives `binlog.000001`.
    pub basename: String,
    /// Size at which the next file begins, after the transaction that reached it.
    pub max_size: u64,
    /// Seconds since 1970 that its own events carry.
    pub timestamp: u32,
}

/// What stops a log.
#[derive(Debug)]
pub enum LogError {
    /// A file could not be made or written.
    Io(io::Error),
    /// The transaction was not ready to be written.
    Encode(EncodeError),
}

impl std::fmt::Display for LogError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(formatter),
            Self::Encode(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for LogError {}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<EncodeError> for LogError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

/// A log that is being written.
#[derive(Debug)]
pub struct Log {
    format: Format,
    folder: PathBuf,
    options: LogOptions,
    file: File,
    index: File,
    number: u32,
    buffer: Vec<u8>,
    position: u64,
    gtid_number: u64,
    sequence_number: u64,
}

impl Log {
    /// Makes the first file and the index in an existing folder.
    ///
    /// # Errors
    /// A file of that name exists or cannot be made.
    pub fn create(format: &Format, folder: &Path, options: LogOptions) -> io::Result<Self> {
        let new = |name: &str| {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(folder.join(name))
        };
        let name = file_name(&options.basename, 1);
        let mut log = Self {
            format: format.clone(),
            folder: folder.to_path_buf(),
            file: new(&name)?,
            index: new(&format!("{}.index", options.basename))?,
            number: 1,
            buffer: Vec::with_capacity(BUFFER_SIZE),
            position: 0,
            gtid_number: 0,
            sequence_number: 0,
            options,
        };
        log.begin_file()?;
        Ok(log)
    }

    /// Writes a committed transaction behind the others and says where it stands.
    ///
    /// It takes the next GTID and waits for the transaction before it, unless `last_committed` says
    /// that it may run beside those behind that one (MySQL). `commit_id` is the group that it
    /// commits in, 0 for none (MariaDB).
    ///
    /// # Errors
    /// The body is not committed, or the file cannot be written.
    pub fn append(
        &mut self,
        body: &Body,
        commit_us: u64,
        last_committed: Option<u64>,
        commit_id: u64,
    ) -> Result<Place, LogError> {
        if self.position >= self.options.max_size {
            self.rotate()?;
        }
        let size = body.size(commit_id != 0);
        let before = self.sequence_number;
        let place = Place {
            position: self.position,
            gtid_number: self.gtid_number + 1,
            last_committed: last_committed.map_or(before, |wanted| wanted.min(before)),
            sequence_number: before + 1,
            commit_us,
            commit_id,
        };
        if self.buffer.len() as u64 + size > BUFFER_SIZE as u64 {
            self.flush()?;
        }
        let start = self.buffer.len();
        self.buffer.resize(start + size as usize, 0);
        if let Err(error) = body.finish_into(&place, &mut self.buffer[start..]) {
            self.buffer.truncate(start);
            return Err(error.into());
        }
        self.position += size;
        self.gtid_number += 1;
        self.sequence_number += 1;
        Ok(place)
    }

    /// Ends the file and begins the next.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn rotate(&mut self) -> io::Result<()> {
        let next = file_name(&self.options.basename, self.number + 1);
        let event = rotate_event(&self.format, self.options.timestamp, self.position, &next);
        self.buffer.extend(event);
        self.end_file()?;
        self.number += 1;
        self.file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.folder.join(&next))?;
        self.begin_file()
    }

    /// Hands all that was appended to the operating system.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the log in good order: STOP, IN_USE cleared, all on disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn close(mut self) -> io::Result<()> {
        let event = stop_event(&self.format, self.options.timestamp, self.position);
        self.buffer.extend(event);
        self.end_file()
    }

    /// Where the next transaction begins in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of the file that is being written, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The file that is being written.
    pub fn path(&self) -> PathBuf {
        self.folder.join(file_name(&self.options.basename, self.number))
    }

    fn begin_file(&mut self) -> io::Result<()> {
        let name = file_name(&self.options.basename, self.number);
        let identity = self.format.identity();
        let previous = match (self.format.flavor(), self.gtid_number) {
            (flavor, 0) => Previous::nothing(flavor),
            (Flavor::Mysql, last) => Previous::Set(GtidSet::of(identity.uuid, 1, last)),
            (Flavor::Mariadb, last) => {
                Previous::List(GtidList::of(identity.domain, identity.server_id, last))
            }
        };
        let head = file_head(
            &self.format,
            &Head {
                timestamp: self.options.timestamp,
                first: self.number == 1,
                previous: &previous,
                checkpoint: &name,
            },
        );
        self.position = head.len() as u64;
        self.sequence_number = 0;
        self.file.write_all(&head)?;
        writeln!(self.index, "./{name}")
    }

    fn end_file(&mut self) -> io::Result<()> {
        self.flush()?;
        clear_in_use(&self.file)?;
        self.file.sync_data()
    }
}

/// Marks a file as closed in good order; its checksum needs no change.
///
/// # Errors
/// The file cannot be written.
pub fn clear_in_use(file: &File) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.write_all_at(&[0], IN_USE_OFFSET)
}

/// The name of a log's file: the number has six digits, or more if it needs them.
pub fn file_name(basename: &str, number: u32) -> String {
    format!("{basename}.{number:06}")
}
