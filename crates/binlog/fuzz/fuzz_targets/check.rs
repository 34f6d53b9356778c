//! `cargo +nightly fuzz run -s none check fuzz/corpus/check tests/corpus/*`, from `crates/binlog`; see its README.

#![no_main]

use flushlab_binlog::check::Checker;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    let report = Checker::default().check("binlog.000001", content).expect("slices can be read");
    assert_eq!(report.bytes, content.len() as u64);
    assert!(report.whole_until <= report.bytes);
});
