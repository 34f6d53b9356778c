//! The redo log at work: [`crate::redo`]'s file behind a log buffer that one short mutex fills.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::redo::{self, Checkpoint, Entry, DATA_OFFSET};

/// A thread that waits for room looks after itself as often, in case the run has failed.
const LOOK: Duration = Duration::from_millis(50);

/// A redo log that is being written.
pub(crate) struct RedoLog {
    file: File,
    capacity: u64,
    buffer_limit: usize,
    buffer: Mutex<Buffer>,
    /// A checkpoint has made room in the circle.
    room: Condvar,
    /// Held while writing, with the memory of the last write.
    writer: Mutex<Vec<u8>>,
    flusher: Mutex<()>,
    written: AtomicU64,
    flushed: AtomicU64,
    fsyncs: AtomicU64,
    checkpoints: AtomicU64,
    failed: AtomicBool,
}

struct Buffer {
    /// Records that are not yet written.
    bytes: Vec<u8>,
    next: u64,
    /// Bytes that admitted transactions may still append.
    reserved: u64,
    checkpoint: u64,
    /// Transactions under way by generation, and which generation new ones join.
    under_way: [u64; 2],
    generation: usize,
    /// A checkpoint that waits for the other generation: its transactions alone have records before it.
    pending: Option<u64>,
}

/// What a transaction holds of the log from its admission to its end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Admission {
    generation: usize,
    /// What it may still append.
    bytes: u64,
}

impl RedoLog {
    /// Makes the file, its whole circle written once: a sync then has no metadata to write.
    pub(crate) fn create(path: &Path, capacity: u64, buffer_limit: usize) -> io::Result<Self> {
        let file = redo::create(path, capacity)?;
        let zeros = vec![0; 1 << 20];
        let mut at = 0;
        while at < capacity {
            let size = zeros.len().min((capacity - at) as usize);
            file.write_all_at(&zeros[..size], DATA_OFFSET + at)?;
            at += size as u64;
        }
        file.sync_all()?;
        Ok(Self {
            file,
            capacity,
            buffer_limit,
            buffer: Mutex::new(Buffer {
                bytes: Vec::with_capacity(buffer_limit),
                next: 0,
                reserved: 0,
                checkpoint: 0,
                under_way: [0; 2],
                generation: 0,
                pending: None,
            }),
            room: Condvar::new(),
            writer: Mutex::new(Vec::with_capacity(buffer_limit)),
            flusher: Mutex::new(()),
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            fsyncs: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        })
    }

    /// Room in the circle for all that a transaction may append, before its first record; `None` until a checkpoint
    /// has made some. Who is admitted never waits for the circle again.
    pub(crate) fn admit(&self, bytes: u64) -> Option<Admission> {
        let mut buffer = self.buffer.lock();
        let used = buffer.next - buffer.checkpoint + buffer.reserved;
        (used + bytes <= self.capacity).then(|| {
            buffer.reserved += bytes;
            let generation = buffer.generation;
            buffer.under_way[generation] += 1;
            Admission { generation, bytes }
        })
    }

    /// Waits for a checkpoint; the caller leads no group.
    pub(crate) fn wait_for_room(&self) -> io::Result<()> {
        self.room.wait_for(&mut self.buffer.lock(), LOOK);
        match self.failed.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the redo log is no longer written")),
            false => Ok(()),
        }
    }

    /// Puts a record of an admitted transaction into the log buffer and says where it ends.
    pub(crate) fn append(&self, entry: &Entry<'_>, admission: &mut Admission) -> io::Result<u64> {
        let size = entry.size() as u64;
        let mut buffer = self.buffer.lock();
        let header = entry.header(buffer.next);
        buffer.bytes.extend_from_slice(&header);
        buffer.bytes.extend_from_slice(entry.payload);
        buffer.bytes.extend_from_slice(entry.binlog);
        buffer.next += size;
        let reserved = size.min(admission.bytes);
        admission.bytes -= reserved;
        buffer.reserved -= reserved;
        let (end, is_full) = (buffer.next, buffer.bytes.len() >= self.buffer_limit);
        drop(buffer);
        if is_full {
            self.write(end)?;
        }
        Ok(end)
    }

    /// These transactions are committed: none of their records is needed any more, once they are in the binlog.
    pub(crate) fn end(&self, admissions: impl Iterator<Item = Admission>) {
        let mut buffer = self.buffer.lock();
        for one in admissions {
            buffer.reserved -= one.bytes;
            buffer.under_way[one.generation] -= 1;
        }
    }

    /// Ends all waiting for room.
    pub(crate) fn abandon(&self) {
        self.failed.store(true, Ordering::Relaxed);
        self.room.notify_all();
    }

    /// Where the next record begins.
    pub(crate) fn next(&self) -> u64 {
        self.buffer.lock().next
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

    /// Writes everything up to `lsn`, where a record ends.
    pub(crate) fn write(&self, lsn: u64) -> io::Result<()> {
        if self.written() >= lsn {
            return Ok(());
        }
        let mut bytes = self.writer.lock();
        if self.written() >= lsn {
            return Ok(());
        }
        bytes.clear();
        std::mem::swap(&mut *bytes, &mut self.buffer.lock().bytes);
        let from = self.written();
        let at = from % self.capacity;
        let (front, back) = bytes.split_at(bytes.len().min((self.capacity - at) as usize));
        self.file.write_all_at(front, DATA_OFFSET + at)?;
        self.file.write_all_at(back, DATA_OFFSET)?;
        self.written.store(from + bytes.len() as u64, Ordering::Release);
        Ok(())
    }

    /// Syncs everything up to `lsn`, where a record ends.
    pub(crate) fn flush(&self, lsn: u64) -> io::Result<()> {
        if self.flushed() >= lsn {
            return Ok(());
        }
        let _flusher = self.flusher.lock();
        if self.flushed() >= lsn {
            return Ok(());
        }
        self.write(lsn)?;
        let written = self.written();
        self.file.sync_data()?;
        self.fsyncs.fetch_add(1, Ordering::Relaxed);
        self.flushed.store(written, Ordering::Release);
        Ok(())
    }

    /// Where a checkpoint may be put, once the circle is filling and all that has records before it is committed.
    pub(crate) fn checkpoint_due(&self) -> Option<u64> {
        let mut buffer = self.buffer.lock();
        let old = 1 - buffer.generation;
        let is_filling = buffer.next - buffer.checkpoint > self.capacity / 4;
        if buffer.pending.is_none() && is_filling && buffer.under_way[old] == 0 {
            buffer.pending = Some(buffer.next);
            buffer.generation = old;
        }
        let old = 1 - buffer.generation;
        buffer.pending.filter(|_| buffer.under_way[old] == 0)
    }

    /// Lets the records before the checkpoint be written over.
    pub(crate) fn put_checkpoint(&self, checkpoint: Checkpoint, durable: bool) -> io::Result<()> {
        let number = self.checkpoints.fetch_add(1, Ordering::Relaxed);
        redo::put_checkpoint(&self.file, 1 + number, checkpoint)?;
        if durable {
            self.file.sync_data()?;
            self.fsyncs.fetch_add(1, Ordering::Relaxed);
        }
        let mut buffer = self.buffer.lock();
        buffer.checkpoint = checkpoint.lsn;
        buffer.pending = None;
        self.room.notify_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redo::Kind;

    const CIRCLE: u64 = 16_384;

    #[test]
    fn transactions_under_way_never_have_more_than_the_circle_and_hold_the_checkpoint_back() {
        let folder = tempfile::tempdir().unwrap();
        let log = RedoLog::create(&folder.path().join("redo"), CIRCLE, 4096).unwrap();
        let payload = [7; 1000];
        let entry = Entry {
            kind: Kind::Prepare,
            xid: 1,
            gtid_number: 0,
            payload: &payload,
            binlog: &[],
        };
        let size = entry.size() as u64;
        let mut admitted: Vec<_> = std::iter::from_fn(|| log.admit(2 * size)).take(100).collect();
        assert_eq!(admitted.len() as u64, CIRCLE / (2 * size));
        for admission in &mut admitted {
            log.append(&entry, admission).unwrap();
            log.append(&entry, admission).unwrap();
        }
        assert!(log.next() <= CIRCLE);
        assert_eq!(log.checkpoint_due(), None, "transactions are under way");
        log.end(admitted.into_iter());
        assert!(log.admit(2 * size).is_none(), "their records are still there");
        let lsn = log.checkpoint_due().unwrap();
        assert_eq!(lsn, log.next());
        log.write(lsn).unwrap();
        log.put_checkpoint(Checkpoint { lsn, applied: 7 }, false).unwrap();
        assert!(log.admit(2 * size).is_some());
    }
}
