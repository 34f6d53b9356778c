//! Memory: a commit allocates nothing once everything has been used.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flushlab_commitpath::{CommitPath, Spec};

static COUNT: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s rules, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s rules, which are the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `realloc`'s rules, which are the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Waits until as many commits are through.
fn reach(run: &CommitPath, commits: u64) -> u64 {
    loop {
        let reached = run.progress().unwrap().commits;
        if reached >= commits {
            return reached;
        }
        assert!(
            run.wait(Duration::from_millis(1)).unwrap().is_none(),
            "the run ended early"
        );
    }
}

#[test]
fn a_commit_allocates_nothing_in_the_steady_state() {
    for (strategy, trx_commit, sync_binlog) in [
        ("serial", 2, 1000),
        ("parallel-leader", 2, 1000),
        ("parallel", 2, 1000),
        ("redo", 1, 1),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let spec = format!(
            r#"{{"directory": {:?}, "trx_commit": {trx_commit}, "sync_binlog": {sync_binlog}, "binlog_strategy": "{strategy}",
                "threads": 4, "transactions": 1000000, "log_buffer_bytes": 1048576,
                "ring_bytes": 1048576, "redo_capacity_bytes": 16777216,
                "shape": {{"kind": "oltp_update_non_index", "tables": 2, "rows": 1000}}}}"#,
            folder.path()
        );
        let mut run = CommitPath::new(Spec::from_json(spec.as_bytes()).unwrap());
        run.start().unwrap();
        // Threads begin when the kernel lets them, and allocate then: several tries, of which the best counts.
        let window = |first| {
            let before = COUNT.load(Ordering::Relaxed);
            let commits = reach(&run, first + 2000) - first;
            let allocations = COUNT.load(Ordering::Relaxed) - before;
            // The parallel ways take a scratch buffer once per round of the ring, some 1,500 commits here.
            (allocations <= commits / 500, allocations, commits)
        };
        let mut windows: Vec<(bool, u64, u64)> = Vec::new();
        while windows.len() < 10 && !windows.last().is_some_and(|(few, ..)| *few) {
            windows.push(window(2500 * (windows.len() as u64 + 1)));
        }
        run.stop();
        assert!(
            windows.last().is_some_and(|(few, ..)| *few),
            "{strategy}: {windows:?}"
        );
    }
}
