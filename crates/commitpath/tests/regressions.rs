//! Two runs that once hung, and two near to where a group could commit twice or a large commit miss a change.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use flushlab_binlog::check::{Checker, Options, Verdict};
use flushlab_commitpath::{CommitPath, RunResult, Spec};
use serde_json::{json, Value};

/// Much longer than any of these runs takes; less than the watchdog's patience.
const LIMIT: Duration = Duration::from_secs(25);

fn run(folder: &Path, more: &Value) -> RunResult {
    let mut spec = json!({
        "directory": folder, "keep": true, "sync_binlog": 1000, "trx_commit": 2, "log_buffer_bytes": 1 << 20,
        "ring_bytes": 1 << 20, "redo_capacity_bytes": 4 << 20,
    });
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    let mut run = CommitPath::new(Spec::from_json(spec.to_string().as_bytes()).unwrap());
    run.start().unwrap();
    let result = run.wait(LIMIT).unwrap();
    result.unwrap_or_else(|| panic!("the run hangs: {spec}"))
}

/// XIDs of all transactions; each once.
fn xids(folder: &Path) -> BTreeSet<u64> {
    let mut xids = BTreeSet::new();
    let mut checker = Checker::new(Options::default());
    let index = fs::read_to_string(folder.join("binlog.index")).unwrap();
    for name in index.lines() {
        let file = File::open(folder.join(name)).unwrap();
        let report = checker.check_each(name, file, |found| {
            assert!(xids.insert(found.xid), "XID {} is there twice", found.xid);
        });
        let report = report.unwrap();
        assert_eq!(report.verdict, Verdict::Whole, "{:?}", report.problems);
    }
    xids
}

/// Changes between two ways, back and forth.
fn back_and_forth(there: &Value, back: &Value, every: u64, count: u64) -> Vec<Value> {
    let change = |index: u64| {
        let mut way = if index.is_multiple_of(2) { there } else { back }.clone();
        way["after_commits"] = json!(index * every);
        way
    };
    (0..count).map(change).collect()
}

#[test]
fn a_checkpoint_makes_room_for_the_records_that_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let shape = json!({"kind": "sizes", "redo_bytes": 20_000, "binlog_bytes": 20_000, "large_every": 3,
                       "large_bytes": 270_000});
    let result = run(
        folder.path(),
        &json!({"binlog_strategy": "serial", "threads": 128, "shape": shape, "rotate_bytes": 4096, "seconds": 0.5,
                "sync_binlog": 0, "seed": 861_317_374}),
    );
    assert_eq!(xids(folder.path()).len() as u64, result.last_gtid);
}

#[test]
fn who_empties_the_ring_makes_room_for_the_places_that_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let shape = json!({"kind": "sizes", "redo_bytes": 131_072, "binlog_bytes": 300_000, "large_every": 3,
                       "large_bytes": 261_000});
    let result = run(
        folder.path(),
        &json!({"binlog_strategy": "redo", "trx_commit": 1, "sync_binlog": 1, "threads": 128, "shape": shape,
                "ring_bytes": 2 << 20, "redo_capacity_bytes": 8 << 20, "seconds": 0.5}),
    );
    assert_eq!(xids(folder.path()).len() as u64, result.last_gtid);
}

#[test]
fn a_group_that_the_ring_cannot_take_at_once_commits_once() {
    let folder = tempfile::tempdir().unwrap();
    let shape = json!({"kind": "sizes", "redo_bytes": 300, "binlog_bytes": 20_000});
    let changes = back_and_forth(
        &json!({"binlog_strategy": "serial"}),
        &json!({"binlog_strategy": "parallel-leader"}),
        20,
        150,
    );
    let result = run(
        folder.path(),
        &json!({"binlog_strategy": "parallel-leader", "threads": 64, "shape": shape, "transactions": 3200,
                "changes": changes}),
    );
    assert_eq!(xids(folder.path()).len() as u64, result.last_gtid);
    assert_eq!(result.last_gtid, 3200);
}

#[test]
fn large_commits_rotations_and_changes_together_come_to_an_end() {
    for to in ["parallel", "parallel-leader"] {
        let folder = tempfile::tempdir().unwrap();
        let shape = json!({"kind": "sizes", "redo_bytes": 300, "binlog_bytes": 20_000, "large_every": 2,
                           "large_bytes": 1_500_000});
        let changes = back_and_forth(
            &json!({"binlog_strategy": "serial"}),
            &json!({"binlog_strategy": to}),
            10,
            150,
        );
        let result = run(
            folder.path(),
            &json!({"binlog_strategy": to, "threads": 16, "shape": shape, "transactions": 1600,
                    "changes": changes, "rotate_bytes": 30_000}),
        );
        assert_eq!(xids(folder.path()).len() as u64, result.last_gtid);
    }
}
