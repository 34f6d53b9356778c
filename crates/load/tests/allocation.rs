//! Nothing is allocated per event: counted by the allocator, on the load's own threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flushlab_load::spec::LoadSpec;
use flushlab_load::{Cancellation, LoadRun};
use flushlab_protocol::field::put_lenenc_bytes;
use flushlab_protocol::packet::frame;

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

const OK: &[u8] = b"\x00\x01\x00\x02\x00\x00\x00";
const EOF: &[u8] = b"\xfe\x00\x00\x02\x00";

fn packet(stream: &mut UnixStream) -> std::io::Result<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)?;
    Ok((header[3], payload))
}

fn send(stream: &mut UnixStream, mut sequence: u8, payloads: &[&[u8]]) -> std::io::Result<()> {
    let mut out = Vec::new();
    for payload in payloads {
        frame(&mut out, sequence, |out| out.extend_from_slice(payload)).unwrap();
        sequence = sequence.wrapping_add(1);
    }
    stream.write_all(&out)
}

fn rows(stream: &mut UnixStream, rows: &[&[&str]]) -> std::io::Result<()> {
    let columns = rows[0].len();
    let mut payloads = vec![vec![columns as u8]];
    payloads.extend(std::iter::repeat_n(b"definition".to_vec(), columns));
    payloads.push(EOF.to_vec());
    for row in rows {
        let mut payload = Vec::new();
        row.iter()
            .for_each(|column| put_lenenc_bytes(&mut payload, column.as_bytes()));
        payloads.push(payload);
    }
    payloads.push(EOF.to_vec());
    send(stream, 1, &payloads.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A server that says OK to everything, and knows sysbench's table.
fn converse(mut stream: UnixStream) -> std::io::Result<()> {
    let mut greeting =
        b"\x0a5.5.5-10.11.19-MariaDB\0\x07\0\0\0abcdefgh\0\xfe\xf7\x08\x02\0\xff\x81\x15".to_vec();
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
    send(&mut stream, 0, &[&greeting])?;
    let (sequence, _) = packet(&mut stream)?;
    send(&mut stream, sequence + 1, &[OK])?;
    loop {
        let (_, command) = packet(&mut stream)?;
        match command.split_first() {
            Some((0x03, sql)) if sql.starts_with(b"SHOW COLUMNS") => rows(
                &mut stream,
                &[
                    &["id", "int(11)", "NO", "PRI", "", "auto_increment"],
                    &["k", "int(11)", "NO", "MUL", "0", ""],
                    &["c", "char(120)", "NO", "", "", ""],
                    &["pad", "char(60)", "NO", "", "", ""],
                ],
            )?,
            Some((0x03, sql)) if sql.starts_with(b"SELECT") => rows(&mut stream, &[&["100"]])?,
            Some((0x16, _)) => {
                let head = [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0];
                send(&mut stream, 1, &[&head, b"param", b"param", EOF])?;
            }
            Some((0x01, _)) => return Ok(()),
            _ => send(&mut stream, 1, &[OK])?,
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
    let path = std::env::temp_dir().join(format!("flushlab-allocation-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        NOT_COUNTED.set(true);
        for stream in listener.incoming().flatten() {
            // Spawned by a thread that is not counted; the new one says so first.
            std::thread::spawn(move || {
                NOT_COUNTED.set(true);
                converse(stream)
            });
        }
    });
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
            "endpoint": {"user": "u", "password": "p", "socket": path, "host": null, "port": null},
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
    std::fs::remove_file(path).unwrap();
}
