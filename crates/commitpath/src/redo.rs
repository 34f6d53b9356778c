//! The redo log: a circular file, a log buffer that threads fill in parallel, group flush.
//!
//! # File format (little-endian)
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
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
//! | 4 | 4 | length of the record, these [`HEADER_SIZE`] bytes included |
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
//! # What recovery may rely on
//!
//! * A transaction's prepare record (or binlog record) is written before its bytes in the binlog, unless
//!   redo is 0. So a transaction that is whole in the binlog but not in redo was acknowledged under redo 0 only,
//!   or its record lies before the checkpoint.
//! * A prepared transaction that is not in the binlog was not acknowledged, except under `redo`, where its
//!   binlog record is there and everything before it in the binlog is in the binlog or in redo. `redo`
//!   transactions larger than [`crate::PERSIST_LIMIT`] are prepared, and in the synced binlog.
//! * Order in the file is no order of commits: GTIDs say that.
//! * The first record that is torn ends the log.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Its name in a run's folder.
pub const NAME: &str = "redo";
/// First bytes of a redo file.
pub const MAGIC: [u8; 8] = *b"FLREDO01";
/// Where the circle begins in the file.
pub const DATA_OFFSET: u64 = 8192;
/// Bytes of a record before its payload.
pub const HEADER_SIZE: usize = 56;

const CHECKPOINT_OFFSETS: [u64; 2] = [512, 1024];

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The transaction is prepared: it commits if it is in the binlog.
    Prepare,
    /// The transaction is committed (redo 3).
    Commit,
    /// The transaction is committed, and these are its bytes in the binlog (flush `redo`).
    Binlog {
        /// Number of the file.
        file: u32,
        /// Where it begins there.
        position: u64,
    },
}

impl Kind {
    fn code(self) -> u32 {
        match self {
            Self::Prepare => 1,
            Self::Commit => 2,
            Self::Binlog { .. } => 3,
        }
    }
}

/// What is known of a record before its place is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) kind: Kind,
    pub(crate) xid: u64,
    pub(crate) gtid_number: u64,
    pub(crate) payload: &'a [u8],
    /// The transaction's bytes in the binlog.
    pub(crate) binlog: &'a [u8],
}

impl Entry<'_> {
    /// Bytes of the record.
    pub(crate) fn size(&self) -> usize {
        HEADER_SIZE + self.payload.len() + self.binlog.len()
    }

    /// The header with the checksum of the whole record.
    pub(crate) fn header(&self, lsn: u64) -> [u8; HEADER_SIZE] {
        let mut header = [0; HEADER_SIZE];
        let (file, position) = match self.kind {
            Kind::Binlog { file, position } => (file, position),
            _ => (0, 0),
        };
        header[4..8].copy_from_slice(&(self.size() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&lsn.to_le_bytes());
        header[16..24].copy_from_slice(&self.xid.to_le_bytes());
        header[24..32].copy_from_slice(&self.gtid_number.to_le_bytes());
        header[32..36].copy_from_slice(&self.kind.code().to_le_bytes());
        header[36..40].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        header[40..48].copy_from_slice(&position.to_le_bytes());
        header[48..52].copy_from_slice(&file.to_le_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(&header[4..]);
        crc.update(self.payload);
        crc.update(self.binlog);
        header[..4].copy_from_slice(&crc.finalize().to_le_bytes());
        header
    }
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Of its first byte.
    pub lsn: u64,
    /// The transaction.
    pub xid: u64,
    /// Its GTID's number, 0 if the record was written before it was known.
    pub gtid_number: u64,
    /// What the record says.
    pub kind: Kind,
    /// Its redo.
    pub payload: Vec<u8>,
    /// Its bytes in the binlog (kind `Binlog`, else empty).
    pub binlog: Vec<u8>,
}

/// Creates the file with its first checkpoint at 0; the circle is not yet there.
pub(crate) fn create(path: &Path, capacity: u64) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    let mut head = [0; 20];
    head[..8].copy_from_slice(&MAGIC);
    head[8..16].copy_from_slice(&capacity.to_le_bytes());
    let crc = crc32fast::hash(&head[..16]);
    head[16..].copy_from_slice(&crc.to_le_bytes());
    file.write_all_at(&head, 0)?;
    put_checkpoint(&file, 0, Checkpoint::default())?;
    file.write_all_at(&[0; 1], DATA_OFFSET - 1)?;
    Ok(file)
}

/// From where on records are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Checkpoint {
    /// Where a record begins.
    pub lsn: u64,
    /// All GTIDs up to this number are committed, in both logs.
    pub applied: u64,
}

const CHECKPOINT_SIZE: usize = 20;

/// Writes a checkpoint; `number` alternates between the two places.
pub(crate) fn put_checkpoint(file: &File, number: u64, checkpoint: Checkpoint) -> io::Result<()> {
    let mut block = [0; CHECKPOINT_SIZE];
    block[..8].copy_from_slice(&checkpoint.lsn.to_le_bytes());
    block[8..16].copy_from_slice(&checkpoint.applied.to_le_bytes());
    let crc = crc32fast::hash(&block[..16]);
    block[16..].copy_from_slice(&crc.to_le_bytes());
    file.write_all_at(&block, CHECKPOINT_OFFSETS[number as usize % 2])
}

fn read_checkpoint(file: &File, offset: u64) -> Option<Checkpoint> {
    let mut block = [0; CHECKPOINT_SIZE];
    file.read_exact_at(&mut block, offset).ok()?;
    let is_valid = crc32fast::hash(&block[..16]).to_le_bytes() == block[16..];
    is_valid.then(|| Checkpoint {
        lsn: u64_at(&block, 0),
        applied: u64_at(&block, 8),
    })
}

/// Opens a redo file for reading its records from the checkpoint on.
///
/// # Errors
/// The file cannot be read or is no redo file (`InvalidData`).
pub fn read(path: &Path) -> io::Result<Records> {
    let file = File::open(path)?;
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut head = [0; 20];
    file.read_exact_at(&mut head, 0)
        .map_err(|_| damaged("the file is too short for a redo log"))?;
    if head[..8] != MAGIC || crc32fast::hash(&head[..16]).to_le_bytes() != head[16..] {
        return Err(damaged("the file does not begin as a redo log does"));
    }
    let capacity = u64_at(&head, 8);
    if capacity < HEADER_SIZE as u64 {
        return Err(damaged("the redo log has no room for a record"));
    }
    let found = CHECKPOINT_OFFSETS.into_iter();
    let checkpoint = found.filter_map(|offset| read_checkpoint(&file, offset)).max();
    let checkpoint = checkpoint.ok_or_else(|| damaged("the redo log has no valid checkpoint"))?;
    Ok(Records {
        file,
        capacity,
        checkpoint,
        lsn: checkpoint.lsn,
    })
}

/// The records of a redo file from its checkpoint to the first torn one.
#[derive(Debug)]
pub struct Records {
    file: File,
    capacity: u64,
    checkpoint: Checkpoint,
    lsn: u64,
}

impl Records {
    /// Where reading began.
    pub fn checkpoint(&self) -> Checkpoint {
        self.checkpoint
    }

    /// Where the next record would begin: the log's end once there is none.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// `size` bytes from the current LSN on, if the file has as many.
    fn bytes(&self, size: u64) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; size as usize];
        let at = self.lsn % self.capacity;
        let (front, back) = bytes.split_at_mut(size.min(self.capacity - at) as usize);
        let read = self.file.read_exact_at(front, DATA_OFFSET + at);
        match read.and_then(|()| self.file.read_exact_at(back, DATA_OFFSET)) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn next_record(&mut self) -> io::Result<Option<Record>> {
        let Some(header) = self.bytes(HEADER_SIZE as u64)? else {
            return Ok(None);
        };
        let size = u64::from(u32_at(&header, 4));
        let sizes = HEADER_SIZE as u64..=self.capacity;
        if u64_at(&header, 8) != self.lsn || !sizes.contains(&size) {
            return Ok(None);
        }
        let record = self.bytes(size)?.and_then(|bytes| parse(&bytes));
        if record.is_some() {
            self.lsn += size;
        }
        Ok(record)
    }
}

impl Iterator for Records {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

/// A whole record, or nothing if it is torn.
fn parse(bytes: &[u8]) -> Option<Record> {
    if crc32fast::hash(&bytes[4..]) != u32_at(bytes, 0) {
        return None;
    }
    let kind = match u32_at(bytes, 32) {
        1 => Kind::Prepare,
        2 => Kind::Commit,
        3 => Kind::Binlog {
            position: u64_at(bytes, 40),
            file: u32_at(bytes, 48),
        },
        _ => return None,
    };
    let payload_end = HEADER_SIZE + u32_at(bytes, 36) as usize;
    Some(Record {
        lsn: u64_at(bytes, 8),
        xid: u64_at(bytes, 16),
        gtid_number: u64_at(bytes, 24),
        kind,
        payload: bytes.get(HEADER_SIZE..payload_end)?.to_vec(),
        binlog: bytes.get(payload_end..)?.to_vec(),
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Kind, xid: u64, payload: &[u8]) -> Entry<'_> {
        Entry {
            kind,
            xid,
            gtid_number: xid * 10,
            payload,
            binlog: match kind {
                Kind::Binlog { .. } => b"binlog",
                _ => b"",
            },
        }
    }

    fn put(file: &File, capacity: u64, lsn: u64, entry: &Entry<'_>) -> u64 {
        let mut bytes = entry.header(lsn).to_vec();
        bytes.extend(entry.payload.iter().chain(entry.binlog));
        for (at, byte) in bytes.iter().enumerate() {
            let offset = DATA_OFFSET + (lsn + at as u64) % capacity;
            file.write_all_at(&[*byte], offset).unwrap();
        }
        lsn + bytes.len() as u64
    }

    #[test]
    fn records_come_back_across_the_end_of_the_circle_up_to_the_first_torn_one() {
        const CAPACITY: u64 = 300;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redo");
        let file = create(&path, CAPACITY).unwrap();
        file.write_all_at(&[0; CAPACITY as usize], DATA_OFFSET).unwrap();
        let kind = Kind::Binlog {
            file: 3,
            position: 4711,
        };
        // Two laps: the first lap's records are still whole where the second has not come to.
        let mut lsn = 0;
        for xid in 1..=3 {
            lsn = put(&file, CAPACITY, lsn, &entry(Kind::Prepare, xid, &[7; 30]));
        }
        let checkpoint = Checkpoint { lsn, applied: 3 };
        lsn = put(&file, CAPACITY, lsn, &entry(kind, 4, &[8; 20]));
        let torn = lsn;
        lsn = put(&file, CAPACITY, lsn, &entry(Kind::Commit, 5, &[]));
        put_checkpoint(&file, 1, checkpoint).unwrap();

        let found: Vec<_> = read(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(found.iter().map(|record| record.xid).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(found[0].kind, kind);
        assert_eq!(
            (found[0].payload.as_slice(), found[0].binlog.as_slice()),
            (&[8; 20][..], &b"binlog"[..])
        );
        assert_eq!((found[1].lsn, found[1].gtid_number), (torn, 50));

        file.write_all_at(&[0xff], DATA_OFFSET + (lsn - 1) % CAPACITY)
            .unwrap();
        let mut records = read(&path).unwrap();
        assert_eq!(records.by_ref().count(), 1);
        assert_eq!((records.checkpoint(), records.lsn()), (checkpoint, torn));
    }

    #[test]
    fn what_is_no_redo_log_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redo");
        std::fs::write(&path, b"short").unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::write(&path, vec![0; 9000]).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
