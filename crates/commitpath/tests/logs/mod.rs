//! Both logs as a restart after a crash would read them. An independent reader of the redo's format; nothing is
//! written.
//!
//! As in a server the binlog decides. Both logs are read from where the redo's checkpoint says that they agree:
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
use std::io::BufReader;
use std::path::Path;

use flushlab_binlog::check::{Checker, FileReport, Found, Verdict};

pub const REDO: &str = "redo";
/// Where the circle begins in the redo's file.
pub const CIRCLE: u64 = 8192;
const HEADER_SIZE: usize = 56;
const PREPARE: u32 = 1;
const COMMIT: u32 = 2;
const BINLOG: u32 = 3;
/// The last event of a file's head, in MySQL and in MariaDB.
const HEADS_END: [&str; 2] = ["PREVIOUS_GTIDS", "BINLOG_CHECKPOINT"];

/// A record of the redo.
#[derive(Debug, Clone)]
pub struct Record {
    #[allow(dead_code)] // the tests that cut the file want it
    pub lsn: u64,
    pub xid: u64,
    pub gtid_number: u64,
    kind: u32,
    /// The transaction's bytes in the binlog, if the record has them: number of the file, position there.
    pub binlog: Option<(u32, u64, Vec<u8>)>,
}

/// The redo from its checkpoint to the first torn record.
#[derive(Debug)]
pub struct Redo {
    /// All GTIDs up to this number are in both logs.
    pub applied: u64,
    pub records: Vec<Record>,
    pub end: u64,
}

impl Redo {
    pub fn read(folder: &Path) -> Result<Self, String> {
        let file = fs::read(folder.join(REDO)).map_err(|error| format!("{REDO}: {error}"))?;
        let pair = |at: usize| {
            let block = file.get(at..at + 20)?;
            let is_whole = crc32fast::hash(&block[..16]) == u32_at(block, 16);
            is_whole.then(|| (u64_at(block, 0), u64_at(block, 8)))
        };
        let (magic, capacity) = pair(0).ok_or("the redo has no head")?;
        assert_eq!(magic.to_le_bytes(), *b"FLREDO01");
        let circle = file.get(CIRCLE as usize..).unwrap_or_default();
        assert_eq!(circle.len() as u64, capacity, "the circle is written whole");
        let checkpoints = [pair(512), pair(1024)];
        let (checkpoint, applied) = checkpoints
            .into_iter()
            .flatten()
            .max()
            .ok_or("no checkpoint is whole")?;
        let mut redo = Self {
            applied,
            records: Vec::new(),
            end: checkpoint,
        };
        while let Some((record, size)) = record(circle, redo.end) {
            redo.records.push(record);
            redo.end += size as u64;
        }
        Ok(redo)
    }
}

/// The whole record at an LSN, and its size.
fn record(circle: &[u8], lsn: u64) -> Option<(Record, usize)> {
    let bytes = |size: usize| -> Vec<u8> {
        let at = (lsn % circle.len() as u64) as usize;
        let (back, front) = circle.split_at(at);
        front.iter().chain(back).take(size).copied().collect()
    };
    let header = bytes(HEADER_SIZE);
    let size = u32_at(&header, 4) as usize;
    if u64_at(&header, 8) != lsn || !(HEADER_SIZE..=circle.len()).contains(&size) {
        return None;
    }
    let all = bytes(size);
    let kind = u32_at(&all, 32);
    let payload_end = HEADER_SIZE + u32_at(&all, 36) as usize;
    if crc32fast::hash(&all[4..]) != u32_at(&all, 0) {
        return None;
    }
    let binlog = all[payload_end..].to_vec();
    assert!((PREPARE..=BINLOG).contains(&kind) && (kind == BINLOG) != binlog.is_empty());
    let record = Record {
        lsn,
        xid: u64_at(&all, 16),
        gtid_number: u64_at(&all, 24),
        kind,
        binlog: (kind == BINLOG).then(|| (u32_at(&all, 48), u64_at(&all, 40), binlog)),
    };
    Some((record, size))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

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

/// Reads the logs of a folder; `None` if a run was ended before it had made them, an error for damage that no crash
/// leaves.
pub fn recover(folder: &Path) -> Result<Option<Recovered>, String> {
    let index = read_index(folder);
    if index.is_empty() {
        return Ok(None);
    }
    let redo = Redo::read(folder)?;
    let prepared = redo.records.iter().filter(|one| one.kind != COMMIT);
    let xids: HashSet<u64> = prepared.map(|one| one.xid).collect();
    let persisted: HashMap<u64, &Record> = redo.records.iter().map(|one| (one.gtid_number, one)).collect();
    let mut done = Recovered::default();
    // Where the log ends: number of the file, and position in it.
    let mut end = (0, 0);
    for (at, name) in index.iter().enumerate() {
        let (transactions, whole_until, torn_bytes) = read_file(folder, name, at + 1 == index.len())?;
        done.torn_bytes += torn_bytes;
        for found in &transactions {
            let is_known = found.gtid_number <= redo.applied || xids.contains(&found.xid);
            if done.cut_off > 0 || !is_known {
                done.cut_off += 1;
                continue;
            }
            done.committed.insert(found.gtid_number, found.xid);
        }
        if done.cut_off == 0 {
            end = (at as u32 + 1, whole_until);
        }
    }
    let last = done.committed.keys().next_back().copied();
    for gtid in last.unwrap_or(0) + 1.. {
        let record = persisted.get(&gtid).filter(|_| done.cut_off == 0);
        let Some((xid, (file, position, bytes))) =
            record.and_then(|one| Some((one.xid, one.binlog.as_ref()?)))
        else {
            break;
        };
        if (*file, *position) != end {
            break;
        }
        done.committed.insert(gtid, xid);
        done.rebuilt += 1;
        end.1 += bytes.len() as u64;
    }
    let committed: HashSet<u64> = done.committed.values().copied().collect();
    done.rolled_back = xids.difference(&committed).count() as u64;
    Ok(Some(done))
}

/// Names of the binlog's files, oldest first; none if there is no index. A last line that is torn does not count.
pub fn read_index(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("binlog.index")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let names = whole.lines().map(|line| line.trim_start_matches("./").to_owned());
    names.collect()
}

/// Whole transactions of a file of the binlog, where they end, and how many bytes are torn.
fn read_file(folder: &Path, name: &str, is_last: bool) -> Result<(Vec<Found>, u64, u64), String> {
    let mut transactions = Vec::new();
    let opened = File::open(folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
    let report = Checker::default()
        .check_each(name, BufReader::with_capacity(1 << 20, opened), |found| {
            transactions.push(found)
        })
        .map_err(|error| format!("{name}: {error}"))?;
    let may_be_torn = is_last && report.in_use && report.verdict != Verdict::Unknown;
    match whole_until(&report, &mut transactions) {
        Some(end) if report.verdict == Verdict::Whole || may_be_torn => {
            Ok((transactions, end, report.bytes - end))
        }
        _ => Err(format!(
            "{name} cannot be recovered: {:?}, {:?}",
            report.problems.first(),
            report.tail
        )),
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
