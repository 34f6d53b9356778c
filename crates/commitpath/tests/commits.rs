//! Runs in a folder: what they write, byte for byte; what a crash leaves of it, made by cutting the files; how they end.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flushlab_binlog::check::{Checker, Found, Verdict};
use flushlab_binlog::{Body, Flavor, Format, Identity, Log, LogOptions, Uuid, HEADER_SIZE, IN_USE_OFFSET};
use flushlab_commitpath::shape::{CommitSource, Transactions};
use flushlab_commitpath::{CommitPath, ErrorKind, RunResult, Spec};
use serde_json::{json, Value};
use tempfile::{tempdir, TempDir};

mod logs;

const VERSIONS: [&str; 2] = ["9.7.4", "11.8.6-MariaDB"];

/// The usual run, with the keys of `more`.
fn spec(folder: &Path, more: Value) -> Spec {
    let mut spec = json!({
        "directory": folder, "keep": true, "trx_commit": 2, "sync_binlog": 1000, "binlog_strategy": "serial",
        "threads": 4, "shape": {"kind": "oltp_update_non_index", "tables": 3, "rows": 200}, "seed": 3,
        "redo_capacity_bytes": 4 << 20,
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    Spec::from_json(spec.to_string().as_bytes()).unwrap()
}

fn run(spec: Spec) -> RunResult {
    let mut run = CommitPath::new(spec);
    run.start().unwrap();
    run.wait(Duration::from_secs(60)).unwrap().unwrap()
}

/// Transactions of the log's files, each of which must be whole; `each` also has the file's content and the number
/// of the transaction in it.
fn transactions(folder: &Path, mut each: impl FnMut(&[u8], &Found, u64)) -> Vec<Found> {
    let mut checker = Checker::default();
    let mut found = Vec::new();
    for name in logs::read_index(folder) {
        let content = fs::read(folder.join(&name)).unwrap();
        let mut number = 0;
        let report = checker.check_each(&name, content.as_slice(), |one| {
            number += 1;
            each(&content, &one, number);
            found.push(one);
        });
        let report = report.unwrap();
        assert_eq!(
            (report.verdict, report.in_use),
            (Verdict::Whole, false),
            "{:?}",
            report.problems
        );
    }
    assert!(found.iter().map(|one| one.gtid_number).eq(1..=found.len() as u64));
    found
}

mod same_bytes {
    //! What committers write at once is, byte for byte, what one plain writer makes of their transactions in the same
    //! order under the same clock: through every pipeline by turns, across files.

    use super::*;

    const TRANSACTIONS: u64 = 1800;

    /// A run in which the settings changed all six times. Who changes it looks every few milliseconds: on a busy
    /// machine the transactions may end first, and the run is made again.
    fn switched(version: &str, threads: u32, committers: u32) -> (TempDir, Spec) {
        let ways = [
            json!({"binlog_strategy": "parallel"}),
            json!({"binlog_strategy": "redo", "trx_commit": 1, "sync_binlog": 1}),
            json!({"binlog_strategy": "serial"}),
            json!({"binlog_strategy": "two-syncs"}),
            json!({"binlog_strategy": "parallel", "trx_commit": 2, "sync_binlog": 1000}),
            json!({"binlog_strategy": "serial"}),
        ];
        let change = |(index, mut way): (usize, Value)| {
            way["after_commits"] = json!((1 + index as u64) * TRANSACTIONS / 12);
            way
        };
        let changes: Vec<_> = ways.into_iter().enumerate().map(change).collect();
        let more = json!({
            "format": version, "threads": threads, "committers": committers, "transactions": TRANSACTIONS,
            "rotate_bytes": 150_000, "changes": changes,
        });
        for _ in 0..50 {
            let made = tempdir().unwrap();
            let spec = spec(made.path(), more.clone());
            let result = run(spec.clone());
            assert_eq!(result.last_gtid, TRANSACTIONS);
            if result.switches == 6 {
                return (made, spec);
            }
        }
        panic!("no run of 50 changed its settings six times");
    }

    /// Contents of the log's files by name, and the index.
    fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        entries
            .map(|entry| {
                (
                    entry.file_name().into_string().unwrap(),
                    fs::read(entry.path()).unwrap(),
                )
            })
            .filter(|(name, _)| name.starts_with("binlog"))
            .collect()
    }

    /// Writes the transactions of a run again, in their order, one after the other.
    fn write_again(spec: &Spec, version: &str, committers: u32, made: &Path, folder: &Path) {
        let identity = Identity {
            server_id: 7,
            uuid: Uuid(*b"flushlab-commits"),
            domain: 0,
        };
        let format = Format::new(version, identity).unwrap();
        let first = fs::read(made.join(&logs::read_index(made)[0])).unwrap();
        let timestamp = u32::from_le_bytes(first[4..8].try_into().unwrap());
        let source = CommitSource::new(spec, timestamp).unwrap();
        let options = LogOptions {
            basename: "binlog".to_owned(),
            max_size: u64::MAX,
            timestamp,
        };
        let mut log = Log::create(&format, folder, options).unwrap();
        let mut body = Body::new(&format);
        let mut made_by: Vec<_> = (0..committers).map(|me| Transactions::new(&source, me)).collect();
        // How many each committer has made, and the sequence number of its last in the file at hand.
        let (mut counts, mut last_sequence) = (vec![0; made_by.len()], vec![0; made_by.len()]);
        transactions(made, |content, found, number| {
            if number == 1 && found.gtid_number > 1 {
                log.rotate().unwrap();
                last_sequence.fill(0);
            }
            let me = (found.xid & 255) as usize;
            counts[me] += 1;
            assert_eq!(
                found.xid >> 8,
                counts[me],
                "a committer's transactions keep their order"
            );
            let (last_committed, commit_us) =
                clock(format.flavor(), &content[found.start as usize + HEADER_SIZE..]);
            if let Some(last_committed) = last_committed {
                let before = std::mem::replace(&mut last_sequence[me], number);
                let words = "a replica may run a transaction beside the same committer's last";
                assert!(last_committed >= before, "{words}: XID {}", found.xid);
            }
            made_by[me].next(&mut body, found.xid).unwrap();
            let place = log.append(&body, commit_us, last_committed, 0).unwrap();
            let expected = (found.start, found.gtid_number);
            assert_eq!((place.position, place.gtid_number), expected, "XID {}", found.xid);
        });
        log.close().unwrap();
    }

    /// What of a GTID event's body depends on who committed beside it and when (MySQL): last_committed, and the time.
    fn clock(flavor: Flavor, body: &[u8]) -> (Option<u64>, u64) {
        let number = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().unwrap());
        match flavor {
            Flavor::Mysql => (Some(number(26)), number(42) & ((1 << 55) - 1)),
            Flavor::Mariadb => (None, 0),
        }
    }

    #[test]
    fn many_committers_write_what_one_plain_writer_writes() {
        for version in ["9.7.4", "10.11.19-MariaDB-log"] {
            for (threads, committers) in [(1, 1), (16, 16), (64, 64), (2, 64)] {
                let (made, spec) = switched(version, threads, committers);
                let again = tempdir().unwrap();
                write_again(&spec, version, committers, made.path(), again.path());
                let (made, again) = (contents(made.path()), contents(again.path()));
                assert!(made.len() > 5, "files and the index: {:?}", made.keys());
                assert!(made.keys().eq(again.keys()));
                for (name, content) in &made {
                    let words = format!("{version}, {threads} threads, {committers} committers: {name}");
                    assert!(content == &again[name], "{words}");
                }
            }
        }
    }
}

mod after_a_crash {
    use super::*;

    const TRANSACTIONS: usize = 300;

    /// A folder in which a run has ended in good order, and its transactions.
    fn ended(version: &str, strategy: &str, rotate_bytes: u64) -> (TempDir, Vec<Found>) {
        let folder = tempdir().unwrap();
        let strict = matches!(strategy, "redo" | "two-syncs");
        let (trx_commit, sync_binlog) = if strict { (1, 1) } else { (2, 1000) };
        run(spec(
            folder.path(),
            json!({
                "format": version, "trx_commit": trx_commit, "sync_binlog": sync_binlog,
                "binlog_strategy": strategy, "transactions": TRANSACTIONS, "rotate_bytes": rotate_bytes,
            }),
        ));
        let found = transactions(folder.path(), |_, _, _| {});
        assert_eq!(found.len(), TRANSACTIONS);
        (folder, found)
    }

    fn pairs(of: &[Found]) -> BTreeMap<u64, u64> {
        of.iter().map(|one| (one.gtid_number, one.xid)).collect()
    }

    #[test]
    fn what_is_prepared_is_rolled_back_and_what_the_redo_has_of_the_binlog_is_brought_back() {
        for version in VERSIONS {
            for strategy in ["serial", "parallel", "two-syncs", "redo"] {
                let (folder, found) = ended(version, strategy, 1 << 30);
                // 200 are whole, one is torn, as if the file had been in use.
                let file = OpenOptions::new()
                    .write(true)
                    .open(folder.path().join("binlog.000001"));
                let file = file.unwrap();
                file.write_all_at(&[1], IN_USE_OFFSET).unwrap();
                file.set_len(found[199].end + 77).unwrap();
                let done = logs::recover(folder.path()).unwrap().unwrap();
                let (rebuilt, rolled_back) = if strategy == "redo" { (100, 0) } else { (0, 100) };
                let committed = pairs(&found[..200 + rebuilt]);
                let rebuilt = rebuilt as u64;
                let expected = logs::Recovered {
                    committed,
                    rebuilt,
                    rolled_back,
                    cut_off: 0,
                    torn_bytes: 77,
                };
                assert_eq!(done, expected, "{version}, {strategy}");
            }
        }
    }

    #[test]
    fn what_is_in_the_binlog_only_is_cut_off_across_files() {
        for version in VERSIONS {
            let (folder, found) = ended(version, "serial", 50_000);
            assert!(logs::read_index(folder.path()).len() > 3);
            // The redo ends before a transaction that is not among the first 100 GTIDs.
            let first = pairs(&found[..100]);
            let records = logs::Redo::read(folder.path()).unwrap().records;
            let missing = records
                .iter()
                .find(|one| !first.values().any(|xid| *xid == one.xid));
            let redo = OpenOptions::new()
                .write(true)
                .open(folder.path().join(logs::REDO))
                .unwrap();
            redo.write_all_at(&[0xff], logs::CIRCLE + missing.unwrap().lsn + 9)
                .unwrap();
            let left = logs::Redo::read(folder.path()).unwrap().records;
            let is_left = |one: &&Found| left.iter().any(|record| record.xid == one.xid);
            let kept = found.iter().take_while(is_left).count();
            assert!((1..=100).contains(&kept), "{kept}");
            let done = logs::recover(folder.path()).unwrap().unwrap();
            assert_eq!(done.cut_off, (TRANSACTIONS - kept) as u64);
            assert_eq!(done.committed, pairs(&found[..kept]));
        }
    }

    #[test]
    fn the_redo_goes_round_its_circle_and_has_every_transaction_behind_its_checkpoint() {
        let folder = tempdir().unwrap();
        let last = run(spec(folder.path(), json!({"transactions": 12_000}))).last_gtid;
        let redo = logs::Redo::read(folder.path()).unwrap();
        assert!(redo.end > 2 * (4 << 20), "two laps: {}", redo.end);
        assert!(redo.applied > 0 && redo.records.len() as u64 >= last - redo.applied);
        let committed = logs::recover(folder.path()).unwrap().unwrap().committed;
        assert_eq!(committed.len() as u64, last);
    }

    #[test]
    fn a_start_that_was_cut_short_has_no_logs() {
        let folder = tempdir().unwrap();
        // The index's line was not written whole.
        fs::write(folder.path().join("binlog.index"), b"./binlog.0000").unwrap();
        assert_eq!(logs::recover(folder.path()), Ok(None));
    }

    #[test]
    fn damage_that_no_crash_leaves_is_refused() {
        let (folder, _) = ended("9.7.4", "serial", 50_000);
        let file = folder.path().join("binlog.000002");
        let mut content = fs::read(&file).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        fs::write(&file, &content).unwrap();
        let error = logs::recover(folder.path()).unwrap_err();
        assert!(
            error.starts_with("binlog.000002 cannot be recovered: "),
            "{error}"
        );
        fs::write(folder.path().join(logs::REDO), b"something else").unwrap();
        assert!(logs::recover(folder.path()).is_err());
    }
}

/// The failure of a run that somebody hears.
fn failure(more: Value, observer: impl Fn(u64, u64) + Send + Sync + 'static) -> (ErrorKind, String) {
    let folder = tempdir().unwrap();
    let mut run = CommitPath::new(spec(folder.path(), more)).observed(Arc::new(observer));
    run.start().unwrap();
    let failure = run.wait(Duration::from_secs(60)).unwrap_err();
    (failure.kind, failure.message)
}

#[test]
fn a_thread_that_panics_ends_the_run() {
    let (kind, message) = failure(json!({"seconds": 60}), |gtid, _| assert!(gtid < 3, "as planned"));
    assert_eq!(kind, ErrorKind::Measurement);
    assert_eq!(message, "a commit failed: a thread panicked, which is a bug");
}

#[test]
fn a_run_that_does_not_move_ends_with_an_error_and_lets_its_caller_go() {
    // A thread that holds the observer holds its commit.
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock().unwrap();
    let inner = gate.clone();
    let more = json!({"seconds": 60, "stall_seconds": 0.2, "threads": 1});
    let (kind, message) = failure(more, move |_, _| drop(inner.lock()));
    assert_eq!(kind, ErrorKind::Measurement);
    assert_eq!(message, "no commit, write or sync ended for 0.2 s");
    drop(held);
}
