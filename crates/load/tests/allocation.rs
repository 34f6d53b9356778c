//! Nothing is allocated per event: counted by the allocator, on the load's own threads.

mod server;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flushlab_load::spec::LoadSpec;
use flushlab_load::{Cancellation, LoadRun};
use server::{Conversation, Socket, EOF, OK};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Threads of the test itself and of its server.
    static NOT_COUNTED: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of its own.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !NOT_COUNTED.try_with(Cell::get).unwrap_or(true) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A server that says OK to everything, and knows sysbench's table.
fn converse(mut client: Conversation) -> std::io::Result<()> {
    client.greet()?;
    client.send(&[OK])?;
    loop {
        let command = client.command()?;
        match command.split_first() {
            Some((0x03, sql)) if sql.starts_with(b"SHOW COLUMNS") => client.send_rows(&[
                ["id", "int(11)", "NO", "PRI", "", "auto_increment"],
                ["k", "int(11)", "NO", "MUL", "0", ""],
                ["c", "char(120)", "NO", "", "", ""],
                ["pad", "char(60)", "NO", "", "", ""],
            ])?,
            Some((0x03, sql)) if sql.starts_with(b"SELECT") => client.send_rows(&[["100"]])?,
            Some((0x16, _)) => {
                let head = [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0];
                client.send(&[&head, b"param", b"param", EOF])?;
            }
            Some((0x01, _)) => return Ok(()),
            _ => client.send(&[OK])?,
        }
    }
}

/// A transaction with a parameter of each kind that draws texts, and thinking before it.
fn transactions() -> serde_json::Value {
    serde_json::json!({
        "parameters": [
            {"kind": "text", "low": 0, "high": 200, "alphabet": "abc"},
            {"kind": "uuid", "ascending": true, "binary": false},
            {"kind": "now"},
            {"kind": "decimal", "low": -999_999, "high": 999_999, "digits": 2, "rand_type": "zipfian", "rand": {
                "spec_iter": 12, "spec_pct": 1, "spec_res": 75, "pareto_h": 0.2, "zipfian_exp": 0.8}},
        ],
        "transactions": [{
            "name": "t", "weight": 1, "explicit": true, "think_us": 50, "exponential": true,
            "statements": [{
                "name": "INSERT", "sql": "INSERT INTO t VALUES (?, ?, ?, ?)", "place": "t:1:1",
                "parameters": [0, 1, 2, 3], "fresh": [0, 3], "repeat": 2, "writes": true, "think_us": 0,
                "exponential": false,
            }],
        }],
    })
}

fn wait_for(run: &LoadRun, events: u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let progress = run.progress().unwrap();
        if progress.events >= events {
            return progress.events;
        }
        assert!(Instant::now() < deadline, "waited in vain: {progress:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nothing_is_allocated_per_event() {
    NOT_COUNTED.set(true);
    let server = Socket::listen(|| NOT_COUNTED.set(true), |_, client| converse(client));
    for (workload, threads, rate) in [
        ("oltp_update_non_index", 1, 0),
        ("oltp_update_non_index", 4, 0),
        ("oltp_update_non_index", 4, 20_000),
        ("oltp_read_write", 4, 0),
        ("oltp_insert", 4, 0),
        ("oltp_delete", 4, 0),
        ("txn", 1, 0),
        ("txn", 4, 0),
    ] {
        let txn = (workload == "txn").then(transactions);
        let spec = serde_json::json!({
            "workload": workload, "txn": txn,
            "endpoint": {"user": "u", "password": "p", "socket": server.path, "host": null, "port": null},
            "transport": "socket", "database": "sbtest", "threads": threads, "tables": 1, "table_size": 100,
            "rand_type": "special", "rate": rate, "seed": 1, "ignored_errors": [],
        });
        let spec = LoadSpec::from_json(&serde_json::to_vec(&spec).unwrap()).unwrap();
        let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
        run.start().unwrap();
        run.open_window().unwrap();
        let before = wait_for(&run, 500);
        let counted = ALLOCATIONS.load(Ordering::Relaxed);
        let events = wait_for(&run, before + 3000) - before;
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - counted;
        run.stop();
        assert_eq!(
            allocations, 0,
            "{events} events of {workload} on {threads} connections at rate {rate}"
        );
    }
    assert!(
        ALLOCATIONS.load(Ordering::Relaxed) > 0,
        "the load's thread allocates when it starts: counting works"
    );
}
