//! Memory: nothing is allocated per event, and nothing because a file announces it.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use flushlab_binlog::check::Checker;
use flushlab_binlog::sample::sbtest;
use flushlab_binlog::{
    file_head, Body, Change, Flavor, Format, Head, Identity, Place, Previous, Uuid, Value,
};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(size: usize) {
    // A thread that ends has no counters any more.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps `alloc`'s rules, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s rules, which are the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller keeps `realloc`'s rules, which are the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn format(version: &str) -> Format {
    Format::new(
        version,
        Identity {
            server_id: 1,
            uuid: Uuid([7; 16]),
            domain: 0,
        },
    )
    .unwrap()
}

#[test]
fn transactions_allocate_nothing_in_the_steady_state() {
    for version in ["8.0.44", "9.7.4", "10.11.19-MariaDB", "11.8.6-MariaDB"] {
        let format = format(version);
        let table = sbtest(&format, 108, "sbtest", "sbtest1").unwrap();
        let mut body = Body::new(&format);
        let mut out = vec![0; 1 << 16];
        let mut before = 0;
        for round in 0..1000_u64 {
            // The first has the most rows: all others fit the memory that it took.
            let rows = if round == 0 { 40 } else { 1 + round as i64 % 40 };
            if round == 1 {
                before = COUNT.get();
            }
            body.begin(1_790_000_000, 8);
            let mut update = body.statement(&table, Change::Update).unwrap();
            for id in 0..rows {
                let row = |k| {
                    [
                        Value::Int(id),
                        Value::Int(k),
                        Value::Bytes(&[b'c'; 119]),
                        Value::Bytes(b"pad"),
                    ]
                };
                update.update(&row(1), &row(2)).unwrap();
            }
            update.end();
            body.commit(round).unwrap();
            let grouped = round % 2 == 1;
            let place = Place {
                position: 4 + round,
                gtid_number: 1 + round,
                last_committed: round,
                sequence_number: 1 + round,
                commit_us: round,
                commit_id: u64::from(grouped),
            };
            let size = body.size(grouped) as usize;
            body.finish_into(&place, &mut out[..size]).unwrap();
        }
        assert_eq!(COUNT.get() - before, 0, "{version}");
    }
}

#[test]
fn an_announced_size_takes_no_memory() {
    let format = format("9.7.4");
    let head = Head {
        timestamp: 1,
        first: true,
        previous: &Previous::nothing(Flavor::Mysql),
        checkpoint: "",
    };
    let mut content = file_head(&format, &head);
    let end = content.len() as u32;
    // An event of almost 4 GiB whose header is right, with 30 bytes of it there.
    content.extend(1_u32.to_le_bytes());
    content.push(30);
    content.extend(1_u32.to_le_bytes());
    content.extend(0xffff_0000_u32.to_le_bytes());
    content.extend(end.wrapping_add(0xffff_0000).to_le_bytes());
    content.extend([0; 13]);
    LARGEST.set(0);
    let report = Checker::default()
        .check("binlog.000001", content.as_slice())
        .unwrap();
    assert_eq!(report.tail.map(|tail| tail.offset), Some(u64::from(end)));
    assert!(
        LARGEST.get() < 100_000,
        "{} bytes were allocated at once",
        LARGEST.get()
    );
}
