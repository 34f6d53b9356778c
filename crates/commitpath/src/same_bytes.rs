//! What committers write at once is, byte for byte, what one plain writer makes of their transactions in the same
//! order under the same clock: through every pipeline by turns, across files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use flushlab_binlog::check::{Checker, Found, Options, Verdict};
use flushlab_binlog::{Body, Flavor, Log, LogOptions, HEADER_SIZE};
use serde_json::json;

use crate::files::BASENAME;
use crate::recover::read_index;
use crate::shape::{Source, Transactions};
use crate::{CommitPath, Spec};

const TRANSACTIONS: u64 = 1800;

fn spec(folder: &Path, version: &str, threads: u32, committers: u32) -> Spec {
    let ways = [
        json!({"binlog_strategy": "parallel"}),
        json!({"binlog_strategy": "redo", "trx_commit": 1, "sync_binlog": 1}),
        json!({"binlog_strategy": "serial"}),
        json!({"binlog_strategy": "two-syncs"}),
        json!({"binlog_strategy": "parallel", "trx_commit": 2, "sync_binlog": 1000}),
        json!({"binlog_strategy": "serial"}),
    ];
    let change = |(index, mut way): (usize, serde_json::Value)| {
        way["after_commits"] = json!((1 + index as u64) * TRANSACTIONS / 12);
        way
    };
    let changes: Vec<_> = ways.into_iter().enumerate().map(change).collect();
    let spec = json!({
        "directory": folder, "keep": true, "format": version, "trx_commit": 2, "sync_binlog": 1000,
        "binlog_strategy": "serial", "threads": threads, "committers": committers, "transactions": TRANSACTIONS, "seed": 3,
        "shape": {"kind": "oltp_update_non_index", "tables": 3, "rows": 200},
        "rotate_bytes": 150_000, "log_buffer_bytes": 1 << 20,
        "redo_capacity_bytes": 4 << 20, "changes": changes,
    });
    Spec::from_json(spec.to_string().as_bytes()).unwrap()
}

/// Contents of the log's files by name, and the index.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let named = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), entry.path());
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| named(entry.unwrap()))
        .filter(|(name, _)| name.starts_with(BASENAME))
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect()
}

/// Writes the transactions of `made` again, in their order.
struct Again<'a> {
    made: &'a Path,
    flavor: Flavor,
    log: Log,
    body: Body,
    committers: Vec<Transactions>,
    /// How many each committer has made, and the sequence number of its last in the file at hand.
    counts: Vec<u64>,
    last_sequence: Vec<u64>,
}

impl<'a> Again<'a> {
    fn new(spec: &Spec, made: &'a Path, folder: &Path) -> Self {
        let first = fs::read(made.join(&read_index(made).unwrap()[0])).unwrap();
        let timestamp = u32::from_le_bytes(first[4..8].try_into().unwrap());
        let source = Source::new(&spec.shape, &spec.format, spec.committers, spec.seed, timestamp).unwrap();
        let options = LogOptions {
            basename: BASENAME.to_owned(),
            max_size: u64::MAX,
            timestamp,
        };
        let count = spec.committers as usize;
        Self {
            made,
            flavor: spec.format.flavor(),
            log: Log::create(&spec.format, folder, options).unwrap(),
            body: Body::new(&spec.format),
            committers: (0..spec.committers)
                .map(|me| Transactions::new(&source, me))
                .collect(),
            counts: vec![0; count],
            last_sequence: vec![0; count],
        }
    }

    fn write_all(mut self) {
        let mut checker = Checker::new(Options::default());
        for (index, name) in read_index(self.made).unwrap().iter().enumerate() {
            if index > 0 {
                self.log.rotate().unwrap();
                self.last_sequence.fill(0);
            }
            let content = fs::read(self.made.join(name)).unwrap();
            let mut number = 0;
            let report = checker.check_each(name, content.as_slice(), |found| {
                number += 1;
                self.write(&content, &found, number);
            });
            let report = report.unwrap();
            assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
        }
        self.log.close().unwrap();
    }

    /// Writes the `number`-th transaction of a file.
    fn write(&mut self, content: &[u8], found: &Found, number: u64) {
        let me = (found.xid & 255) as usize;
        self.counts[me] += 1;
        assert_eq!(
            found.xid >> 8,
            self.counts[me],
            "a committer's transactions keep their order"
        );
        let (last_committed, commit_us) = clock(self.flavor, &content[found.start as usize + HEADER_SIZE..]);
        if let Some(last_committed) = last_committed {
            let before = std::mem::replace(&mut self.last_sequence[me], number);
            assert!(
                last_committed >= before,
                "a replica may run XID {} beside the same committer's last",
                found.xid
            );
        }
        self.committers[me].next(&mut self.body, found.xid).unwrap();
        let place = self.log.append(&self.body, commit_us, last_committed, 0).unwrap();
        assert_eq!(
            (place.position, place.gtid_number),
            (found.start, found.gtid_number),
            "XID {}",
            found.xid
        );
    }
}

/// What of a GTID event's body depends on who committed beside it and when (MySQL): last_committed, and the time.
fn clock(flavor: Flavor, body: &[u8]) -> (Option<u64>, u64) {
    let number = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().unwrap());
    match flavor {
        Flavor::Mysql => (Some(number(26)), number(42) & ((1 << 55) - 1)),
        Flavor::Mariadb => (None, 0),
    }
}

/// A run in which the settings changed all six times. Who changes it looks every few milliseconds: on a busy
/// machine the transactions may end first, and the run is made again.
fn switched(version: &str, threads: u32, committers: u32) -> (tempfile::TempDir, Spec) {
    for _ in 0..50 {
        let made = tempfile::tempdir().unwrap();
        let spec = spec(made.path(), version, threads, committers);
        let mut run = CommitPath::new(spec.clone());
        run.start().unwrap();
        let result = run.wait(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(result.last_gtid, TRANSACTIONS);
        if result.switches == 6 {
            return (made, spec);
        }
    }
    panic!("no run of 50 changed its settings six times");
}

#[test]
fn many_committers_write_what_one_plain_writer_writes() {
    for version in ["9.7.4", "10.11.19-MariaDB-log"] {
        for (threads, committers) in [(1, 1), (16, 16), (64, 64), (2, 64)] {
            let (made, spec) = switched(version, threads, committers);
            let again = tempfile::tempdir().unwrap();
            Again::new(&spec, made.path(), again.path()).write_all();
            let (made, again) = (contents(made.path()), contents(again.path()));
            assert!(made.len() > 5, "files and the index: {:?}", made.keys());
            assert_eq!(made.keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>());
            for (name, content) in &made {
                assert!(
                    content == &again[name],
                    "{version}, {threads} threads, {committers} committers: {name}"
                );
            }
        }
    }
}
