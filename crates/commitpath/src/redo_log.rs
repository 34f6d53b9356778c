//! The redo log at work: [`crate::redo`]'s file behind a log buffer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::log_buffer::{Drain, LogBuffer, Place};
use crate::redo::{self, Checkpoint, Entry, DATA_OFFSET, HEADER_SIZE};
use crate::section::MAX_LIMIT;
use crate::sync::{locked, make_room_until_done, AtomicU64, Backoff, Mutex, Ordering, Padded};

/// Records that may be published and not yet looked at: room for all that small ones fill a buffer with.
#[cfg(not(feature = "loom"))]
const PLACES: usize = 1 << 16;
#[cfg(feature = "loom")]
const PLACES: usize = 4;

/// A redo log that is being written.
///
/// Who waits in here never waits for the circle, as every transaction is [admitted](Self::admit) before its
/// first record. Who waits for room in the buffer writes, or somebody else holds the writer: who makes room while
/// it waits for others' records.
pub(crate) struct RedoLog {
    file: File,
    capacity: u64,
    /// Bytes that transactions under way may still append, or have.
    under_way: Padded<AtomicU64>,
    /// Those who wait for a checkpoint, one of whom looks.
    waiting: AtomicU64,
    turn: Mutex<()>,
    buffer: LogBuffer,
    writer: Mutex<Drain>,
    flusher: Mutex<()>,
    checkpoints: Mutex<u64>,
    checkpoint: AtomicU64,
    written: Padded<AtomicU64>,
    flushed: Padded<AtomicU64>,
    fsyncs: AtomicU64,
    /// 1 once a write or a sync or the run has failed: those who wait for a record wait no longer.
    broken: AtomicU64,
}

/// Room in the circle for all records of a transaction, until it is through.
#[must_use]
pub(crate) struct Admitted<'a> {
    log: &'a RedoLog,
    bytes: u64,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        // Release: who finds these bytes gone finds the records that were appended (`next`).
        self.log.under_way.fetch_sub(self.bytes, Ordering::Release);
    }
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
    pub(crate) fn over(file: File, capacity: u64, lsn: u64, buffer_bytes: usize) -> Self {
        let (buffer, mut drain) = LogBuffer::new(buffer_bytes, PLACES, MAX_LIMIT);
        assert!(
            2 * buffer.capacity() < capacity,
            "the circle has room for a transaction beside what fills a half of it"
        );
        // Positions in the ring are LSNs.
        buffer.begin_at(&mut drain, lsn);
        buffer.open(&drain, lsn);
        Self {
            file,
            capacity,
            under_way: Padded::default(),
            waiting: AtomicU64::new(0),
            turn: Mutex::new(()),
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

    /// Waits until the circle has room for `bytes`, all that a transaction may append, which is at most half a
    /// circle. The caller holds no lock, no place, and needs no record yet: checkpoints make room.
    pub(crate) fn admit(&self, bytes: u64) -> io::Result<Admitted<'_>> {
        debug_assert!(bytes <= self.capacity / 2);
        if self.waiting.load(Ordering::Relaxed) == 0 {
            if let Some(admitted) = self.try_admit(bytes) {
                return Ok(admitted);
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = locked(&self.turn);
        let mut backoff = Backoff::default();
        let admitted = loop {
            match (self.try_admit(bytes), self.check()) {
                (Some(admitted), _) => break Ok(admitted),
                (None, Err(error)) => break Err(error),
                (None, Ok(())) => backoff.pause(),
            }
        };
        drop(turn);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        admitted
    }

    fn try_admit(&self, bytes: u64) -> Option<Admitted<'_>> {
        // Whoever was admitted before is counted here, with more than is left of it, or is through: then `next`
        // counts its records. Who comes later counts us.
        let before = self.under_way.fetch_add(bytes, Ordering::AcqRel);
        let admitted = Admitted { log: self, bytes };
        (self.used() + before + bytes <= self.capacity).then_some(admitted)
    }

    /// Puts a record of an admitted transaction into the log buffer and says where it ends.
    pub(crate) fn append(&self, entry: &Entry<'_>) -> io::Result<u64> {
        self.fill(self.reserve(entry.size() as u64)?, entry)
    }

    pub(crate) fn reserve(&self, size: u64) -> io::Result<Place> {
        let place = self.buffer.reserve(1, size);
        place.ok_or_else(|| io::Error::other("the redo log has reached its largest LSN: end the run earlier"))
    }

    /// Writes the record into its place once there is room.
    pub(crate) fn fill(&self, mut place: Place, entry: &Entry<'_>) -> io::Result<u64> {
        let mut backoff = Backoff::default();
        while !self.buffer.has_room(&place) {
            if let Ok(mut drain) = self.writer.try_lock() {
                self.write_ready(&mut drain)?;
            }
            self.check()?;
            backoff.pause();
        }
        let header = entry.header(place.start);
        let end = place.end();
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

    /// Whether it is time for a checkpoint: well before transactions have to wait for it.
    pub(crate) fn is_filling(&self) -> bool {
        self.used() > self.capacity / 4
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
        let written = || {
            self.write_ready(&mut drain)?;
            Ok(self.written() >= lsn)
        };
        make_room_until_done(written, || self.check())
    }

    /// Ends all waiting for records: who should write one may have died.
    pub(crate) fn abandon(&self) {
        self.broken.store(1, Ordering::Relaxed);
    }

    fn check(&self) -> io::Result<()> {
        match self.broken.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(io::Error::other("the redo log is no longer written")),
        }
    }

    /// Remembers a failure.
    fn noted(&self, done: io::Result<()>) -> io::Result<()> {
        if done.is_err() {
            self.abandon();
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
        assert!(
            to <= self.checkpoint.load(Ordering::Acquire) + self.capacity,
            "what a crash needs is not written over"
        );
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

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::redo::Kind;

    const BUFFER: usize = 4096;
    const CIRCLE: u64 = 4 * BUFFER as u64;

    fn redo_log(folder: &Path) -> RedoLog {
        RedoLog::create(&folder.join("redo"), CIRCLE, BUFFER).unwrap()
    }

    fn entry(payload: &[u8]) -> Entry<'_> {
        Entry {
            kind: Kind::Prepare,
            xid: 1,
            gtid_number: 0,
            payload,
            binlog: [&[], &[]],
        }
    }

    #[test]
    fn transactions_under_way_never_have_more_than_the_circle() {
        let folder = tempfile::tempdir().unwrap();
        let log = redo_log(folder.path());
        let payload = [7; 1000];
        let size = entry(&payload).size() as u64;
        // All look at the empty circle before the first has appended anything.
        let admitted: Vec<_> = std::iter::from_fn(|| log.try_admit(2 * size)).take(100).collect();
        assert_eq!(admitted.len() as u64, CIRCLE / (2 * size));
        for _ in 0..2 * admitted.len() {
            log.append(&entry(&payload)).unwrap();
        }
        assert!(log.used() <= CIRCLE, "{} of {CIRCLE}", log.used());
        drop(admitted);
        assert!(
            log.try_admit(2 * size).is_none(),
            "what is through still has its records"
        );
        log.write(log.next()).unwrap();
        let checkpoint = Checkpoint {
            lsn: log.next(),
            applied: 0,
        };
        log.put_checkpoint(checkpoint, false).unwrap();
        assert!(log.try_admit(2 * size).is_some());
    }

    #[test]
    fn a_log_takes_more_than_half_a_terabyte() {
        let folder = tempfile::tempdir().unwrap();
        drop(redo_log(folder.path()));
        let path = folder.path().join("redo");
        let (file, capacity, _) = redo::reopen(&path).unwrap();
        let far = 1 << 40;
        let log = RedoLog::over(file, capacity, far, BUFFER);
        for round in 1..=CIRCLE / 1056 {
            let end = log.append(&entry(&[7; 1000])).unwrap();
            assert_eq!(end, far + round * 1056);
        }
        log.write(log.next()).unwrap();
        assert_eq!(log.written(), log.next());
    }
}
