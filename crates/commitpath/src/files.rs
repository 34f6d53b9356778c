//! The binlog's files: index, heads, rotation, the IN_USE flag, and the one that is being written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flushlab_binlog::{
    clear_in_use, file_head, file_name, rotate_event, stop_event, Flavor, Format, GtidList, GtidSet, Head,
    Previous,
};

/// Their names before the number.
pub const BASENAME: &str = "binlog";

/// The files of one log.
#[derive(Debug)]
pub(crate) struct Files {
    format: Format,
    folder: PathBuf,
    timestamp: u32,
    index: File,
    /// Shared with whoever syncs it meanwhile.
    file: Arc<File>,
    /// Number of the first file since the start.
    first_number: u32,
    number: u32,
    /// Where the file ends.
    position: u64,
}

impl Files {
    /// Makes the first file and the index.
    pub(crate) fn create(format: &Format, folder: &Path, timestamp: u32) -> io::Result<Self> {
        let index = new_file(&index_path(folder))?;
        Self::start(format, folder, timestamp, index, 1, 0)
    }

    /// Makes the file behind those that were recovered; `last_gtid` is the number of the last GTID in them.
    pub(crate) fn resume(
        format: &Format,
        folder: &Path,
        timestamp: u32,
        last_number: u32,
        last_gtid: u64,
    ) -> io::Result<Self> {
        let index = OpenOptions::new().append(true).open(index_path(folder))?;
        Self::start(format, folder, timestamp, index, last_number + 1, last_gtid)
    }

    fn start(
        format: &Format,
        folder: &Path,
        timestamp: u32,
        index: File,
        number: u32,
        last_gtid: u64,
    ) -> io::Result<Self> {
        let file = new_file(&folder.join(file_name(BASENAME, number)))?;
        let mut files = Self {
            format: format.clone(),
            folder: folder.to_path_buf(),
            timestamp,
            index,
            file: Arc::new(file),
            first_number: number,
            number,
            position: 0,
        };
        files.begin(last_gtid, true)?;
        Ok(files)
    }

    /// The file that is being written.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Where it ends.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Appends to the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !bytes.is_empty() {
            self.file.write_all_at(bytes, self.position)?;
            self.position += bytes.len() as u64;
        }
        Ok(())
    }

    /// Ends the file and begins the next; `last_gtid` is the number of the last GTID before it. With
    /// `durable` both are synced at once, as servers do it; without, the caller syncs the old one later.
    pub(crate) fn rotate(&mut self, last_gtid: u64, durable: bool) -> io::Result<()> {
        let next = file_name(BASENAME, self.number + 1);
        let event = rotate_event(&self.format, self.timestamp, self.position, &next);
        self.write(&event)?;
        clear_in_use(&self.file)?;
        if durable {
            self.file.sync_data()?;
        }
        self.number += 1;
        self.file = Arc::new(new_file(&self.folder.join(next))?);
        self.begin(last_gtid, durable)
    }

    /// Ends the log in good order.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let event = stop_event(&self.format, self.timestamp, self.position);
        self.write(&event)?;
        clear_in_use(&self.file)?;
        self.file.sync_data()
    }

    /// What the file begins with.
    fn head(&self, last_gtid: u64) -> Vec<u8> {
        let name = file_name(BASENAME, self.number);
        let identity = self.format.identity();
        let previous = match (self.format.flavor(), last_gtid) {
            (flavor, 0) => Previous::nothing(flavor),
            (Flavor::Mysql, last) => Previous::Set(GtidSet::of(identity.uuid, 1, last)),
            (Flavor::Mariadb, last) => {
                Previous::List(GtidList::of(identity.domain, identity.server_id, last))
            }
        };
        file_head(
            &self.format,
            &Head {
                timestamp: self.timestamp,
                first: self.number == self.first_number,
                previous: &previous,
                checkpoint: &name,
            },
        )
    }

    fn begin(&mut self, last_gtid: u64, durable: bool) -> io::Result<()> {
        let head = self.head(last_gtid);
        self.position = 0;
        self.write(&head)?;
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

pub(crate) fn index_path(folder: &Path) -> PathBuf {
    folder.join(format!("{BASENAME}.index"))
}

/// Names of the files, oldest first; none if there is no index. A last line that is torn does not count.
pub(crate) fn read_index(folder: &Path) -> io::Result<Vec<String>> {
    let text = match fs::read_to_string(index_path(folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let lines = text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'));
    Ok(lines
        .map(|line| line.trim_start_matches("./").to_owned())
        .collect())
}

/// Makes the index name just these files, at once.
pub(crate) fn write_index(folder: &Path, names: &[String]) -> io::Result<()> {
    let fresh = folder.join(format!("{BASENAME}.index_crash_safe"));
    let mut file = File::create(&fresh)?;
    for name in names {
        writeln!(file, "./{name}")?;
    }
    file.sync_all()?;
    fs::rename(&fresh, index_path(folder))?;
    File::open(folder)?.sync_all()
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
