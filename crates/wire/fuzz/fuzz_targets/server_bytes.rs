//! `cargo +nightly fuzz run server_bytes` in `crates/wire`.

#![no_main]

#[path = "../exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|input: &[u8]| exercise::exercise(input));
