//! What a disk gives to small writes that must be durable.
//!
//! A measurement ends within its seconds (and the one operation that is under way). What a file system cannot do is a
//! value, [`Outcome::Refused`]. No file grows beyond the size that was asked for.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flushlab_rows::{Bits, Random};
use rustix::fs::{fallocate, FallocateFlags, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::measure::{latency_us, times, LatencyUs, Times};

/// Of the buffer: what O_DIRECT asks for on any device.
const ALIGNMENT: usize = 4096;
/// Longest that a file is prepared for; what is written by then is its size.
const PREPARATION: Duration = Duration::from_secs(2);
const CHUNK: usize = 1 << 20;
/// Operations of each thread before the clock starts: the first finds the journal as preparation left it.
const WARM_UP: usize = 3;

/// How a write becomes durable, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Write, then fsync.
    Fsync,
    /// Write, then fdatasync.
    Fdatasync,
    /// The file is open with O_DSYNC.
    Dsync,
    /// O_DIRECT and O_DSYNC.
    DirectDsync,
    /// O_DIRECT alone: the device has the data, perhaps in its cache.
    Direct,
    /// One commit of a server with a binlog: a write and an fdatasync on each of two files, one after the
    /// other, the second one growing.
    Pair,
}

/// The state of the blocks that are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Written and synced before: only data need to go to the device.
    Written,
    /// Allocated, never written (fallocate): a sync also converts the extent.
    Allocated,
    /// The file grows: a sync also writes its new size.
    Extending,
}

/// Which block is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The one behind the last, from the start again at the end.
    Sequential,
    /// Any.
    Random,
}

/// One measurement.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// An existing folder of the measurement's own; files in it are made, reused and left there.
    pub directory: PathBuf,
    /// How a write becomes durable.
    pub way: Way,
    /// Of one write.
    pub bytes: usize,
    /// The state of the blocks.
    pub layout: Layout,
    /// Which block is next.
    pub order: Order,
    /// Threads, each with one write under way.
    pub depth: usize,
    /// Of a file, at most.
    pub file_bytes: u64,
    /// Length of the measured window in seconds.
    pub seconds: f64,
    /// Beyond the window, the caller waits for so long at most.
    #[serde(default = "stall_seconds")]
    pub stall_seconds: f64,
}

fn stall_seconds() -> f64 {
    60.0
}

/// What one measurement gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Operations that ended in the window.
    pub operations: u64,
    /// Its length as it was.
    pub seconds: f64,
    /// Of an operation, from the write to the end of its sync.
    pub latency_us: LatencyUs,
    /// Size of the file that was written over; less than asked for on a slow disk.
    pub file_bytes: u64,
}

/// What came of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Figures.
    Measured(Figure),
    /// This file system or device cannot do it; why, in words.
    Refused(String),
    /// It was told to stop.
    Stopped,
}

type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Measures, until the window is over or `stop` says so.
///
/// # Errors
/// Usage for a spec that contradicts itself; storage where the file system fails.
pub fn measure(spec: &Spec, stop: Stop<'_>) -> Result<Outcome, Error> {
    spec.check()?;
    let judged = |error: io::Error, direct_refused: String| match Errno::from_io_error(&error) {
        Some(Errno::INVAL) if spec.is_direct() => Ok(Outcome::Refused(direct_refused)),
        Some(Errno::OPNOTSUPP | Errno::NOSYS) if spec.layout == Layout::Allocated => {
            Ok(Outcome::Refused("the file system has no fallocate".to_owned()))
        }
        _ => Err(Error::storage(spec.directory.display(), &error)),
    };
    let target = match Target::open(spec, stop) {
        Ok(target) => target,
        Err(error) => return judged(error, "the file system has no O_DIRECT".to_owned()),
    };
    match target.measured(stop) {
        Ok(_) if stop() => Ok(Outcome::Stopped),
        Ok(figure) => Ok(Outcome::Measured(figure)),
        Err(error) => {
            let bytes = spec.bytes;
            let refused =
                format!("O_DIRECT takes no writes of {bytes} bytes here: the logical block is larger");
            judged(error, refused)
        }
    }
}

impl Spec {
    /// Refuses what makes no sense.
    fn check(&self) -> Result<(), Error> {
        // Blocks that are used up at the file's end.
        let grows = self.way == Way::Pair || self.layout != Layout::Written;
        let broken = if self.bytes == 0 || !self.bytes.is_multiple_of(512) {
            format!("{} bytes are no multiple of 512", self.bytes)
        } else if !(1..=256).contains(&self.depth) {
            format!("a depth of {} is not within 1 and 256", self.depth)
        } else if !(self.seconds > 0.0 && self.seconds <= 3600.0) {
            format!("{} seconds are not within 0 and 3600", self.seconds)
        } else if self.file_bytes < 16 * self.bytes as u64 {
            format!("a file of {} bytes is too small", self.file_bytes)
        } else if grows && (self.depth > 1 || self.order == Order::Random) {
            "files that grow are written by one thread, in order".to_owned()
        } else if self.way == Way::Pair && self.layout != Layout::Written {
            "of a pair only the second file grows".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::usage(broken))
    }

    fn is_direct(&self) -> bool {
        matches!(self.way, Way::Direct | Way::DirectDsync)
    }
}

/// The files of a measurement, and what is written to them.
struct Target<'a> {
    spec: &'a Spec,
    file: File,
    /// The second file of a pair, which grows.
    second: Option<File>,
    file_bytes: u64,
    /// Has the buffer at a multiple of [`ALIGNMENT`].
    memory: Vec<u8>,
    /// The next block in order.
    next: AtomicU64,
}

impl<'a> Target<'a> {
    /// Makes or reuses the files.
    fn open(spec: &'a Spec, stop: Stop<'_>) -> io::Result<Self> {
        let path = spec.directory.join(match spec.layout {
            Layout::Written => "written",
            Layout::Allocated => "allocated",
            Layout::Extending => "extending",
        });
        let file_bytes = match spec.layout {
            Layout::Written => written(&path, spec.file_bytes, stop)?,
            Layout::Allocated => {
                let file = emptied(&path)?;
                fallocate(&file, FallocateFlags::empty(), 0, spec.file_bytes)?;
                file.sync_all()?;
                spec.file_bytes
            }
            Layout::Extending => {
                emptied(&path)?;
                spec.file_bytes
            }
        };
        let flags = match spec.way {
            Way::Dsync => OFlags::DSYNC,
            Way::DirectDsync => OFlags::DIRECT | OFlags::DSYNC,
            Way::Direct => OFlags::DIRECT,
            Way::Fsync | Way::Fdatasync | Way::Pair => OFlags::empty(),
        };
        let second = match spec.way {
            Way::Pair => Some(emptied(&spec.directory.join("extending"))?),
            _ => None,
        };
        Ok(Self {
            spec,
            file: opened(&path, flags)?,
            second,
            file_bytes,
            memory: noise(spec.bytes + ALIGNMENT),
            next: AtomicU64::new(0),
        })
    }

    /// As many threads as the depth; the window is as long as the longest.
    fn measured(&self, stop: Stop<'_>) -> io::Result<Figure> {
        let ended = AtomicBool::new(false);
        let is_over = || ended.load(Ordering::Relaxed) || stop();
        let worker = |index| {
            let done = self.work(index, &is_over);
            ended.fetch_or(done.is_err(), Ordering::Relaxed);
            done
        };
        let threads: Vec<_> = thread::scope(|scope| {
            let spawn = |index| {
                scope.spawn({
                    let worker = &worker;
                    move || worker(index)
                })
            };
            let threads: Vec<_> = (0..self.spec.depth as u64).map(spawn).collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().expect("a panic is a bug"));
            joined.collect::<io::Result<_>>()
        })?;
        // Nothing is left in the page cache or in the device's queue for the next measurement.
        for file in [Some(&self.file), self.second.as_ref()].into_iter().flatten() {
            file.sync_all()?;
        }
        Ok(Figure {
            operations: threads.iter().map(|(times, _)| times.len()).sum(),
            seconds: threads.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max),
            latency_us: latency_us(threads.iter().map(|(times, _)| times)).unwrap_or_default(),
            file_bytes: self.file_bytes,
        })
    }

    /// One thread's times, and how long its window was.
    fn work(&self, index: u64, is_over: Stop<'_>) -> io::Result<(Times, f64)> {
        let start = self.memory.as_ptr().align_offset(ALIGNMENT);
        let buffer = &self.memory[start..start + self.spec.bytes];
        let mut random = Random::new(index);
        for _ in 0..WARM_UP {
            self.operation(buffer, &mut random)?;
        }
        let window = Duration::from_secs_f64(self.spec.seconds);
        let mut times = times();
        let start = Instant::now();
        let mut before = start;
        while before - start < window && !is_over() {
            self.operation(buffer, &mut random)?;
            let after = Instant::now();
            times.saturating_record((after - before).as_nanos().max(1) as u64);
            before = after;
        }
        Ok((times, (before - start).as_secs_f64()))
    }

    /// A write, and what makes it durable.
    fn operation(&self, buffer: &[u8], random: &mut Random) -> io::Result<()> {
        let blocks = (self.file_bytes / buffer.len() as u64).max(1);
        let block = match self.spec.order {
            Order::Sequential => self.next.fetch_add(1, Ordering::Relaxed) % blocks,
            Order::Random => random.below(blocks),
        };
        let offset = block * buffer.len() as u64;
        match self.spec.layout {
            Layout::Extending if offset == 0 => self.file.set_len(0)?,
            Layout::Allocated if offset == 0 => {
                self.file.set_len(0)?; // blocks that were written once are no allocated ones
                fallocate(&self.file, FallocateFlags::empty(), 0, self.file_bytes)?;
            }
            _ => {}
        }
        self.file.write_all_at(buffer, offset)?;
        match self.spec.way {
            Way::Fsync => self.file.sync_all()?,
            Way::Fdatasync | Way::Pair => self.file.sync_data()?,
            Way::Dsync | Way::DirectDsync | Way::Direct => {}
        }
        let Some(second) = &self.second else {
            return Ok(());
        };
        if offset == 0 {
            second.set_len(0)?;
        }
        second.write_all_at(buffer, offset)?;
        second.sync_data()
    }
}

/// Bytes that no device compresses to nothing.
fn noise(bytes: usize) -> Vec<u8> {
    let mut random = Random::new(0);
    (0..bytes).map(|_| random.bits() as u8).collect()
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

fn emptied(path: &Path) -> io::Result<File> {
    let file = opened(path, OFlags::empty())?;
    file.set_len(0)?;
    file.sync_all()?;
    Ok(file)
}

/// A file whose blocks are all written and synced: as large as asked for, or as is written in two seconds.
fn written(path: &Path, file_bytes: u64, stop: Stop<'_>) -> io::Result<u64> {
    match path.metadata() {
        Ok(facts) if facts.len() > 0 => return Ok(facts.len()),
        _ => {}
    }
    let file = emptied(path)?;
    let chunk = noise(CHUNK);
    let (start, mut size) = (Instant::now(), 0);
    while size < file_bytes && !stop() && (size == 0 || start.elapsed() < PREPARATION) {
        let length = (file_bytes - size).min(CHUNK as u64);
        file.write_all_at(&chunk[..length as usize], size)?;
        size += length;
        // A slow disk shows in the time: pages that only memory has taken are no measure of it.
        file.sync_data()?;
    }
    file.sync_all()?;
    Ok(size)
}
