//! The redo log: a circular file behind a log buffer that one short mutex fills.
//!
//! # File format (little-endian)
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `FLREDO01` |
//! | 8 | 8 | capacity: bytes of the circle |
//! | 16 | 4 | CRC-32 of the 16 bytes before |
//! | 512 and 1024 | 8 | checkpoint: an LSN where a record begins |
//! | 520 and 1032 | 8 | number of a GTID: all up to it were committed, their records written |
//! | 528 and 1040 | 4 | CRC-32 of the 16 bytes before |
//! | 8192 | capacity | the circle: LSN `l` stands at `8192 + l % capacity` |
//!
//! Of the two checkpoints the larger valid one counts. What lies before it was applied: transactions
//! of earlier records are in the binlog's files. Records follow one another from there without gaps:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | CRC-32 of all that follows in the record |
//! | 4 | 4 | length of the record, these 56 bytes included |
//! | 8 | 8 | LSN of its first byte: what an earlier lap left has another one |
//! | 16 | 8 | the transaction's XID, as in its XID event: not 0, unique in a run |
//! | 24 | 8 | number of its GTID; 0 in a prepare record, which is written before the number is known |
//! | 32 | 4 | kind: 1 prepare, 2 commit, 3 binlog |
//! | 36 | 4 | bytes of redo payload behind the header |
//! | 40 | 8 | binlog record: position of the transaction in its file |
//! | 48 | 4 | binlog record: number of the file |
//! | 52 | 4 | 0 |
//! | 56 | | redo payload, then in a binlog record the transaction's bytes as they stand in the file |
//!
//! A transaction's prepare record (or binlog record) is written before its bytes in the binlog, unless redo is 0.
//! Order in the file is no order of commits: GTIDs say that. The first record that is torn ends the log.
//! `tests/logs` has what follows for a restart.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Its name in a run's folder.
pub(crate) const NAME: &str = "redo";
/// Bytes of a record before its payload.
pub(crate) const HEADER_SIZE: usize = 56;
const MAGIC: u64 = u64::from_le_bytes(*b"FLREDO01");
/// Where the circle begins in the file.
const DATA_OFFSET: u64 = 8192;
const CHECKPOINT_OFFSETS: [u64; 2] = [512, 1024];
/// A thread that waits for room looks after itself as often, in case the run has failed.
const LOOK: Duration = Duration::from_millis(50);

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// The transaction is prepared: it commits if it is in the binlog.
    Prepare,
    /// The transaction is committed (redo 3).
    Commit,
    /// The transaction is committed, and these are its bytes in the binlog (`redo`): file and position there.
    Binlog { file: u32, position: u64 },
}

/// What is known of a record before its place is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) kind: EntryKind,
    pub(crate) xid: u64,
    pub(crate) gtid_number: u64,
    pub(crate) payload: &'a [u8],
    /// The transaction's bytes in the binlog.
    pub(crate) binlog: &'a [u8],
}

impl Entry<'_> {
    /// Bytes of the record.
    fn size(&self) -> usize {
        HEADER_SIZE + self.payload.len() + self.binlog.len()
    }

    /// The header with the checksum of the whole record.
    fn header(&self, lsn: u64) -> [u8; HEADER_SIZE] {
        let (code, file, position) = match self.kind {
            EntryKind::Prepare => (1_u32, 0, 0),
            EntryKind::Commit => (2, 0, 0),
            EntryKind::Binlog { file, position } => (3, file, position),
        };
        let mut header = [0; HEADER_SIZE];
        header[4..8].copy_from_slice(&(self.size() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&lsn.to_le_bytes());
        header[16..24].copy_from_slice(&self.xid.to_le_bytes());
        header[24..32].copy_from_slice(&self.gtid_number.to_le_bytes());
        header[32..36].copy_from_slice(&code.to_le_bytes());
        header[36..40].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        header[40..48].copy_from_slice(&position.to_le_bytes());
        header[48..52].copy_from_slice(&file.to_le_bytes());
        let mut crc = crc32fast::Hasher::new();
        for part in [&header[4..], self.payload, self.binlog] {
            crc.update(part);
        }
        header[..4].copy_from_slice(&crc.finalize().to_le_bytes());
        header
    }
}

/// From where on records are needed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checkpoint {
    /// Where a record begins.
    pub(crate) lsn: u64,
    /// All GTIDs up to this number are committed, in both logs.
    pub(crate) applied: u64,
}

/// Writes two numbers and their checksum.
fn put_pair(file: &File, offset: u64, first: u64, second: u64) -> io::Result<()> {
    let mut block = [0; 20];
    block[..8].copy_from_slice(&first.to_le_bytes());
    block[8..16].copy_from_slice(&second.to_le_bytes());
    let crc = crc32fast::hash(&block[..16]);
    block[16..].copy_from_slice(&crc.to_le_bytes());
    file.write_all_at(&block, offset)
}

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
    /// Writes the whole circle of an empty file once: a sync then has no metadata to write.
    pub(crate) fn create(file: File, capacity: u64, buffer_limit: usize) -> io::Result<Self> {
        put_pair(&file, 0, MAGIC, capacity)?;
        put_pair(&file, CHECKPOINT_OFFSETS[0], 0, 0)?;
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
        let offset = CHECKPOINT_OFFSETS[(1 + number) as usize % 2];
        put_pair(&self.file, offset, checkpoint.lsn, checkpoint.applied)?;
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
    use crate::files::Folder;

    const CIRCLE: u64 = 16_384;

    #[test]
    fn transactions_under_way_never_have_more_than_the_circle_and_hold_the_checkpoint_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = Folder::new(folder.path()).unwrap().make(NAME).unwrap();
        let log = RedoLog::create(file, CIRCLE, 4096).unwrap();
        let payload = [7; 1000];
        let entry = Entry {
            kind: EntryKind::Prepare,
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
