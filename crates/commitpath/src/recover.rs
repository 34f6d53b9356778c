//! Restart after a crash: brings redo and binlog to the same transactions, so that a run can go on from there.
//!
//! # Who decides
//!
//! As in a server the binlog does. Both logs are read from where the redo's checkpoint says that they agree:
//!
//! | a transaction is | `serial`, `parallel-leader`, `parallel` | `redo` |
//! |---|---|---|
//! | whole in both | committed | committed |
//! | in redo only | rolled back: an acknowledgement comes after the binlog's bytes | its bytes are written into the binlog from its record, if all before it are there; else rolled back: an acknowledgement comes after the redo of all before it |
//! | in the binlog only | under redo 1, 2 and 3 an OS crash alone leaves that, under redo 0 any crash: cut off | the same |
//! | torn | the tail is cut off, as MySQL does with a file that is IN_USE | the same |
//!
//! A server keeps what is in the binlog only: its replicas then have what it has lost. Here both logs are to say
//! the same, so the binlog is cut before the first such transaction, as MariaDB cuts it on a server that restarts as a
//! semi-synchronous replica (MDEV-21117).
//!
//! # What is left behind
//!
//! The last file is closed (IN_USE clear, no STOP), a file that the index does not name is removed, and the
//! redo's checkpoint stands behind everything that any earlier run may have written there. The binlog is made
//! right and synced before the checkpoint is moved: a crash in between changes nothing, and recovery does the same again.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flushlab_binlog::check::{Checker, FileReport, Found, Options, Verdict};
use flushlab_binlog::{clear_in_use, Flavor};

use crate::error::Error;
use crate::files::{index_path, read_index, write_index, BASENAME};
use crate::redo::{self, Checkpoint, Kind};

/// The last event of a file's head, in MySQL and in MariaDB.
const HEADS_END: [&str; 2] = ["PREVIOUS_GTIDS", "BINLOG_CHECKPOINT"];

/// What a restart found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Whose logs they are.
    pub flavor: Option<Flavor>,
    /// Number of the last GTID: all up to it are in both logs, and no other.
    pub last_gtid: u64,
    /// Number of the last binlog file.
    pub file_number: u32,
    /// Where the redo log goes on.
    pub lsn: u64,
    /// Transactions that were written into the binlog from the redo.
    pub rebuilt: u64,
    /// Transactions that were in the redo and did not commit.
    pub rolled_back: u64,
    /// Transactions that were in the binlog and not in the redo: cut off.
    pub cut_off: u64,
    /// Bytes of torn transactions that were cut off.
    pub torn_bytes: u64,
}

/// Recovers the logs of a folder; `None` if a run was ended before it had made them.
///
/// # Errors
/// A file cannot be read or written, or is damaged in a way that no crash leaves.
pub fn recover(folder: &Path) -> Result<Option<Recovered>, Error> {
    let redo_path = folder.join(redo::NAME);
    let index = read_index(folder).map_err(|error| Error::storage(folder.display(), &error))?;
    if index.is_empty() {
        remove_unnamed(folder, &index)?;
        remove_if_there(&redo_path)?;
        remove_if_there(&index_path(folder))?;
        return Ok(None);
    }
    let redo = Redo::read(&redo_path)?;
    let mut binlog = Binlog::read(folder, &index, redo.applied)?;
    let mut done = Recovered {
        torn_bytes: binlog.torn_bytes,
        ..Recovered::default()
    };
    done.cut_off = binlog.cut_before_first(|found| !redo.has(found));
    done.rebuilt = binlog.append(&redo)?;
    done.rolled_back = redo.xids().difference(&binlog.xids()).count() as u64;
    done.last_gtid = binlog.last_gtid(redo.applied);
    done.flavor = binlog.files.last().and_then(|file| file.flavor);
    done.file_number = binlog.write()?;
    // No record of an earlier run has as large an LSN: none can be taken for one of the next.
    done.lsn = redo.end + redo.capacity;
    let checkpoint = Checkpoint {
        lsn: done.lsn,
        applied: done.last_gtid,
    };
    redo::renew_checkpoints(&redo_path, checkpoint)
        .map_err(|error| Error::storage(redo_path.display(), &error))?;
    Ok(Some(done))
}

/// Removes files of the log that the index does not name any more, or does not name yet.
fn remove_unnamed(folder: &Path, index: &[String]) -> Result<(), Error> {
    let storage = |error: io::Error| Error::storage(folder.display(), &error);
    for entry in fs::read_dir(folder).map_err(storage)? {
        let path = entry.map_err(storage)?.path();
        let name = name_of(&path);
        if number_of(&name).is_some() && !index.contains(&name) {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

/// The number of a file of the log; `None` for other files.
fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(BASENAME)?.strip_prefix('.')?;
    digits.parse().ok()
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::storage(path.display(), &error)),
        _ => Ok(()),
    }
}

/// A transaction's bytes for the binlog, as the redo has them.
#[derive(Debug)]
struct Persisted {
    xid: u64,
    file: u32,
    position: u64,
    bytes: Vec<u8>,
}

/// What the redo has behind its checkpoint.
#[derive(Debug)]
struct Redo {
    /// All GTIDs up to this number are in both logs.
    applied: u64,
    prepared: HashSet<u64>,
    /// By the number of the GTID.
    persisted: HashMap<u64, Persisted>,
    end: u64,
    capacity: u64,
}

impl Redo {
    fn read(path: &Path) -> Result<Self, Error> {
        let storage = |error: io::Error| Error::storage(path.display(), &error);
        let mut records = redo::read(path).map_err(storage)?;
        let (mut prepared, mut persisted) = (HashSet::new(), HashMap::new());
        for record in &mut records {
            let record = record.map_err(storage)?;
            match record.kind {
                Kind::Prepare => {
                    prepared.insert(record.xid);
                }
                Kind::Binlog { file, position } => {
                    let (xid, bytes) = (record.xid, record.binlog);
                    let place = Persisted {
                        xid,
                        file,
                        position,
                        bytes,
                    };
                    persisted.insert(record.gtid_number, place);
                }
                Kind::Commit => {}
            }
        }
        Ok(Self {
            applied: records.checkpoint().applied,
            prepared,
            persisted,
            end: records.lsn(),
            capacity: records.capacity(),
        })
    }

    fn has(&self, found: &Found) -> bool {
        let persisted = self.persisted.get(&found.gtid_number);
        found.gtid_number <= self.applied
            || self.prepared.contains(&found.xid)
            || persisted.is_some_and(|one| one.xid == found.xid)
    }

    fn xids(&self) -> HashSet<u64> {
        let persisted = self.persisted.values().map(|one| one.xid);
        self.prepared.iter().copied().chain(persisted).collect()
    }
}

/// A file of the binlog.
#[derive(Debug)]
struct BinlogFile {
    path: PathBuf,
    number: u32,
    /// Bytes of it that stay.
    end: u64,
    /// Bytes of it that there are.
    bytes: u64,
    in_use: bool,
    flavor: Option<Flavor>,
    /// Those that are whole and stay.
    transactions: Vec<Found>,
    /// What comes behind them from the redo.
    appended: Vec<u8>,
}

/// The binlog's files from the checkpoint on.
#[derive(Debug)]
struct Binlog {
    folder: PathBuf,
    /// Names of the files before.
    before: Vec<String>,
    files: Vec<BinlogFile>,
    torn_bytes: u64,
}

impl Binlog {
    /// Reads the files that may have GTIDs above `applied`.
    fn read(folder: &Path, index: &[String], applied: u64) -> Result<Self, Error> {
        let mut files = Vec::new();
        let mut left = index.to_vec();
        let mut torn_bytes = 0;
        while let Some(name) = left.pop() {
            let is_last = files.is_empty();
            let (file, torn) = read_file(folder, &name, is_last)?;
            torn_bytes += torn;
            let reaches_back = file
                .transactions
                .first()
                .is_some_and(|found| found.gtid_number <= applied + 1);
            files.insert(0, file);
            if reaches_back {
                break;
            }
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            before: left,
            files,
            torn_bytes,
        })
    }

    /// Cuts the log before the first transaction that `is_missing`; how many go.
    fn cut_before_first(&mut self, is_missing: impl Fn(&Found) -> bool) -> u64 {
        let mut gone = 0;
        for index in 0..self.files.len() {
            let transactions = &mut self.files[index].transactions;
            let Some(first) = transactions.iter().position(&is_missing) else {
                continue;
            };
            let start = transactions[first].start;
            gone += transactions.drain(first..).count();
            self.files[index].end = start;
            let behind = self.files.drain(index + 1..);
            gone += behind.map(|file| file.transactions.len()).sum::<usize>();
            break;
        }
        gone as u64
    }

    fn last_gtid(&self, applied: u64) -> u64 {
        let mut found = self.files.iter().rev().flat_map(|file| file.transactions.last());
        found.next().map_or(applied, |found| found.gtid_number)
    }

    fn xids(&self) -> HashSet<u64> {
        let transactions = self.files.iter().flat_map(|file| &file.transactions);
        transactions.map(|found| found.xid).collect()
    }

    /// Puts the transactions behind the end that the redo has, one after the other; how many.
    fn append(&mut self, redo: &Redo) -> Result<u64, Error> {
        let first = self.last_gtid(redo.applied) + 1;
        let Some(file) = self.files.last_mut() else {
            return Ok(0);
        };
        let mut count = 0;
        while let Some(next) = redo.persisted.get(&(first + count)) {
            if (next.file, next.position) != (file.number, file.end) {
                break;
            }
            let end = file.end + next.bytes.len() as u64;
            file.transactions.push(Found {
                start: file.end,
                end,
                gtid_number: first + count,
                xid: next.xid,
            });
            file.appended.extend_from_slice(&next.bytes);
            file.end = end;
            count += 1;
        }
        Ok(count)
    }

    /// Makes the index and the files so; the number of the last file.
    fn write(&self) -> Result<u32, Error> {
        // The index first: a file that is cut must be the last, should recovery itself be cut short.
        let names = self.files.iter().map(|file| name_of(&file.path));
        let names: Vec<String> = self.before.iter().cloned().chain(names).collect();
        write_index(&self.folder, &names).map_err(|error| Error::storage(self.folder.display(), &error))?;
        let mut last = 0;
        for file in &self.files {
            file.write()
                .map_err(|error| Error::storage(file.path.display(), &error))?;
            last = file.number;
        }
        remove_unnamed(&self.folder, &names)?;
        Ok(last)
    }
}

impl BinlogFile {
    fn write(&self) -> io::Result<()> {
        let kept = self.end - self.appended.len() as u64;
        if kept == self.bytes && self.appended.is_empty() && !self.in_use {
            return Ok(());
        }
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        file.set_len(kept)?;
        file.write_all_at(&self.appended, kept)?;
        // What is in the file comes before the word that it is in order.
        file.sync_data()?;
        clear_in_use(&file)?;
        file.sync_all()
    }
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Reads a file; also says how many bytes of a torn tail are not in it.
fn read_file(folder: &Path, name: &str, is_last: bool) -> Result<(BinlogFile, u64), Error> {
    let path = folder.join(name);
    let storage = |error: io::Error| Error::storage(path.display(), &error);
    let mut transactions = Vec::new();
    let opened = File::open(&path).map_err(storage)?;
    let report = Checker::new(Options::default())
        .check_each(name, BufReader::with_capacity(1 << 20, opened), |found| {
            transactions.push(found)
        })
        .map_err(storage)?;
    let may_be_torn = is_last && report.in_use && report.verdict != Verdict::Unknown;
    if report.verdict != Verdict::Whole && !may_be_torn {
        return Err(damaged(&path, &report));
    }
    let Some(end) = whole_until(&report, &mut transactions) else {
        return Err(damaged(&path, &report));
    };
    let file = BinlogFile {
        number: number_of(name).ok_or_else(|| damaged(&path, &report))?,
        path,
        end,
        bytes: report.bytes,
        in_use: report.in_use,
        flavor: report.flavor,
        transactions,
        appended: Vec::new(),
    };
    Ok((file, report.bytes - end))
}

/// Where the file is whole up to: nothing behind the first broken rule is believed. `None` if that is in the
/// head, which is synced before the index names the file.
fn whole_until(report: &FileReport, transactions: &mut Vec<Found>) -> Option<u64> {
    let Some(problem) = report.problems.first() else {
        return HEADS_END
            .iter()
            .any(|name| report.event_types.contains_key(*name))
            .then_some(report.whole_until);
    };
    transactions.retain(|found| found.end <= problem.offset);
    transactions.last().map(|last| last.end)
}

fn damaged(path: &Path, report: &FileReport) -> Error {
    let what = match (report.problems.first(), &report.tail) {
        (Some(problem), _) => problem.to_string(),
        (None, Some(tail)) => format!("torn at {}", tail.offset),
        (None, None) => "its name has no number".to_owned(),
    };
    let message = format!("{} cannot be recovered: {what}", path.display());
    Error::new(crate::error::Kind::Storage, message).hint("no crash leaves that: begin with an empty folder")
}
