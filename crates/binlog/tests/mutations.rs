//! Damaged files: every flipped bit is found, every torn tail is named, nothing panics.
//!
//! `FLUSHLAB_BINLOG_EXECUTIONS` sets how many random damages are tried (100,000 unless told), and
//! that every bit of the large files is flipped too; `FLUSHLAB_BINLOG_SEED` where they begin. A
//! failure names its seed.

use std::path::Path;

use flushlab_binlog::check::{Checker, FileReport, TailKind, Verdict};
use flushlab_binlog::{Header, HEADER_SIZE, IN_USE_OFFSET};

/// Says how many random damages are tried.
const EXECUTIONS: &str = "FLUSHLAB_BINLOG_EXECUTIONS";

fn check(content: &[u8]) -> FileReport {
    Checker::default().check("binlog.000001", content).unwrap()
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .flat_map(|server| std::fs::read_dir(server.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// SplitMix64: the same seed gives the same damages.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Files up to this size have every bit flipped in every run, larger ones one bit of every byte: each
/// flip checks a whole file again.
const EVERY_BIT_UP_TO: usize = 4096;

fn bits_of(content: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let every_bit = content.len() <= EVERY_BIT_UP_TO || std::env::var_os(EXECUTIONS).is_some();
    (0..content.len()).flat_map(move |at| {
        let bits = if every_bit { 0..8 } else { at % 8..at % 8 + 1 };
        bits.map(move |bit| (at, 1 << bit))
    })
}

#[test]
fn every_flipped_bit_is_found() {
    for (index, mut content) in corpus().into_iter().enumerate() {
        for (at, bit) in bits_of(&content) {
            // The one bit that may change without being damage: the file is in use or not.
            if at as u64 == IN_USE_OFFSET && bit == 1 {
                continue;
            }
            content[at] ^= bit;
            let report = check(&content);
            let place = format!("file {index}, bit {bit} of byte {at}");
            assert_ne!(report.verdict, Verdict::Whole, "{place}");
            assert!(
                report.whole_until <= at as u64,
                "{place}: whole up to {}",
                report.whole_until
            );
            content[at] ^= bit;
        }
    }
}

#[test]
fn every_cut_of_a_file_in_use_is_a_torn_tail_or_a_whole_file() {
    for (index, mut content) in corpus().into_iter().enumerate() {
        content[IN_USE_OFFSET as usize] |= 1;
        let mut boundary = 4;
        for end in 4..content.len() {
            let report = check(&content[..end]);
            assert_eq!(report.problems, [], "file {index} cut at {end}");
            assert!(report.whole_until >= boundary, "file {index} cut at {end}");
            boundary = report.whole_until;
            match report.tail {
                None => assert_eq!((report.verdict, boundary), (Verdict::Whole, end as u64)),
                Some(tail) => {
                    let is_known = report.flavor.is_some();
                    let cut = if is_known { Verdict::Torn } else { Verdict::Unknown };
                    assert_eq!(report.verdict, cut, "file {index} cut at {end}");
                    assert_eq!((tail.offset, tail.bytes), (boundary, end as u64 - boundary));
                }
            }
        }
    }
}

#[test]
fn a_tail_that_is_not_whole_in_a_closed_file_is_cut() {
    let mut content = corpus().swap_remove(0);
    content[IN_USE_OFFSET as usize] &= !1;
    let report = check(&content[..content.len() - 1]);
    assert_eq!(report.verdict, Verdict::Cut);
    assert_eq!(report.tail.map(|tail| tail.kind), Some(TailKind::Event));
}

#[test]
fn zero_bytes_at_the_end_are_a_torn_tail() {
    for mut content in corpus() {
        content[IN_USE_OFFSET as usize] |= 1;
        let end = content.len() as u64;
        content.resize(content.len() + 5000, 0);
        let report = check(&content);
        let tail = report.tail.unwrap();
        assert_eq!((tail.kind, tail.offset, tail.bytes), (TailKind::Zeros, end, 5000));
        assert_eq!(report.bytes, end + 5000);
        content.extend([1; 30]);
        assert_eq!(check(&content).verdict, Verdict::Damaged);
    }
}

/// Damages a file in one to four places, and then, mostly, makes the checksums right again: only so
/// does the damage reach what is behind them.
fn damage(content: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(content.len());
        match random.below(8) {
            0 => content[at] ^= 1 << random.below(8),
            1 => content[at] = random.next() as u8,
            2 => content[at] = [0, 1, 0x7f, 0x80, 0xfb, 0xfc, 0xfe, 0xff][random.below(8)],
            3 => {
                let value = [0, 1, u64::MAX, u64::MAX >> 1, 1 << 31, 0xffff][random.below(6)].to_le_bytes();
                let size = [2, 4, 8][random.below(3)].min(content.len() - at);
                content[at..at + size].copy_from_slice(&value[..size]);
            }
            4 => content.truncate(at.max(5)),
            5 => {
                let end = (at + 1 + random.below(30)).min(content.len());
                content.drain(at..end);
            }
            6 => content.insert(at, random.next() as u8),
            _ => {
                let from = random.below(content.len());
                let size = random.below(64).min(content.len() - from.max(at));
                content.copy_within(from..from + size, at);
            }
        }
        if content.len() < 8 {
            content.resize(8, 0);
        }
    }
    if random.below(4) > 0 {
        repair_checksums(content);
    }
}

fn repair_checksums(content: &mut [u8]) {
    let mut at = 4;
    while let Ok(header) = Header::parse(&content[at..]) {
        let size = header.size as usize;
        let Some(event) = content[at..].get_mut(..size).filter(|_| size >= HEADER_SIZE + 4) else {
            return;
        };
        let in_use = event[17] & 1;
        if at == 4 {
            event[17] &= !1;
        }
        let crc = crc32fast::hash(&event[..size - 4]);
        event[size - 4..].copy_from_slice(&crc.to_le_bytes());
        if at == 4 {
            event[17] |= in_use;
        }
        at += size;
    }
}

#[test]
fn random_damage_never_makes_it_panic() {
    let setting =
        |name: &str, otherwise: u64| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let executions = setting(EXECUTIONS, 25_000);
    let first = setting("FLUSHLAB_BINLOG_SEED", 1);
    let corpus = corpus();
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let run = &|worker: u64| {
        let (mut deep, mut found) = (0_u64, 0_u64);
        let mut content = Vec::new();
        for seed in (first + worker..first + executions).step_by(workers as usize) {
            let mut random = Random(seed);
            content.clone_from(&corpus[random.below(corpus.len())]);
            damage(&mut content, &mut random);
            let checked = std::panic::catch_unwind(|| check(&content));
            let Ok(report) = checked else {
                panic!("the seed {seed} makes the checker panic");
            };
            assert_eq!(report.bytes, content.len() as u64, "seed {seed}");
            let damage = report
                .problems
                .iter()
                .find(|problem| problem.rule.slug() != "series");
            let sound = damage.map_or(report.bytes, |problem| problem.offset);
            assert!(report.whole_until <= sound, "seed {seed}: {report:?}");
            let is_deep = |rule: &str| report.problems.iter().any(|problem| problem.rule.slug() == rule);
            found += u64::from(report.verdict != Verdict::Whole);
            deep += u64::from(is_deep("rows") || is_deep("table-map") || is_deep("body"));
        }
        (deep, found)
    };
    let (deep, found) = std::thread::scope(|scope| {
        let started: Vec<_> = (0..workers)
            .map(|worker| scope.spawn(move || run(worker)))
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    // The damage must be of use: most of it is found, and much of it behind the checksums.
    assert!(
        found > executions / 2 && deep > executions / 50,
        "{found} found, {deep} deep"
    );
}
