//! How fast one core encodes and finishes transactions of sysbench's oltp_update_non_index, with
//! CRC-32: `cargo run --release --example bench [SECONDS]`.
//!
//! "encode" writes the rows and finishes them in their place; "finish" only the latter, which is
//! what a pipeline does once the place is known; "crc" is the checksum alone over the same bytes,
//! event by event: the floor of both. Counted is the thread's processor time, as the kernel keeps
//! it, so that other programs take little away.

use std::hint::black_box;
use std::time::{Duration, Instant};

use flushlab_binlog::sample::sbtest;
use flushlab_binlog::{Body, Change, EncodeError, Format, Header, Identity, Place, Table, Uuid, Value};

/// Transactions between two looks at the clock, and bytes of the slice that they fill by turns.
const BATCH: u64 = 1024;
const OUT_SIZE: usize = 1 << 20;

struct Bench {
    body: Body,
    table: Table,
    out: Vec<u8>,
    at: usize,
    place: Place,
}

impl Bench {
    fn new(version: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let identity = Identity {
            server_id: 1,
            uuid: Uuid([7; 16]),
            domain: 0,
        };
        let format = Format::new(version, identity)?;
        let place = Place {
            position: 4711,
            gtid_number: 1,
            last_committed: 0,
            sequence_number: 1,
            commit_us: 1_790_000_000_000_000,
            commit_id: 0,
        };
        Ok(Self {
            body: Body::new(&format),
            table: sbtest(&format, 108, "sbtest", "sbtest1")?,
            out: vec![0; OUT_SIZE],
            at: 0,
            place,
        })
    }

    fn encode(&mut self, id: i64) -> Result<(), EncodeError> {
        const C: [u8; 119] = [b'5'; 119];
        const PAD: [u8; 59] = [b'6'; 59];
        let mut after = C;
        after[..8].copy_from_slice(&id.to_be_bytes());
        let row = |c| {
            [
                Value::Int(id),
                Value::Int(id ^ 0x5555),
                Value::Bytes(c),
                Value::Bytes(&PAD),
            ]
        };
        self.body.begin(1_790_000_000, 8);
        let mut update = self.body.statement(&self.table, Change::Update)?;
        update.update(&row(&C), &row(&after))?;
        update.end();
        self.body.commit(id as u64)
    }

    fn finish(&mut self) -> Result<usize, EncodeError> {
        let size = self.body.size(false) as usize;
        if self.at + size > OUT_SIZE {
            self.at = 0;
        }
        self.place.position += size as u64;
        self.place.gtid_number += 1;
        self.place.sequence_number += 1;
        self.place.last_committed = self.place.sequence_number - 1;
        let out = &mut self.out[self.at..self.at + size];
        self.body.finish_into(&self.place, out)?;
        black_box(&*out);
        self.at += size;
        Ok(size)
    }

    fn crc(&mut self) -> Result<usize, EncodeError> {
        let size = self.body.size(false) as usize;
        let mut events = &self.out[..size];
        while let Ok(header) = Header::parse(events) {
            let (event, rest) = events.split_at(header.size as usize);
            black_box(crc32fast::hash(&event[..event.len() - 4]));
            events = rest;
        }
        Ok(size)
    }

    fn run(&mut self, name: &str, time: Duration, encode: bool, crc_only: bool) -> Result<(), EncodeError> {
        let (start, before, mut bytes, mut count) = (Instant::now(), cpu_seconds(), 0_u64, 0_u64);
        self.at = 0;
        while start.elapsed() < time {
            for _ in 0..BATCH {
                count += 1;
                if encode {
                    self.encode(count as i64 & 0xffff)?;
                }
                bytes += if crc_only { self.crc()? } else { self.finish()? } as u64;
            }
        }
        let seconds = cpu_seconds() - before;
        println!(
            "{name:<8} {:6.2} GB/s  {:6.0} ns and {} bytes a transaction",
            bytes as f64 / seconds / 1e9,
            seconds / count as f64 * 1e9,
            bytes / count
        );
        Ok(())
    }
}

/// What this thread has run so far: the first number of its schedstat, in nanoseconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split(' ')
        .next()
        .and_then(|number| number.parse::<f64>().ok());
    nanoseconds.expect("the kernel keeps schedstat") / 1e9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(1.0), |text| text.parse())?;
    let time = Duration::from_secs_f64(seconds);
    for version in ["9.7.4", "10.11.19-MariaDB"] {
        println!("{version}");
        let mut bench = Bench::new(version)?;
        bench.run("encode", time, true, false)?;
        bench.run("finish", time, false, false)?;
        bench.run("crc", time, false, true)?;
    }
    Ok(())
}
