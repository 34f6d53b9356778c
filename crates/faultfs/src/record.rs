//! The record of a disk: every write and flush in a folder, numbered as they were answered.
//!
//! - `record.json`: the disk's size, and what it began with;
//! - `base`: what it began with, unless that is an image of another record;
//! - `data`: what was written, one after the other; zeros are not kept;
//! - `entries`: 40 bytes each, little endian: kind, length, time, offset, place in `data`, records before;
//! - `position`: how many records there are, 8 bytes that other processes may map.
//!
//! An entry is written when its data are, the position when the entry is, and only then the answer goes out. So
//! whoever has seen the effect of an answer reads a position that counts it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Mmap, MmapRaw};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::spec::Base;

const ENTRY: usize = 40;
/// In the place of a place in `data`: the write was of zeros.
pub const ZEROS: u64 = u64::MAX;

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Sectors were written; perhaps only into the device's cache.
    Write,
    /// The device's cache was flushed.
    Flush,
    /// It was to be flushed, and was not: the answer was an I/O error. Whatever had waited for that may be
    /// lost, even if the next flush succeeds.
    Failed,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Write or flush.
    pub kind: EntryKind,
    /// Bytes; 0 for a flush, be it a failed one.
    pub length: u32,
    /// When it was answered: CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// On the disk, in bytes; 0 for a flush.
    pub offset: u64,
    /// Place in `data`, or [`ZEROS`].
    pub data: u64,
    /// How many records were answered when it arrived: a flush makes these durable, and no others.
    pub before: u64,
}

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        let kind: u32 = match self.kind {
            EntryKind::Write => 1,
            EntryKind::Flush => 2,
            EntryKind::Failed => 3,
        };
        bytes[0..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.data.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.before.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let short = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let kind = match short(0) {
            1 => EntryKind::Write,
            2 => EntryKind::Flush,
            3 => EntryKind::Failed,
            _ => return None,
        };
        Some(Self {
            kind,
            length: short(4),
            time_ns: long(8),
            offset: long(16),
            data: long(24),
            before: long(32),
        })
    }
}

/// What `record.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Header {
    /// Of the format: 1.
    pub version: u32,
    /// Of the disk, in bytes.
    pub size: u64,
    /// What it began with.
    pub base: Base,
}

/// Writes a record.
pub struct Recorder {
    data: File,
    tail: AtomicU64,
    limit: u64,
    entries: File,
    count: Mutex<u64>,
    position: MmapRaw,
}

impl Recorder {
    /// Begins a record in an existing folder.
    pub fn create(folder: &Path, size: u64, base: Base, limit: Option<u64>) -> io::Result<Self> {
        let new = |name: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(folder.join(name))
        };
        let position = new("position")?;
        position.set_len(8)?;
        let recorder = Self {
            data: new("data")?,
            tail: AtomicU64::new(0),
            limit: limit.unwrap_or(u64::MAX),
            entries: new("entries")?,
            count: Mutex::new(0),
            position: MmapRaw::map_raw(&position)?,
        };
        let header = Header {
            version: 1,
            size,
            base,
        };
        std::fs::write(folder.join("record.json"), serde_json::to_vec(&header)?)?;
        Ok(recorder)
    }

    /// How many records were answered.
    pub fn position(&self) -> u64 {
        self.shared().load(Ordering::Acquire)
    }

    /// Keeps what is written; returns its place. It is no record yet.
    pub fn keep(&self, data: &[u8]) -> io::Result<u64> {
        if data.iter().all(|&byte| byte == 0) {
            return Ok(ZEROS);
        }
        let length = data.len() as u64;
        let place = self.tail.fetch_add(length, Ordering::Relaxed);
        if place + length > self.limit {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.data.write_all_at(data, place)?;
        Ok(place)
    }

    /// Adds a record, the one that is answered next.
    pub fn add(&self, entry: Entry) -> io::Result<()> {
        let mut count = self.count.lock();
        let time_ns = now_ns().max(entry.time_ns);
        self.entries
            .write_all_at(&Entry { time_ns, ..entry }.to_bytes(), *count * ENTRY as u64)?;
        *count += 1;
        self.shared().store(*count, Ordering::Release);
        Ok(())
    }

    #[allow(unsafe_code)]
    fn shared(&self) -> &AtomicU64 {
        // SAFETY: a map starts at a page, is 8 bytes long at least and lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.position.as_mut_ptr().cast()) }
    }
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Reads a record; also one that was cut short, up to its last whole entry.
pub struct Recording {
    folder: PathBuf,
    /// What `record.json` says.
    pub header: Header,
    entries: Option<Mmap>,
    last: u64,
}

impl Recording {
    /// Opens a record as it stands now.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let mut text = Vec::new();
        File::open(folder.join("record.json"))?.read_to_end(&mut text)?;
        let header: Header = serde_json::from_slice(&text)?;
        if header.version != 1 {
            return Err(io::Error::other(format!(
                "the record is of version {}, not 1",
                header.version
            )));
        }
        let entries = File::open(folder.join("entries"))?;
        let mut position = [0; 8];
        File::open(folder.join("position"))?.read_exact(&mut position)?;
        let whole = entries.metadata()?.len() / ENTRY as u64;
        let last = u64::from_le_bytes(position).min(whole);
        Ok(Self {
            folder: folder.to_owned(),
            header,
            entries: map(&entries)?,
            last,
        })
    }

    /// The number of the last record; they count from 1.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The record of a number.
    pub fn get(&self, number: u64) -> io::Result<Entry> {
        let damaged = || io::Error::other(format!("record {number} of {} is damaged", self.folder.display()));
        let start = usize::try_from(number.wrapping_sub(1)).map_err(|_| damaged())?;
        let start = start.checked_mul(ENTRY).ok_or_else(damaged)?;
        let bytes = self
            .entries
            .as_deref()
            .and_then(|map| map.get(start..start + ENTRY));
        bytes.and_then(Entry::from_bytes).ok_or_else(damaged)
    }

    /// A file of its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A file that is mapped; none if it is empty. The kernel may drop its pages at any time, although all else of a
/// process that serves a disk is locked in memory.
#[allow(unsafe_code)]
pub fn map(file: &File) -> io::Result<Option<Mmap>> {
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    // SAFETY: files of a record only grow, and what is read of them was complete when they were opened.
    let map = unsafe { Mmap::map(file) }?;
    map.unlock()?;
    Ok(Some(map))
}
