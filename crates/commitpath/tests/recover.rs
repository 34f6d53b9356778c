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

/// A folder in which a run has ended in good order, or several, one after the other.
struct Logs {
    folder: tempfile::TempDir,
    version: &'static str,
}

impl Logs {
    fn empty(version: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, version }
    }

    fn of(version: &'static str, strategy: &str, rotate_bytes: u64) -> Self {
        let logs = Self::empty(version);
        logs.run(strategy, rotate_bytes);
        logs
    }

    fn run(&self, strategy: &str, rotate_bytes: u64) {
        let mut run = CommitPath::new(self.spec(self.version, strategy, rotate_bytes));
        run.start().unwrap();
        run.wait(Duration::from_secs(60)).unwrap().unwrap();
    }

    fn spec(&self, version: &str, strategy: &str, rotate_bytes: u64) -> Spec {
        let (trx_commit, sync_binlog) = if strategy == "redo" { (1, 1) } else { (2, 1000) };
        let spec = json!({
            "directory": self.path(), "keep": true, "resume": true, "format": version, "trx_commit": trx_commit,
            "sync_binlog": sync_binlog, "binlog_strategy": strategy, "threads": 4, "transactions": TRANSACTIONS,
            "shape": {"kind": "oltp_update_non_index", "tables": 2, "rows": 100},
            "rotate_bytes": rotate_bytes, "log_buffer_bytes": 1 << 20, "ring_bytes": 1 << 20,
            "redo_capacity_bytes": 4 << 20,
        });
        Spec::from_json(spec.to_string().as_bytes()).unwrap()
    }

    fn path(&self) -> &Path {
        self.folder.path()
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
        index
            .lines()
            .map(|line| self.path().join(line.trim_start_matches("./")))
            .collect()
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
        let numbers = found.iter().map(|one| one.gtid_number);
        assert!(numbers.eq(1..=found.len() as u64), "GTIDs follow one another");
        found
    }

    /// Cuts a file at `end`, as if it had been in use.
    fn tear(&self, file: &Path, end: u64) {
        let file = OpenOptions::new().write(true).open(file).unwrap();
        file.write_all_at(&[1], IN_USE_OFFSET).unwrap();
        file.set_len(end).unwrap();
    }
}

#[test]
fn what_is_prepared_and_not_in_the_binlog_is_rolled_back() {
    for version in VERSIONS {
        for strategy in ["serial", "parallel-leader", "parallel"] {
            let logs = Logs::of(version, strategy, 0);
            let last = logs.transactions()[199];
            // 200 are whole, one is torn.
            logs.tear(&logs.file(1), last.end + 100);
            let done = logs.recover();
            assert_eq!(
                (done.last_gtid, done.torn_bytes, done.rolled_back),
                (200, 100, 100),
                "{strategy}"
            );
            assert_eq!((done.rebuilt, done.cut_off, done.file_number), (0, 0, 1));
            assert_eq!(logs.transactions().len(), 200);
        }
    }
}

#[test]
fn what_the_redo_has_of_the_binlog_is_brought_back_byte_by_byte() {
    for version in VERSIONS {
        let logs = Logs::of(version, "redo", 0);
        let before = fs::read(logs.file(1)).unwrap();
        let transactions = logs.transactions();
        logs.tear(&logs.file(1), transactions[99].start + 77);
        let done = logs.recover();
        assert_eq!(
            (done.last_gtid, done.torn_bytes, done.rebuilt, done.rolled_back),
            (300, 77, 201, 0)
        );
        assert_eq!(logs.transactions(), transactions);
        let end = transactions[299].end as usize;
        assert!(
            fs::read(logs.file(1)).unwrap() == before[..end],
            "all but STOP is as it was"
        );
    }
}

#[test]
fn what_is_in_the_binlog_only_is_cut_off_across_files() {
    for version in VERSIONS {
        let logs = Logs::of(version, "serial", 50_000);
        assert!(logs.files().len() > 3);
        let path = logs.path().join(redo::NAME);
        // The redo ends with the transaction of GTID 101: its first 100 are in it, whatever the order.
        let transactions = logs.transactions();
        let xids: Vec<u64> = transactions[..100].iter().map(|one| one.xid).collect();
        let records = redo::read(&path).unwrap().map(Result::unwrap);
        let first_missing = records
            .filter(|record| !xids.contains(&record.xid))
            .map(|record| record.lsn)
            .next();
        let torn_at = redo::DATA_OFFSET + first_missing.unwrap() + 9;
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0xff], torn_at).unwrap();
        let in_redo: Vec<u64> = redo::read(&path)
            .unwrap()
            .map(|record| record.unwrap().xid)
            .collect();
        let kept = transactions
            .iter()
            .take_while(|one| in_redo.contains(&one.xid))
            .count() as u64;
        assert!((1..=100).contains(&kept), "{kept}");

        // A file that a crash left before the index named it.
        fs::write(logs.file(77), b"\xfebin").unwrap();
        let done = logs.recover();
        assert_eq!((done.last_gtid, done.cut_off), (kept, TRANSACTIONS - kept));
        assert_eq!(logs.transactions(), transactions[..kept as usize]);
        let names = fs::read_dir(logs.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let numbered = names
            .filter(|name| name.to_str().unwrap().starts_with("binlog.0"))
            .count();
        assert_eq!(
            numbered,
            logs.files().len(),
            "no file is left that the index does not name"
        );
    }
}

#[test]
fn a_run_goes_on_where_the_last_one_ended_whichever_way_that_was() {
    for version in VERSIONS {
        let logs = Logs::empty(version);
        for (run, strategy) in ["serial", "redo", "parallel", "redo", "parallel-leader"]
            .into_iter()
            .enumerate()
        {
            logs.run(strategy, 60_000);
            let count = (1 + run as u64) * TRANSACTIONS;
            assert_eq!(logs.transactions().len() as u64, count);
            let done = logs.recover();
            assert_eq!(
                (done.last_gtid, done.rebuilt, done.cut_off, done.torn_bytes),
                (count, 0, 0, 0)
            );
        }
        assert_eq!(logs.transactions().len() as u64, 5 * TRANSACTIONS);
    }
}

#[test]
fn recovery_again_changes_nothing() {
    let logs = Logs::of("9.7.4", "parallel", 50_000);
    let last = logs.files().pop().unwrap();
    logs.tear(&last, fs::metadata(&last).unwrap().len() - 60);
    let first = logs.recover();
    assert!(first.torn_bytes > 0);
    let contents = || {
        logs.files()
            .iter()
            .map(|file| fs::read(file).unwrap())
            .collect::<Vec<_>>()
    };
    let before = contents();
    let again = logs.recover();
    let nothing = Recovered {
        flavor: first.flavor,
        last_gtid: first.last_gtid,
        file_number: first.file_number,
        lsn: again.lsn,
        ..Recovered::default()
    };
    assert_eq!(again, nothing);
    assert!(again.lsn > first.lsn && contents() == before);
}

#[test]
fn a_start_that_was_cut_short_leaves_nothing_behind() {
    let logs = Logs::empty("9.7.4");
    for name in ["redo", "binlog.000001"] {
        fs::write(logs.path().join(name), b"FLR").unwrap();
    }
    // The index's line was not written whole.
    fs::write(logs.path().join("binlog.index"), b"./binlog.0000").unwrap();
    assert_eq!(recover(logs.path()), Ok(None));
    assert_eq!(fs::read_dir(logs.path()).unwrap().count(), 0);
}

#[test]
fn damage_that_no_crash_leaves_is_refused_with_a_hint_and_nothing_is_changed() {
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
    assert!(fs::read(file).unwrap() == content);

    let redo = logs.path().join(redo::NAME);
    fs::write(&redo, b"something else").unwrap();
    let error = recover(logs.path()).unwrap_err();
    assert!(error.message.contains("too short for a redo log"), "{error}");
}

#[test]
fn a_run_of_the_other_family_does_not_go_on() {
    let logs = Logs::of("9.7.4", "serial", 0);
    let error = CommitPath::new(logs.spec("11.8.6-MariaDB", "serial", 0))
        .start()
        .unwrap_err();
    assert_eq!(error.kind, Kind::Usage);
    assert!(
        error.message.ends_with("are MySQL's, the run writes MariaDB's"),
        "{error}"
    );
    assert!(error.hint.is_some());
    assert_eq!(logs.transactions().len() as u64, TRANSACTIONS);
}
