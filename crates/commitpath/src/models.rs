//! The concurrency core under loom's model checker, which tries the interleavings:
//! `cargo test --release -p flushlab-commitpath --features loom`.

use std::fs::File;
use std::io;

use flushlab_binlog::{Format, Identity, Uuid};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

use crate::combining::{CombiningLock, Patience, Tag};
use crate::log_buffer::{Drain, LogBuffer, Place};
use crate::redo::{Checkpoint, Entry, Kind, HEADER_SIZE};
use crate::redo_log::RedoLog;
use crate::section::Section;
use crate::session::{Answer, Session};
use crate::stage::Stage;
use crate::sync::make_room_until_done;
use crate::unsynced::Unsynced;

/// Tries all interleavings with at most so many preemptions: enough for errors that need few, as most do.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn places_are_disjoint_and_one_owner_knows_that_it_is_the_last() {
    check(4, || {
        let section = Arc::new(Section::closed(20));
        section.open(4);
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let section = section.clone();
                thread::spawn(move || section.take(1, 8))
            })
            .collect();
        let mut given: Vec<_> = takers
            .into_iter()
            .filter_map(|taker| taker.join().unwrap())
            .collect();
        given.sort_by_key(|given| given.start);
        assert_eq!(
            given
                .iter()
                .map(|given| (given.before, given.start, given.last))
                .collect::<Vec<_>>(),
            [(0, 4, false), (1, 12, true)]
        );
        assert!(section.is_closed());
        section.open(4);
        assert_eq!(section.take(1, 1).map(|given| given.start), Some(4));
    });
}

#[test]
fn closing_tells_of_every_place_that_was_given() {
    check(4, || {
        let section = Arc::new(Section::closed(100));
        section.open(0);
        let taker = {
            let section = section.clone();
            thread::spawn(move || u64::from(section.take(1, 7).is_some()))
        };
        let (count, next) = section.close().unwrap();
        let taken = taker.join().unwrap();
        assert_eq!((count, next), (taken, 7 * taken));
    });
}

fn fill(buffer: &LogBuffer, mut place: Place, byte: u8, tag: u64) {
    assert!(buffer.has_room(&place));
    let (front, back) = buffer.bytes(&mut place);
    front.fill(byte);
    back.fill(byte);
    buffer.publish(place, tag);
}

/// Takes what is ready and gives the places back.
fn empty(buffer: &LogBuffer, drain: &mut Drain, found: &mut Vec<(u64, Vec<u8>)>) {
    let mut tags = Vec::new();
    let mut from = drain.ready();
    buffer.scan(drain, |end, tag| tags.push((end, tag)));
    for (end, tag) in tags {
        let (front, back) = buffer.filled(drain, from, end);
        found.push((tag, [front, back].concat()));
        from = end;
    }
    buffer.release(drain, from);
}

#[test]
fn what_is_read_is_what_was_filled_and_in_the_order_of_places() {
    check(3, || {
        let (buffer, mut drain) = LogBuffer::new(8, 4, 100);
        buffer.open(&drain, 6);
        let buffer = Arc::new(buffer);
        let fillers: Vec<_> = [1, 2]
            .into_iter()
            .map(|number: u8| {
                let buffer = buffer.clone();
                thread::spawn(move || {
                    let place = buffer.reserve(1, 3).unwrap();
                    let start = place.start;
                    fill(&buffer, place, number, u64::from(number));
                    (start, u64::from(number))
                })
            })
            .collect();
        let mut found = Vec::new();
        empty(&buffer, &mut drain, &mut found);
        let mut filled: Vec<_> = fillers.into_iter().map(|filler| filler.join().unwrap()).collect();
        empty(&buffer, &mut drain, &mut found);
        filled.sort_unstable();
        let order: Vec<_> = filled.iter().map(|(_, number)| *number).collect();
        assert_eq!(found.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), order);
        assert!(found.iter().all(|(tag, bytes)| bytes == &[*tag as u8; 3]));
    });
}

#[test]
fn bytes_and_slots_are_used_again_only_after_they_were_released() {
    check(3, || {
        // One slot, and bytes for one place and a half.
        let (buffer, mut drain) = LogBuffer::new(4, 1, 100);
        buffer.open(&drain, 0);
        let place = buffer.reserve(1, 3).unwrap();
        fill(&buffer, place, 1, 1);
        let buffer = Arc::new(buffer);
        let filler = {
            let buffer = buffer.clone();
            thread::spawn(move || {
                let place = buffer.reserve(1, 3).unwrap();
                let room = buffer.has_room(&place);
                if room {
                    fill(&buffer, place, 2, 2);
                }
                room
            })
        };
        let mut found = Vec::new();
        empty(&buffer, &mut drain, &mut found);
        assert_eq!(found[0], (1, vec![1; 3]));
        let filled = filler.join().unwrap();
        empty(&buffer, &mut drain, &mut found);
        assert_eq!(found.get(1), filled.then_some(&(2, vec![2; 3])));
    });
}

fn combining(sessions: usize, bytes: usize) -> Arc<CombiningLock<Drain>> {
    let identity = Identity {
        server_id: 1,
        uuid: Uuid([7; 16]),
        domain: 0,
    };
    let format = Format::new("9.7.4", identity).unwrap();
    let (buffer, drain) = LogBuffer::new(bytes, 4, 100);
    buffer.open(&drain, 0);
    let sessions = (0..sessions).map(|_| Session::new(&format)).collect();
    Arc::new(CombiningLock::new(drain, buffer, sessions))
}

/// Commits as the pipelines do; without an answer loom finds a deadlock, as its sleep knows no time.
fn commit(lock: &CombiningLock<Drain>, me: u32) {
    let patience = Patience {
        lingers: false,
        yields: 0,
        rounds: 1,
    };
    let session = &lock.sessions[me as usize];
    session.take(thread::current());
    let place = lock.buffer.reserve(1, 2).unwrap();
    session.number(place.number + 1);
    session.ask();
    fill(
        &lock.buffer,
        place,
        me as u8,
        Tag {
            lsn: 0,
            owner: me,
            in_redo: false,
        }
        .to_bits(),
    );
    let work = |drain: &mut Drain| {
        let mut found = Vec::new();
        empty(&lock.buffer, drain, &mut found);
        for (tag, bytes) in found {
            let owner = Tag::from_bits(tag).owner;
            assert_eq!(bytes, [owner as u8; 2]);
            lock.sessions[owner as usize].commit();
        }
        Ok(())
    };
    let answer = lock.wait(me, patience, work, || Ok(())).unwrap();
    assert!(matches!(answer, Answer::Committed(_)));
}

#[test]
fn everybody_is_answered_whoever_does_the_work() {
    check(3, || {
        let lock = combining(2, 8);
        let other = {
            let lock = lock.clone();
            thread::spawn(move || commit(&lock, 1))
        };
        commit(&lock, 0);
        other.join().unwrap();
    });
}

#[test]
fn who_found_the_lock_taken_is_not_forgotten_by_a_holder_that_did_other_things() {
    check(3, || {
        let lock = combining(1, 8);
        let keeper = {
            let lock = lock.clone();
            thread::spawn(move || drop(lock.lock()))
        };
        commit(&lock, 0);
        keeper.join().unwrap();
    });
}

#[test]
fn a_queue_has_one_leader_at_a_time_and_forgets_nobody() {
    check(4, || {
        let stage = Arc::new(Stage::new(4));
        let enter = |stage: &Stage, me: u32| {
            let mut group = Vec::new();
            if stage.enter(&[me]) {
                stage.take(&mut group);
                assert!(group.contains(&me), "who leads is in the queue");
            }
            group
        };
        let others: Vec<_> = [1, 2]
            .into_iter()
            .map(|me| {
                let stage = stage.clone();
                thread::spawn(move || enter(&stage, me))
            })
            .collect();
        let mut led = enter(&stage, 0);
        for other in others {
            led.extend(other.join().unwrap());
        }
        led.sort_unstable();
        assert_eq!(led, [0, 1, 2]);
    });
}

#[test]
fn who_has_the_section_closed_makes_room_for_the_places_that_it_waits_for() {
    check(2, || {
        // Bytes for one place: the second waits until the first is emptied.
        let lock = combining(1, 2);
        let place = lock.buffer.reserve(1, 2).unwrap();
        fill(&lock.buffer, place, 1, 0);
        let filler = {
            let lock = lock.clone();
            thread::spawn(move || {
                let Some(place) = lock.buffer.reserve(1, 2) else {
                    return 0;
                };
                // It could not get the lock either; loom lets those who try wait for it.
                while !lock.buffer.has_room(&place) {
                    thread::yield_now();
                }
                fill(&lock.buffer, place, 2, 0);
                1
            })
        };
        let mut holder = lock.lock();
        let (_, next) = lock.buffer.close().unwrap();
        let end = lock.buffer.ring_position(next);
        let mut found = Vec::new();
        let emptied = || {
            empty(&lock.buffer, &mut holder, &mut found);
            Ok(holder.ready() >= end)
        };
        make_room_until_done(emptied, || Ok(())).unwrap();
        drop(holder);
        let all = [(0, vec![1; 2]), (0, vec![2; 2])];
        assert_eq!(found, all[..1 + filler.join().unwrap()]);
    });
}

#[test]
fn who_waits_for_room_makes_it_while_nobody_else_does() {
    check(2, || {
        let lock = combining(2, 2);
        let write = |lock: &CombiningLock<Drain>, byte: u8| {
            let place = lock.buffer.reserve(1, 2).unwrap();
            let work = |drain: &mut Drain| {
                empty(&lock.buffer, drain, &mut Vec::new());
                Ok(())
            };
            lock.wait_for_room(&place, work, || Ok(())).unwrap();
            fill(&lock.buffer, place, byte, u64::from(byte));
        };
        let other = {
            let lock = lock.clone();
            thread::spawn(move || write(&lock, 0))
        };
        write(&lock, 1);
        other.join().unwrap();
        let mut found = Vec::new();
        empty(&lock.buffer, &mut lock.lock(), &mut found);
        assert_eq!(found.len(), 1, "the second is there, the first was in its way");
    });
}

const RECORD: u64 = HEADER_SIZE as u64;

/// A redo log whose buffer holds one record, and whose circle four.
fn redo_log(file: &File) -> RedoLog {
    RedoLog::over(file.try_clone().unwrap(), 4 * RECORD, 0, 64)
}

const COMMIT: Entry<'_> = Entry {
    kind: Kind::Commit,
    xid: 1,
    gtid_number: 1,
    payload: &[],
    binlog: [&[], &[]],
};

fn record(log: &RedoLog) -> u64 {
    log.append(&COMMIT).unwrap()
}

#[test]
fn a_redo_log_is_written_up_to_a_record_that_still_waits_for_room() {
    let file = tempfile::tempfile().unwrap();
    check(1, move || {
        let log = Arc::new(redo_log(&file));
        record(&log);
        let place = log.reserve(RECORD).unwrap();
        let filler = {
            let log = log.clone();
            thread::spawn(move || log.fill(place, &COMMIT).unwrap())
        };
        log.write(log.next()).unwrap();
        assert_eq!(log.written(), 2 * RECORD);
        assert_eq!(filler.join().unwrap(), 2 * RECORD);
    });
}

#[test]
fn who_is_admitted_to_the_circle_writes_over_nothing_and_nobody_is_forgotten() {
    let file = tempfile::tempfile().unwrap();
    check(2, move || {
        let log = Arc::new(redo_log(&file));
        // Three of four are taken: one of the two that come has to wait for the other one's checkpoint.
        for _ in 0..3 {
            record(&log);
        }
        let commit = |log: &RedoLog| {
            let admitted = log.admit(RECORD).unwrap();
            // This asserts that nothing is written over.
            log.write(record(log)).unwrap();
            drop(admitted);
            let checkpoint = Checkpoint {
                lsn: RECORD,
                applied: 1,
            };
            log.put_checkpoint(checkpoint, false).unwrap();
        };
        let other = {
            let log = log.clone();
            thread::spawn(move || commit(&log))
        };
        commit(&log);
        other.join().unwrap();
        assert_eq!(log.written(), 5 * RECORD);
    });
}

#[test]
fn what_is_called_synced_is_synced_also_while_another_file_is_begun() {
    /// Bytes written to a file, and those of them that are synced.
    #[derive(Clone, Default)]
    struct Bytes(Arc<(AtomicU64, AtomicU64)>);
    impl Bytes {
        fn write(&self, unsynced: &Unsynced<Self>) {
            self.0 .0.fetch_add(1, Ordering::SeqCst);
            unsynced.add(1);
        }

        fn sync(&self) -> io::Result<()> {
            self.0
                 .1
                .store(self.0 .0.load(Ordering::SeqCst), Ordering::SeqCst);
            Ok(())
        }
    }
    check(3, || {
        let files = [Bytes::default(), Bytes::default()];
        let unsynced = Arc::new(Unsynced::new(files[0].clone(), 0));
        let writer = {
            let (files, unsynced) = (files.clone(), unsynced.clone());
            thread::spawn(move || {
                files[0].write(&unsynced);
                unsynced.begin(files[1].clone());
                files[1].write(&unsynced);
            })
        };
        let other = {
            let unsynced = unsynced.clone();
            thread::spawn(move || unsynced.sync(Bytes::sync).unwrap())
        };
        unsynced.sync(Bytes::sync).unwrap();
        other.join().unwrap();
        writer.join().unwrap();
        let synced: u64 = files.iter().map(|file| file.0 .1.load(Ordering::SeqCst)).sum();
        assert!(2 - unsynced.at_risk() <= synced);
    });
}
