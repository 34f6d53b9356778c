//! Captured packets of servers, changed at random: never a panic, never an allocation by an announced length.
//!
//! `FLUSHLAB_MUTATIONS` says how many (`make soak` takes many more). The fuzz target in `fuzz/` does the same with
//! a fuzzer's eyes.

// The allocator below is the only way to see every allocation.
#![allow(unsafe_code)]

mod captures;
#[path = "../fuzz/exercise.rs"]
mod exercise;
#[path = "../fuzz/seeds.rs"]
mod seeds;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use exercise::exercise;

/// Most that one allocation may take beyond what arrived: an inbox, and an RSA key's arithmetic.
const SPARE: usize = 64 << 10;
const DEFAULT_MUTATIONS: u64 = 200_000;

/// Notes each thread's largest allocation.
struct Watch;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static WATCH: Watch = Watch;

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn mutate(seed: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    const TELLING: [u8; 12] = [0, 1, 2, 3, 4, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFE, 0xFF];
    for _ in 0..=random.below(4) {
        let at = random.below(seed.len());
        match random.below(7) {
            0 => seed[at] ^= 1 << random.below(8),
            1 => seed[at] = TELLING[random.below(TELLING.len())],
            2 => seed.truncate(at.max(1)),
            3 => drop(seed.drain(at..(at + 1 + random.below(8)).min(seed.len()))),
            4 => seed.insert(at, TELLING[random.below(TELLING.len())]),
            5 => seed.extend_from_slice(&other[random.below(other.len())..]),
            _ => {
                let from = random.below(other.len());
                for (byte, new) in seed[at..].iter_mut().zip(&other[from..]).take(16) {
                    *byte = *new;
                }
            }
        }
        if seed.is_empty() {
            seed.push(0);
        }
    }
}

#[test]
fn changed_packets_never_panic_and_allocate_no_more_than_what_arrived() {
    let mutations = std::env::var("FLUSHLAB_MUTATIONS").map_or(DEFAULT_MUTATIONS, |count| {
        count.parse().expect("a number of mutations")
    });
    let seeds = seeds::seeds();
    let mut random = Random(20_260_101);
    for number in 0..mutations {
        let (name, mut input) = seeds[random.below(seeds.len())].clone();
        let (_, other) = &seeds[random.below(seeds.len())];
        mutate(&mut input, other, &mut random);
        LARGEST.set(0);
        if std::panic::catch_unwind(|| exercise(&input)).is_err() {
            panic!("mutation {number} of {name} panics: {input:02x?}");
        }
        let largest = LARGEST.get();
        assert!(
            largest <= 2 * input.len() + SPARE,
            "mutation {number} of {name}, {} bytes, allocates {largest}: {input:02x?}",
            input.len()
        );
    }
}

#[test]
fn an_announced_length_allocates_nothing() {
    for input in [
        &b"\x02\xfe\xff\x0f\x00"[..],                                // a packet of 1 MiB
        b"\x02\x09\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\x00", // a lenenc number of columns
        b"\x03\x0c\x00\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00", // 65,535 parameters
    ] {
        LARGEST.set(0);
        exercise(input);
        assert!(LARGEST.get() <= SPARE);
    }
}
