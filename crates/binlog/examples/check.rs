//! Checks files, each as the one after the last: `cargo run --example check -- binlog.*`.

use std::fs::File;
use std::io::BufReader;

use flushlab_binlog::check::{Checker, Verdict};

fn main() -> std::io::Result<()> {
    let mut checker = Checker::default();
    let mut doubtful = false;
    for name in std::env::args().skip(1) {
        let report = checker.check(&name, BufReader::with_capacity(1 << 20, File::open(&name)?))?;
        println!(
            "{name}: {:?}, {} of {} bytes whole, {} transactions, {:?}, GTIDs {}",
            report.verdict, report.whole_until, report.bytes, report.transactions, report.rows, report.gtids
        );
        if let Some(tail) = &report.tail {
            println!("  torn at {}: {:?}", tail.offset, tail.kind);
        }
        for limit in &report.limits {
            println!("  {}", limit.message);
        }
        for problem in &report.problems {
            println!("  {problem}");
        }
        doubtful |= report.verdict != Verdict::Whole;
    }
    std::process::exit(i32::from(doubtful));
}
