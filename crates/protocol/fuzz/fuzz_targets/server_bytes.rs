//! `cargo run --example fuzz_seeds -- fuzz/corpus/server_bytes`, then `cargo +nightly fuzz run -s none server_bytes`,
//! both in `crates/protocol`.

#![no_main]

#[path = "../exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|input: &[u8]| exercise::exercise(input));
