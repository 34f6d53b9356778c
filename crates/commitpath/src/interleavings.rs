//! Interleavings that runs meet too rarely, each brought about by holding what a thread waits for.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flushlab_binlog::Format;

use crate::commit_settings::{BinlogStrategy, CommitSettings};
use crate::engine::{lock, Engine, Settings};
use crate::error::{Error, Kind};
use crate::session::Answer;
use crate::shape::{Shape, Source, Transactions};
use crate::IDENTITY;

const LIMIT: Duration = Duration::from_secs(30);
const REDO: [u8; 300] = [7; 300];
const THREADS: u32 = 66;

fn commit_settings(strategy: BinlogStrategy) -> CommitSettings {
    let (trx_commit, sync_binlog) = if strategy == BinlogStrategy::Redo {
        (1, 1)
    } else {
        (2, 1000)
    };
    CommitSettings {
        trx_commit,
        sync_binlog,
        binlog_strategy: strategy,
    }
}

/// An engine whose sessions each have a transaction of 20,000 bytes, of which 13 take a quarter of the ring.
fn engine(folder: &Path, strategy: BinlogStrategy, rotate_bytes: u64) -> Engine {
    let format = Format::new("9.7.4", IDENTITY).unwrap();
    let shape = Shape::Sizes {
        redo_bytes: 300,
        binlog_bytes: 20_000,
        large_every: 0,
        large_bytes: 0,
    };
    let source = Source::new(&shape, &format, THREADS, 1, 0).unwrap();
    let engine = Engine::create(&Settings {
        format: &format,
        folder,
        commit_settings: commit_settings(strategy),
        threads: THREADS,
        rotate_bytes,
        redo_capacity: 4 << 20,
        log_buffer_bytes: 1 << 20,
        ring_bytes: 1 << 20,
        linger: None,
        timestamp: 0,
        fixed_clock_us: None,
        recovered: None,
    });
    let engine = engine.unwrap();
    for me in 0..THREADS {
        let mut body = lock(&engine.sessions()[me as usize].body);
        let xid = 1 << 8 | u64::from(me);
        Transactions::new(&source, me).next(&mut body, xid).unwrap();
    }
    engine
}

fn wait_until(is_so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + LIMIT;
    while !is_so() && Instant::now() < end {
        thread::yield_now();
    }
    is_so()
}

#[test]
fn a_leader_is_not_sent_back_once_a_part_of_its_group_has_committed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), BinlogStrategy::ParallelLeader, 1 << 30);
    let begin = engine.binlog().next();
    thread::scope(|scope| {
        // One that the ring has no room for together with the first.
        let held = lock(&engine.sessions()[20].body);
        let group: Vec<_> = (0..THREADS).collect();
        let leader = scope.spawn({
            let engine = &engine;
            move || engine.lead(0, &group)
        });
        assert!(wait_until(|| engine.binlog().next() > begin));
        engine.change(commit_settings(BinlogStrategy::Serial)).unwrap();
        drop(held);
        assert_eq!(leader.join().unwrap().unwrap(), Answer::Committed(1));
    });
    let answers = |who: std::ops::Range<usize>| {
        let sessions = engine.sessions()[who].iter();
        sessions.map(|session| session.answer()).collect::<Vec<_>>()
    };
    assert_eq!(
        answers(12..14),
        [Some(Answer::Committed(13)), Some(Answer::Again)]
    );
    assert!(answers(13..66)
        .iter()
        .all(|answer| *answer == Some(Answer::Again)));
}

#[test]
fn who_waits_until_the_section_is_closed_looks_at_the_policy_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), BinlogStrategy::Parallel, 4096);
    // The file's last place is given: its owner alone may open the section again.
    let mut place = engine.binlog().reserve(1, 5000).unwrap();
    assert!(place.last);
    let looks = AtomicU64::new(0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let closed = engine.lock_closed(|commit_settings| {
                looks.fetch_add(1, Ordering::SeqCst);
                commit_settings.binlog_strategy != BinlogStrategy::Serial
            });
            closed.map(|log| log.is_some())
        });
        assert!(wait_until(|| looks.load(Ordering::SeqCst) > 0));
        // The owner opens it, and a change to serial closes it before the other one gets the lock.
        let mut log = engine.lock_log();
        engine.binlog().bytes(&mut place).0.fill(0);
        let end = place.end();
        engine.binlog().publish(place, 0);
        engine.drain_until(&mut log, end).unwrap();
        engine.rotate(&mut log).unwrap();
        engine.open_section(&mut log);
        assert!(engine.binlog().close().is_some());
        engine.commit_settings.store(
            commit_settings(BinlogStrategy::Serial).to_bits(),
            Ordering::Release,
        );
        drop(log);
        let ended = wait_until(|| waiter.is_finished());
        engine.fail(Error::new(Kind::Measurement, "the test is over"));
        assert!(ended, "nobody opens the section any more");
        assert!(!waiter.join().unwrap().unwrap());
    });
}

#[test]
fn what_redo_alone_made_durable_is_synced_in_the_binlog_before_redo_is_left() {
    for to in [BinlogStrategy::Parallel, BinlogStrategy::Serial] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), BinlogStrategy::Redo, 1 << 30);
        let before = engine.unsynced.written();
        assert_eq!(engine.commit(0, 1 << 8, &REDO, &mut Vec::new()).unwrap(), 1);
        assert_eq!(
            engine.unsynced.written(),
            before,
            "the redo log has it, the file follows"
        );
        engine.change(commit_settings(to)).unwrap();
        assert!(engine.unsynced.written() > before + 20_000);
        assert_eq!(engine.unsynced.at_risk(), 0);
    }
}

#[test]
fn of_many_that_wait_few_want_a_processor_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), BinlogStrategy::Serial, 1 << 30);
    let mut waiting: Vec<_> = (0..THREADS).map(|_| engine.log.yielding()).collect();
    assert!(waiting[..64].iter().all(|one| one.is_one_of_few));
    assert!(waiting[64..].iter().all(|one| !one.is_one_of_few));
    waiting.clear();
    assert!(engine.log.yielding().is_one_of_few);
}
