//! Restart after a crash: which transactions a server would have that finds these logs. Only reads.
//!
//! # Who decides
//!
//! As in a server the binlog does. Both logs are read from where the redo's checkpoint says that they agree:
//!
//! | a transaction is | it is |
//! |---|---|
//! | whole in both | committed |
//! | prepared in the redo only | rolled back: an acknowledgement comes after the binlog's bytes |
//! | with its events in the redo only (`redo`) | written into the binlog from its record, if all before it are there; else rolled back: an acknowledgement comes after the redo of all before it |
//! | in the binlog only | cut off: under redo 1, 2 and 3 an OS crash alone leaves that, under redo 0 any crash |
//! | torn | cut off, as MySQL does with a file that is IN_USE |
//!
//! A server keeps what is in the binlog only: its replicas then have what it has lost. Here both logs are to say
//! the same, so the binlog is cut before the first such transaction, as MariaDB cuts it on a server that restarts as a
//! semi-synchronous replica (MDEV-21117).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

use flushlab_binlog::check::{Checker, FileReport, Found, Options, Verdict};

use crate::error::{Error, Kind as ErrorKind};
use crate::files::BASENAME;
use crate::redo::{self, Kind};

/// The last event of a file's head, in MySQL and in MariaDB.
const HEADS_END: [&str; 2] = ["PREVIOUS_GTIDS", "BINLOG_CHECKPOINT"];

/// What a restart would find.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// XIDs of all committed transactions by the numbers of their GTIDs, from 1 on without gaps.
    pub committed: BTreeMap<u64, u64>,
    /// Of these, transactions that only the redo has whole.
    pub rebuilt: u64,
    /// Transactions that are in the redo and not committed.
    pub rolled_back: u64,
    /// Transactions that are in the binlog and not in the redo.
    pub cut_off: u64,
    /// Bytes of torn transactions.
    pub torn_bytes: u64,
}

/// What the redo has behind its checkpoint.
struct Redo {
    /// All GTIDs up to this number are in both logs.
    applied: u64,
    xids: HashSet<u64>,
    /// By the number of the GTID: XID, number of the file, position there, bytes.
    persisted: HashMap<u64, (u64, u32, u64, u64)>,
}

impl Redo {
    fn read(path: &Path) -> io::Result<Self> {
        let mut records = redo::read(path)?;
        let (mut xids, mut persisted) = (HashSet::new(), HashMap::new());
        for record in &mut records {
            let record = record?;
            if record.kind != Kind::Commit {
                xids.insert(record.xid);
            }
            if let Kind::Binlog { file, position } = record.kind {
                let bytes = record.binlog.len() as u64;
                persisted.insert(record.gtid_number, (record.xid, file, position, bytes));
            }
        }
        Ok(Self {
            applied: records.checkpoint().applied,
            xids,
            persisted,
        })
    }
}

/// Reads the logs of a folder; `None` if a run was ended before it had made them.
///
/// # Errors
/// A file cannot be read, or is damaged in a way that no crash leaves.
pub fn recover(folder: &Path) -> Result<Option<Recovered>, Error> {
    let index = read_index(folder).map_err(|error| Error::storage(folder.display(), &error))?;
    if index.is_empty() {
        return Ok(None);
    }
    let redo_path = folder.join(redo::NAME);
    let redo = Redo::read(&redo_path).map_err(|error| Error::storage(redo_path.display(), &error))?;
    let mut done = Recovered::default();
    // Where the log ends: number of the file, and position in it.
    let mut end = (0, 0);
    for (at, name) in index.iter().enumerate() {
        let file = BinlogFile::read(folder, name, at + 1 == index.len())?;
        done.torn_bytes += file.torn_bytes;
        for found in &file.transactions {
            let is_known = found.gtid_number <= redo.applied || redo.xids.contains(&found.xid);
            if done.cut_off > 0 || !is_known {
                done.cut_off += 1;
                continue;
            }
            done.committed.insert(found.gtid_number, found.xid);
        }
        if done.cut_off == 0 {
            end = (file.number, file.end);
        }
    }
    let last = done.committed.keys().next_back().copied();
    for gtid in last.unwrap_or(0) + 1.. {
        match redo.persisted.get(&gtid) {
            Some((xid, file, position, bytes)) if done.cut_off == 0 && (*file, *position) == end => {
                done.committed.insert(gtid, *xid);
                done.rebuilt += 1;
                end.1 += bytes;
            }
            _ => break,
        }
    }
    let committed: HashSet<u64> = done.committed.values().copied().collect();
    done.rolled_back = redo.xids.difference(&committed).count() as u64;
    Ok(Some(done))
}

/// Names of the files, oldest first; none if there is no index. A last line that is torn does not count.
pub(crate) fn read_index(folder: &Path) -> io::Result<Vec<String>> {
    let text = match fs::read_to_string(folder.join(format!("{BASENAME}.index"))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let names = whole.lines().map(|line| line.trim_start_matches("./"));
    Ok(names.map(str::to_owned).collect())
}

/// What is whole of a file of the binlog.
struct BinlogFile {
    number: u32,
    end: u64,
    transactions: Vec<Found>,
    torn_bytes: u64,
}

impl BinlogFile {
    fn read(folder: &Path, name: &str, is_last: bool) -> Result<Self, Error> {
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
        let number = name.rsplit('.').next().and_then(|digits| digits.parse().ok());
        let end = whole_until(&report, &mut transactions);
        match (number, end) {
            (Some(number), Some(end)) if report.verdict == Verdict::Whole || may_be_torn => Ok(Self {
                number,
                end,
                transactions,
                torn_bytes: report.bytes - end,
            }),
            _ => Err(damaged(&path, &report)),
        }
    }
}

/// Where the file is whole up to: nothing behind the first broken rule is believed. `None` if that is in the
/// head, which is synced before the index names the file.
fn whole_until(report: &FileReport, transactions: &mut Vec<Found>) -> Option<u64> {
    let Some(problem) = report.problems.first() else {
        let has_head = |name: &&str| report.event_types.contains_key(*name);
        return HEADS_END.iter().any(has_head).then_some(report.whole_until);
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
    Error::new(ErrorKind::Storage, message).hint("no crash leaves that: begin with an empty folder")
}
