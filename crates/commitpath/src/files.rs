//! The files of a run: those that it made, which alone it may remove; the binlog's: index, heads, rotation, the
//! IN_USE flag, and the one that is being written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use flushlab_binlog::{
    clear_in_use, file_head, file_name, rotate_event, stop_event, Flavor, Format, GtidList, GtidSet, Head,
    Previous,
};
use parking_lot::Mutex;

use crate::error::Error;
use crate::redo;

/// Names of the binlog's files before the number.
const BASENAME: &str = "binlog";

/// A run's folder, and the files that the run has made there.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    made: Mutex<Vec<PathBuf>>,
}

impl Folder {
    /// A folder in which a run may make its files: none of their names is taken.
    pub(crate) fn new(path: &Path) -> Result<Self, Error> {
        for entry in fs::read_dir(path).map_err(|error| Error::storage(path.display(), &error))? {
            let entry = entry.map_err(|error| Error::storage(path.display(), &error))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name == redo::NAME
                || name
                    .strip_prefix(BASENAME)
                    .is_some_and(|rest| rest.starts_with('.'))
            {
                return Err(Error::usage(format!("{} exists already", entry.path().display()))
                    .hint("give a folder without redo and binlog files"));
            }
        }
        let path = path.to_path_buf();
        Ok(Self {
            path,
            made: Mutex::default(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file that was not there, and remembers it.
    pub(crate) fn make(&self, name: &str) -> io::Result<File> {
        let path = self.path.join(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        self.made.lock().push(path);
        Ok(file)
    }

    /// Removes what was made.
    pub(crate) fn clear(&self) {
        for path in self.made.lock().drain(..) {
            // One that is gone already is as it should be.
            let _ = fs::remove_file(path);
        }
    }
}

/// What files of the binlog begin with.
#[derive(Debug, Clone)]
pub(crate) struct Heads {
    pub(crate) format: Format,
    pub(crate) timestamp: u32,
}

impl Heads {
    /// Of the `number`-th file; `last_gtid` is the number of the last GTID before it.
    pub(crate) fn of(&self, number: u32, last_gtid: u64) -> Vec<u8> {
        let identity = self.format.identity();
        let previous = match (self.format.flavor(), last_gtid) {
            (flavor, 0) => Previous::nothing(flavor),
            (Flavor::Mysql, last) => Previous::Set(GtidSet::of(identity.uuid, 1, last)),
            (Flavor::Mariadb, last) => {
                Previous::List(GtidList::of(identity.domain, identity.server_id, last))
            }
        };
        let head = Head {
            timestamp: self.timestamp,
            first: number == 1,
            previous: &previous,
            checkpoint: &file_name(BASENAME, number),
        };
        file_head(&self.format, &head)
    }
}

/// The binlog.
#[derive(Debug)]
pub(crate) struct Files {
    heads: Heads,
    index: File,
    file: Arc<File>,
    number: u32,
    /// Where the file ends.
    position: u64,
}

impl Files {
    /// Makes the first file and the index.
    pub(crate) fn create(heads: &Heads, folder: &Folder) -> io::Result<Self> {
        let mut files = Self {
            index: folder.make(&format!("{BASENAME}.index"))?,
            file: Arc::new(folder.make(&file_name(BASENAME, 1))?),
            heads: heads.clone(),
            number: 1,
            position: 0,
        };
        files.begin(0, true)?;
        Ok(files)
    }

    /// The file that is being written, shared with whoever syncs it meanwhile.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Where it ends.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Appends the pieces to the file, where they lie, by one call as a rule; how many bytes.
    pub(crate) fn gather<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> io::Result<u64> {
        let mut slices: Vec<_> = pieces.map(IoSlice::new).collect();
        let mut left = slices.as_mut_slice();
        let from = self.position;
        while !left.is_empty() {
            match rustix::io::pwritev(&self.file, left, self.position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.position += written as u64;
                    IoSlice::advance_slices(&mut left, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.position - from)
    }

    /// Ends the file and begins the next; `last_gtid` is the number of the last GTID before it. With
    /// `durable` both are synced at once, as servers do it; without, the caller syncs the old one later.
    pub(crate) fn rotate(&mut self, folder: &Folder, last_gtid: u64, durable: bool) -> io::Result<()> {
        let next = file_name(BASENAME, self.number + 1);
        let event = rotate_event(&self.heads.format, self.heads.timestamp, self.position, &next);
        self.end(&event)?;
        if durable {
            self.file.sync_data()?;
        }
        self.number += 1;
        self.file = Arc::new(folder.make(&next)?);
        self.begin(last_gtid, durable)
    }

    /// Ends the log in good order.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.end(&stop_event(
            &self.heads.format,
            self.heads.timestamp,
            self.position,
        ))?;
        self.file.sync_data()
    }

    fn end(&mut self, event: &[u8]) -> io::Result<()> {
        self.gather([event].into_iter())?;
        clear_in_use(&self.file)
    }

    fn begin(&mut self, last_gtid: u64, durable: bool) -> io::Result<()> {
        let head = self.heads.of(self.number, last_gtid);
        self.position = 0;
        self.gather([head.as_slice()].into_iter())?;
        if durable {
            // As a server does it: a file that the index names is whole up to its head.
            self.file.sync_all()?;
        }
        writeln!(self.index, "./{}", file_name(BASENAME, self.number))?;
        if durable {
            self.index.sync_data()?;
        }
        Ok(())
    }
}

/// What of the binlog is written, and what of that is synced.
#[derive(Debug)]
pub(crate) struct Unsynced {
    written: AtomicU64,
    synced: AtomicU64,
    syncs: AtomicU64,
    /// The file that is written stands last, before it those that were ended and not synced since; who holds this
    /// syncs.
    files: Mutex<Vec<Arc<File>>>,
}

impl Unsynced {
    /// All that the first file has is synced.
    pub(crate) fn new(files: &Files) -> Self {
        Self {
            written: AtomicU64::new(files.position()),
            synced: AtomicU64::new(files.position()),
            syncs: AtomicU64::new(0),
            files: Mutex::new(vec![files.file().clone()]),
        }
    }

    /// So many bytes more were written to the last file.
    pub(crate) fn add(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Release);
    }

    /// What follows is written to another file.
    pub(crate) fn begin(&self, file: &Arc<File>) {
        self.files.lock().push(file.clone());
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Bytes that are written and not synced.
    pub(crate) fn at_risk(&self) -> u64 {
        self.written().saturating_sub(self.synced.load(Ordering::Acquire))
    }

    /// Syncs so far.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Syncs what is written before the call.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let written = self.written();
        let mut files = self.files.lock();
        if self.synced.load(Ordering::Relaxed) >= written {
            return Ok(());
        }
        for file in files.iter() {
            file.sync_data()?;
        }
        let ended = files.len() - 1;
        files.drain(..ended);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.synced.store(written, Ordering::Release);
        Ok(())
    }
}
