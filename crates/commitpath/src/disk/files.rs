//! The files that are written, and how a write to them becomes durable.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{fallocate, FallocateFlags, OFlags};
use rustix::io::Errno;

use super::spec::{Error, Layout, Spec, Way};

/// Of the buffers: what O_DIRECT asks for on any device.
pub(crate) const ALIGNMENT: usize = 4096;

/// Longest that a file is prepared for; what is written by then is its size.
const PREPARATION: Duration = Duration::from_secs(2);
const CHUNK: usize = 1 << 20;
/// As the kernel numbers it.
const EINVAL: i32 = Errno::INVAL.raw_os_error();

/// One buffer that starts at a multiple of [`ALIGNMENT`].
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Buffer {
    /// Filled with bytes that no device compresses to nothing.
    pub(crate) fn new(bytes: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let memory: Vec<u8> = (0..bytes + ALIGNMENT)
            .map(|_| {
                state = next_random(state);
                (state >> 32) as u8
            })
            .collect();
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, bytes }
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }
}

/// The next state of a generator whose high bits are random (Steele & Vigna, "Computationally easy,
/// spectrally good multipliers for congruential pseudorandom number generators", 2021).
pub(crate) fn next_random(state: u64) -> u64 {
    state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1)
}

/// A file with what makes a write to it durable.
pub(crate) struct Target {
    file: File,
    way: Way,
    /// The second file of a pair, which grows.
    second: Option<File>,
}

/// Why there is no target.
pub(crate) enum Unfit {
    Refused(String),
    Failed(Error),
}

impl From<Error> for Unfit {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Target {
    /// Makes or reuses the files of a measurement; the size is of the first.
    pub(crate) fn open(spec: &Spec, stop: &dyn Fn() -> bool) -> Result<(Self, u64), Unfit> {
        let path = match spec.layout {
            _ if spec.way == Way::Pair => spec.directory.join("written"),
            Layout::Written => spec.directory.join("written"),
            Layout::Allocated => spec.directory.join("allocated"),
            Layout::Extending => spec.directory.join("extending"),
        };
        let size = match spec.layout {
            Layout::Written => written(&path, spec.file_bytes, stop)?,
            Layout::Allocated => allocated(&path, spec.file_bytes)?,
            Layout::Extending => {
                emptied(&path)?;
                spec.file_bytes
            }
        };
        let file = match opened(&path, flags(spec.way)) {
            Ok(file) => file,
            Err(error) if direct(spec.way) && error.raw_os_error() == Some(EINVAL) => {
                return Err(Unfit::Refused("the file system has no O_DIRECT".to_owned()));
            }
            Err(error) => return Err(failed("opening", &path, error).into()),
        };
        let second = match spec.way {
            Way::Pair => Some(emptied(&spec.directory.join("extending"))?),
            _ => None,
        };
        Ok((
            Self {
                file,
                way: spec.way,
                second,
            },
            size,
        ))
    }

    /// One operation: a write, and what makes it durable.
    pub(crate) fn write(&self, buffer: &[u8], offset: u64, second_offset: u64) -> io::Result<()> {
        self.file.write_all_at(buffer, offset)?;
        match self.way {
            Way::Fsync => self.file.sync_all(),
            Way::Fdatasync => self.file.sync_data(),
            Way::Dsync | Way::DirectDsync | Way::Direct => Ok(()),
            Way::Pair => {
                self.file.sync_data()?;
                let Some(second) = &self.second else { return Ok(()) };
                second.write_all_at(buffer, second_offset)?;
                second.sync_data()
            }
        }
    }

    /// What a failed operation means: an O_DIRECT write may be too small for the device.
    pub(crate) fn judge(&self, spec: &Spec, error: io::Error) -> Unfit {
        match error.raw_os_error() {
            Some(EINVAL) if direct(self.way) => Unfit::Refused(format!(
                "O_DIRECT takes no writes of {} bytes here: the logical block is larger",
                spec.bytes
            )),
            _ => Unfit::Failed(failed("writing in", &spec.directory, error)),
        }
    }

    /// Leaves nothing in the page cache or in the device's queue for the next measurement.
    pub(crate) fn settle(&self, spec: &Spec) -> Result<(), Error> {
        for file in std::iter::once(&self.file).chain(&self.second) {
            file.sync_all()
                .map_err(|error| failed("syncing in", &spec.directory, error))?;
        }
        Ok(())
    }

    /// Makes growing files empty again, when they have reached their size.
    pub(crate) fn rewind(&self, layout: Layout) -> io::Result<()> {
        if layout == Layout::Extending {
            self.file.set_len(0)?;
        }
        match &self.second {
            Some(second) => second.set_len(0),
            None => Ok(()),
        }
    }
}

fn direct(way: Way) -> bool {
    matches!(way, Way::Direct | Way::DirectDsync)
}

fn flags(way: Way) -> OFlags {
    match way {
        Way::Dsync => OFlags::DSYNC,
        Way::DirectDsync => OFlags::DIRECT | OFlags::DSYNC,
        Way::Direct => OFlags::DIRECT,
        Way::Fsync | Way::Fdatasync | Way::Pair => OFlags::empty(),
    }
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::Io {
        what: format!("{what} {}", path.display()),
        error,
    }
}

fn opened(path: &Path, flags: OFlags) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

fn emptied(path: &Path) -> Result<File, Error> {
    let file = opened(path, OFlags::empty()).map_err(|error| failed("making", path, error))?;
    file.set_len(0)
        .and_then(|()| file.sync_all())
        .map_err(|error| failed("emptying", path, error))?;
    Ok(file)
}

/// A file whose blocks are all written and synced: as large as asked for, or as is written in two seconds.
fn written(path: &Path, file_bytes: u64, stop: &dyn Fn() -> bool) -> Result<u64, Error> {
    let ready = path.with_extension("ready");
    if ready.exists() {
        let length = path.metadata().map(|facts| facts.len());
        return length.map_err(|error| failed("reading", path, error));
    }
    let file = emptied(path)?;
    let chunk = Buffer::new(CHUNK);
    let wrong = |error| failed("preparing", path, error);
    let (start, mut size) = (Instant::now(), 0);
    while size < file_bytes && !stop() && (size == 0 || start.elapsed() < PREPARATION) {
        let length = (file_bytes - size).min(CHUNK as u64);
        let piece = &chunk.get()[..length as usize];
        file.write_all_at(piece, size).map_err(wrong)?;
        size += length;
        // A slow disk shows in the time: pages that only memory has taken are no measure of it.
        file.sync_data().map_err(wrong)?;
    }
    file.sync_all().map_err(wrong)?;
    if size == file_bytes || !stop() {
        File::create(&ready).map_err(wrong)?;
    }
    Ok(size)
}

/// A file whose blocks are allocated and were never written.
fn allocated(path: &Path, file_bytes: u64) -> Result<u64, Unfit> {
    let file = emptied(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, file_bytes) {
        Ok(()) => {
            file.sync_all()
                .map_err(|error| failed("allocating", path, error))?;
            Ok(file_bytes)
        }
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            Err(Unfit::Refused("the file system has no fallocate".to_owned()))
        }
        Err(error) => Err(failed("allocating", path, error.into()).into()),
    }
}
