//! The redo log at work: [`crate::redo`]'s file behind a log buffer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::log_buffer::{Drain, LogBuffer};
use crate::redo::{self, Checkpoint, Entry, DATA_OFFSET, HEADER_SIZE};
use crate::section::MAX_LIMIT;
use crate::sync::{locked, AtomicU64, Backoff, Mutex, Ordering, Padded};

/// Records that may be published and not yet looked at: room for all that small ones fill a buffer with.
const PLACES: usize = 1 << 16;

/// A redo log that is being written.
pub(crate) struct RedoLog {
    file: File,
    capacity: u64,
    buffer: LogBuffer,
    writer: Mutex<Drain>,
    flusher: Mutex<()>,
    checkpoints: Mutex<u64>,
    checkpoint: AtomicU64,
    written: Padded<AtomicU64>,
    flushed: Padded<AtomicU64>,
    fsyncs: AtomicU64,
    /// 1 once a write or a sync has failed: those who wait for a record wait no longer.
    broken: AtomicU64,
}

impl RedoLog {
    /// Makes the file, its whole circle written once: a sync then has no metadata to write.
    pub(crate) fn create(path: &Path, capacity: u64, buffer_bytes: usize) -> io::Result<Self> {
        let file = redo::create(path, capacity)?;
        let zeros = vec![0; 1 << 20];
        let mut at = 0;
        while at < capacity {
            let size = zeros.len().min((capacity - at) as usize);
            file.write_all_at(&zeros[..size], DATA_OFFSET + at)?;
            at += size as u64;
        }
        file.sync_all()?;
        Ok(Self::over(file, capacity, 0, buffer_bytes))
    }

    /// Goes on in a file that was recovered.
    pub(crate) fn resume(path: &Path, buffer_bytes: usize) -> io::Result<Self> {
        let (file, capacity, checkpoint) = redo::reopen(path)?;
        if capacity < 4 * buffer_bytes.next_power_of_two() as u64 {
            let rule = "the circle of the redo log that is there is smaller than four log buffers";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, rule));
        }
        Ok(Self::over(file, capacity, checkpoint.lsn, buffer_bytes))
    }

    /// A log whose next record begins at `lsn`.
    fn over(file: File, capacity: u64, lsn: u64, buffer_bytes: usize) -> Self {
        let (buffer, mut drain) = LogBuffer::new(buffer_bytes, PLACES, MAX_LIMIT);
        assert!(
            2 * buffer.capacity() < capacity,
            "the circle is larger than what the buffer may hold"
        );
        // Positions in the ring are LSNs.
        buffer.begin_at(&mut drain, lsn);
        buffer.open(&drain, lsn);
        Self {
            file,
            capacity,
            buffer,
            writer: Mutex::new(drain),
            flusher: Mutex::new(()),
            checkpoints: Mutex::new(0),
            checkpoint: AtomicU64::new(lsn),
            written: Padded(AtomicU64::new(lsn)),
            flushed: Padded(AtomicU64::new(lsn)),
            fsyncs: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        }
    }

    /// Puts a record into the log buffer and says where it ends.
    ///
    /// Before a transaction's first record its committer waits while [`is_full`](Self::is_full).
    pub(crate) fn append(&self, entry: &Entry<'_>) -> io::Result<u64> {
        let size = entry.size() as u64;
        let mut place = self.buffer.reserve(1, size).ok_or_else(|| {
            io::Error::other("the redo log has reached its largest LSN: end the run earlier")
        })?;
        let mut backoff = Backoff::default();
        while !self.buffer.has_room(&place) {
            self.check()?;
            match self.writer.try_lock() {
                Ok(mut drain) => self.write_ready(&mut drain)?,
                Err(_) => backoff.pause(),
            }
        }
        let header = entry.header(place.start);
        let end = place.start + size;
        let (front, back) = self.buffer.bytes(&mut place);
        if back.is_empty() {
            let (head, mut rest) = front.split_at_mut(HEADER_SIZE);
            head.copy_from_slice(&header);
            for piece in entry.pieces() {
                let (here, behind) = rest.split_at_mut(piece.len());
                here.copy_from_slice(piece);
                rest = behind;
            }
        } else {
            let mut out = front.iter_mut().chain(back);
            let [payload, first, second] = entry.pieces();
            for piece in [&header, payload, first, second] {
                piece
                    .iter()
                    .zip(&mut out)
                    .for_each(|(byte, place)| *place = *byte);
            }
        }
        self.buffer.publish(place, 0);
        Ok(end)
    }

    /// Bytes of the log buffer.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.buffer.capacity()
    }

    /// Bytes of the circle that a crash would need, or more.
    pub(crate) fn used(&self) -> u64 {
        self.next()
            .saturating_sub(self.checkpoint.load(Ordering::Acquire))
    }

    /// Whether new transactions wait for a checkpoint. What the buffer holds twice over stays free: for
    /// those who have looked and not yet reserved, and for further records of those under way.
    pub(crate) fn is_full(&self) -> bool {
        self.used() > self.room()
    }

    /// Whether it is time for a checkpoint.
    pub(crate) fn is_filling(&self) -> bool {
        self.used() > self.room() / 2
    }

    fn room(&self) -> u64 {
        self.capacity - 2 * self.buffer.capacity()
    }

    /// Where the next record begins, or a later one.
    pub(crate) fn next(&self) -> u64 {
        self.buffer.next()
    }

    /// Up to here the records are in the file.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Up to here the records are synced.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Syncs so far.
    pub(crate) fn fsyncs(&self) -> u64 {
        self.fsyncs.load(Ordering::Relaxed)
    }

    /// Writes everything up to `lsn`, where a record ends; waits for those who still fill theirs.
    pub(crate) fn write(&self, lsn: u64) -> io::Result<()> {
        if self.written() >= lsn {
            return Ok(());
        }
        let mut drain = locked(&self.writer);
        let mut backoff = Backoff::default();
        while self.written() < lsn {
            if self.buffer.scan(&mut drain, |_, _| {}) >= lsn {
                self.write_ready(&mut drain)?;
            } else {
                self.check()?;
                backoff.pause();
            }
        }
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        match self.broken.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(io::Error::other("the redo log could not be written")),
        }
    }

    /// Remembers a failure.
    fn noted(&self, done: io::Result<()>) -> io::Result<()> {
        if done.is_err() {
            self.broken.store(1, Ordering::Relaxed);
        }
        done
    }

    /// Syncs everything up to `lsn`, where a record ends.
    pub(crate) fn flush(&self, lsn: u64) -> io::Result<()> {
        if self.flushed() >= lsn {
            return Ok(());
        }
        let _flusher = locked(&self.flusher);
        if self.flushed() >= lsn {
            return Ok(());
        }
        self.write(lsn)?;
        let written = self.written();
        self.noted(self.file.sync_data())?;
        self.fsyncs.fetch_add(1, Ordering::Relaxed);
        self.flushed.store(written, Ordering::Release);
        Ok(())
    }

    /// Writes and syncs what is ready; what nobody waits for (once a second, at the end).
    pub(crate) fn flush_ready(&self) -> io::Result<()> {
        self.write_ready(&mut locked(&self.writer))?;
        self.flush(self.written())
    }

    fn write_ready(&self, drain: &mut Drain) -> io::Result<()> {
        let from = self.written();
        let to = self.buffer.scan(drain, |_, _| {});
        if from == to {
            return Ok(());
        }
        let (front, back) = self.buffer.filled(drain, from, to);
        let put = self.put(front, from);
        self.noted(put.and_then(|()| self.put(back, from + front.len() as u64)))?;
        self.buffer.release(drain, to);
        self.written.store(to, Ordering::Release);
        Ok(())
    }

    fn put(&self, bytes: &[u8], lsn: u64) -> io::Result<()> {
        let at = lsn % self.capacity;
        let (front, back) = bytes.split_at(bytes.len().min((self.capacity - at) as usize));
        self.file.write_all_at(front, DATA_OFFSET + at)?;
        if !back.is_empty() {
            self.file.write_all_at(back, DATA_OFFSET)?;
        }
        Ok(())
    }

    /// Lets the records before `lsn`, where one begins, be written over.
    ///
    /// All GTIDs up to `applied` are committed and their records written, and all that has records before
    /// `lsn` is among them.
    pub(crate) fn put_checkpoint(&self, checkpoint: Checkpoint, durable: bool) -> io::Result<()> {
        let mut number = locked(&self.checkpoints);
        let lsn = checkpoint.lsn;
        if lsn <= self.checkpoint.load(Ordering::Relaxed) {
            return Ok(());
        }
        *number += 1;
        redo::put_checkpoint(&self.file, *number, checkpoint)?;
        if durable {
            self.file.sync_data()?;
            self.fsyncs.fetch_add(1, Ordering::Relaxed);
        }
        self.checkpoint.store(lsn, Ordering::Release);
        Ok(())
    }
}
