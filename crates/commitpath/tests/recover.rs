//! Recovery, case by case: what a crash leaves is made by cutting the files of a run that ended.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flushlab_binlog::check::{Checker, Found, Options, Verdict};
use flushlab_binlog::IN_USE_OFFSET;
use flushlab_commitpath::recover::{recover, Recovered};
use flushlab_commitpath::{redo, CommitPath, Kind, Spec};
use serde_json::json;

const VERSIONS: [&str; 2] = ["9.7.4", "11.8.6-MariaDB"];
const TRANSACTIONS: u64 = 300;

/// A folder in which a run has ended in good order.
struct Logs(tempfile::TempDir);

impl Logs {
    fn of(version: &str, strategy: &str, rotate_bytes: u64) -> Self {
        let logs = Self(tempfile::tempdir().unwrap());
        let strict = matches!(strategy, "redo" | "two-syncs");
        let (trx_commit, sync_binlog) = if strict { (1, 1) } else { (2, 1000) };
        let spec = json!({
            "directory": logs.path(), "keep": true, "format": version, "trx_commit": trx_commit,
            "sync_binlog": sync_binlog, "binlog_strategy": strategy, "threads": 4, "transactions": TRANSACTIONS,
            "shape": {"kind": "oltp_update_non_index", "tables": 2, "rows": 100},
            "rotate_bytes": rotate_bytes, "log_buffer_bytes": 1 << 20, "redo_capacity_bytes": 4 << 20,
        });
        let mut run = CommitPath::new(Spec::from_json(spec.to_string().as_bytes()).unwrap());
        run.start().unwrap();
        run.wait(Duration::from_secs(60)).unwrap().unwrap();
        logs
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn recover(&self) -> Recovered {
        recover(self.path()).unwrap().unwrap()
    }

    fn file(&self, number: u32) -> PathBuf {
        self.path().join(flushlab_binlog::file_name("binlog", number))
    }

    /// The files that the index names.
    fn files(&self) -> Vec<PathBuf> {
        let index = fs::read_to_string(self.path().join("binlog.index")).unwrap();
        index.lines().map(|line| self.path().join(line)).collect()
    }

    /// The transactions of all files, each of which must be whole.
    fn transactions(&self) -> Vec<Found> {
        let mut checker = Checker::new(Options::default());
        let mut found = Vec::new();
        for file in self.files() {
            let content = fs::read(&file).unwrap();
            let report =
                checker.check_each(file.to_str().unwrap(), content.as_slice(), |one| found.push(one));
            let report = report.unwrap();
            assert_eq!(
                (report.verdict, report.in_use),
                (Verdict::Whole, false),
                "{:?}",
                report.problems
            );
        }
        assert!(found.iter().map(|one| one.gtid_number).eq(1..=TRANSACTIONS));
        found
    }

    /// Cuts the first file at `end`, as if it had been in use.
    fn tear(&self, end: u64) {
        let file = OpenOptions::new().write(true).open(self.file(1)).unwrap();
        file.write_all_at(&[1], IN_USE_OFFSET).unwrap();
        file.set_len(end).unwrap();
    }
}

fn pairs(of: &[Found]) -> Vec<(u64, u64)> {
    of.iter().map(|one| (one.gtid_number, one.xid)).collect()
}

fn committed(by: &Recovered) -> Vec<(u64, u64)> {
    by.committed.iter().map(|(gtid, xid)| (*gtid, *xid)).collect()
}

#[test]
fn what_is_prepared_and_not_in_the_binlog_is_rolled_back() {
    for version in VERSIONS {
        for strategy in ["serial", "parallel", "two-syncs"] {
            let logs = Logs::of(version, strategy, 1 << 30);
            let transactions = logs.transactions();
            // 200 are whole, one is torn.
            logs.tear(transactions[199].end + 100);
            let done = logs.recover();
            assert_eq!((done.torn_bytes, done.rolled_back), (100, 100), "{strategy}");
            assert_eq!((done.rebuilt, done.cut_off), (0, 0));
            assert_eq!(committed(&done), pairs(&transactions[..200]));
        }
    }
}

#[test]
fn what_the_redo_has_of_the_binlog_is_brought_back() {
    for version in VERSIONS {
        let logs = Logs::of(version, "redo", 1 << 30);
        let transactions = logs.transactions();
        logs.tear(transactions[99].start + 77);
        let done = logs.recover();
        assert_eq!((done.torn_bytes, done.rebuilt, done.rolled_back), (77, 201, 0));
        assert_eq!(committed(&done), pairs(&transactions));
    }
}

#[test]
fn what_is_in_the_binlog_only_is_cut_off_across_files() {
    for version in VERSIONS {
        let logs = Logs::of(version, "serial", 50_000);
        assert!(logs.files().len() > 3);
        let path = logs.path().join(redo::NAME);
        let transactions = logs.transactions();
        // The redo ends before a transaction that is not among the first 100 GTIDs.
        let xids: Vec<u64> = transactions[..100].iter().map(|one| one.xid).collect();
        let mut records = redo::read(&path).unwrap().map(Result::unwrap);
        let missing = records.find(|record| !xids.contains(&record.xid)).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0xff], redo::DATA_OFFSET + missing.lsn + 9)
            .unwrap();
        let in_redo: Vec<u64> = redo::read(&path).unwrap().map(|one| one.unwrap().xid).collect();
        let kept = transactions.iter().take_while(|one| in_redo.contains(&one.xid));
        let kept = kept.count();
        assert!((1..=100).contains(&kept), "{kept}");
        let done = logs.recover();
        assert_eq!(done.cut_off, TRANSACTIONS - kept as u64);
        assert_eq!(committed(&done), pairs(&transactions[..kept]));
    }
}

#[test]
fn a_start_that_was_cut_short_has_no_logs() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["redo", "binlog.000001"] {
        fs::write(folder.path().join(name), b"FLR").unwrap();
    }
    // The index's line was not written whole.
    fs::write(folder.path().join("binlog.index"), b"./binlog.0000").unwrap();
    assert_eq!(recover(folder.path()), Ok(None));
}

#[test]
fn damage_that_no_crash_leaves_is_refused_with_a_hint() {
    let logs = Logs::of("9.7.4", "serial", 50_000);
    let file = &logs.files()[1];
    let mut content = fs::read(file).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(file, &content).unwrap();
    let error = recover(logs.path()).unwrap_err();
    assert_eq!(error.kind, Kind::Storage);
    assert!(
        error.message.contains("binlog.000002 cannot be recovered: at "),
        "{error}"
    );
    assert!(error.hint.is_some());
    fs::write(logs.path().join(redo::NAME), b"something else").unwrap();
    let error = recover(logs.path()).unwrap_err();
    assert!(error.message.contains("too short for a redo log"), "{error}");
}
