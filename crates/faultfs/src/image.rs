//! What a crash leaves of a disk: its blocks, read from the record.

use std::fs::File;
use std::io;

use crate::failure::Policy;
use crate::index::Index;
use crate::layers::{ByteSource, Zeros};
use crate::record::{Recording, ZEROS};
use crate::spec::{Base, ImageSpec};
use crate::{BLOCK, SECTOR};

/// An image; it reads a record and changes nothing.
pub struct Image {
    index: Index,
    policy: Policy,
    data: File,
    base: Box<dyn ByteSource>,
    size: u64,
}

impl Image {
    /// Opens an image; its time does not depend on how long the record is, except for the first one of it.
    pub fn open(spec: &ImageSpec) -> io::Result<Self> {
        let recording = Recording::open(&spec.record)?;
        let base: Box<dyn ByteSource> = match &recording.header.base {
            Base::Zeros => Box::new(Zeros),
            Base::File => Box::new(File::open(recording.file("base"))?),
            Base::Image(below) => Box::new(Self::open(below)?),
        };
        Ok(Self {
            index: Index::open(&recording, spec.at)?,
            policy: Policy::new(&recording, spec.at, &spec.failure, spec.seed)?,
            data: File::open(recording.file("data"))?,
            base,
            size: recording.header.size,
        })
    }

    /// Of the disk, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Every record up to this one is in it.
    pub fn durable(&self) -> u64 {
        self.policy.durable()
    }

    /// Fills what a block's versions have of the sectors in `open`; returns what they have not.
    fn fill(&self, buffer: &mut [u8], block: u64, mut open: u8) -> io::Result<u8> {
        let first = block * (BLOCK / SECTOR);
        let skipped = u64::from(open.trailing_zeros());
        for version in self.index.versions(block, self.policy.at()) {
            let taken = self.policy.left(version.number, first, version.mask) & open;
            if taken == 0 {
                continue;
            }
            let own = u64::from(version.mask.trailing_zeros());
            let mut bit = u64::from(taken.trailing_zeros());
            while bit < 8 && taken >> bit != 0 {
                let run = u64::from((taken >> bit).trailing_ones());
                if run == 0 {
                    bit += 1;
                    continue;
                }
                let from = ((bit - skipped) * SECTOR) as usize;
                let part = &mut buffer[from..from + (run * SECTOR) as usize];
                if version.data == ZEROS {
                    part.fill(0);
                } else {
                    ByteSource::read(&self.data, part, version.data + (bit - own) * SECTOR)?;
                }
                bit += run;
            }
            open &= !taken;
            if open == 0 {
                break;
            }
        }
        Ok(open)
    }
}

impl ByteSource for Image {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + buffer.len() as u64;
        let mut at = offset;
        while at < end {
            let block = at / BLOCK;
            let to = end.min((block + 1) * BLOCK);
            let (first, last) = (at % BLOCK / SECTOR, (to - block * BLOCK).div_ceil(SECTOR));
            let asked = (first..last).fold(0_u8, |mask, bit| mask | 1 << bit);
            let part = &mut buffer[(at - offset) as usize..(to - offset) as usize];
            let missing = self.fill(part, block, asked)?;
            for bit in (first..last).filter(|bit| missing >> bit & 1 == 1) {
                let from = ((bit - first) * SECTOR) as usize;
                self.base.read(
                    &mut part[from..from + SECTOR as usize],
                    block * BLOCK + bit * SECTOR,
                )?;
            }
            at = to;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Entry, EntryKind, Recorder};
    use crate::spec::{Failure, FailureKind};
    use proptest::prelude::*;
    use std::os::unix::fs::FileExt;
    use tempfile::TempDir;

    const SECTORS: u64 = 64;
    const SIZE: u64 = SECTORS * SECTOR;

    #[derive(Debug, Clone)]
    enum Step {
        Write {
            sector: u64,
            count: u64,
            zeros: bool,
        },
        /// With so many of the records before it answered only after it arrived.
        Flush {
            late: u64,
        },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        steps_with_zeros(0.1)
    }

    /// Writes of which so many are of zeros, and flushes.
    fn steps_with_zeros(share: f64) -> impl Strategy<Value = Vec<Step>> {
        let write =
            (0..SECTORS, 1..40_u64, prop::bool::weighted(share)).prop_map(|(sector, count, zeros)| {
                Step::Write {
                    sector,
                    count: count.min(SECTORS - sector),
                    zeros,
                }
            });
        let flush = (0..3_u64).prop_map(|late| Step::Flush { late });
        prop::collection::vec(prop_oneof![4 => write, 1 => flush], 1..40)
    }

    /// A record in which each sector says which write it is of: 0 is the base, or zeros.
    fn record(steps: &[Step]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(folder.path(), SIZE, Base::File, None).unwrap();
        File::create(folder.path().join("base"))
            .unwrap()
            .set_len(SIZE)
            .unwrap();
        for (number, step) in (1_u64..).zip(steps) {
            let before = recorder.position();
            let none = Entry {
                kind: EntryKind::Flush,
                length: 0,
                time_ns: 0,
                offset: 0,
                data: 0,
                before,
            };
            let entry = match *step {
                Step::Flush { late } => Entry {
                    before: before.saturating_sub(late),
                    ..none
                },
                Step::Write { sector, count, zeros } => {
                    let length = (count * SECTOR) as u32;
                    let value = if zeros { 0 } else { number };
                    let data = recorder
                        .keep(&value.to_le_bytes().repeat(length as usize / 8))
                        .unwrap();
                    Entry {
                        kind: EntryKind::Write,
                        length,
                        offset: sector * SECTOR,
                        data,
                        ..none
                    }
                }
            };
            recorder.add(entry).unwrap();
        }
        folder
    }

    fn sectors(folder: &TempDir, at: u64, failure: Failure, seed: u64) -> Vec<u64> {
        let record = folder.path().to_owned();
        let image = Image::open(&ImageSpec {
            record,
            at,
            failure,
            seed,
        })
        .unwrap();
        let mut all = vec![0; SIZE as usize];
        image.read(&mut all, 0).unwrap();
        let value = |sector: &[u8]| u64::from_le_bytes(sector[..8].try_into().unwrap());
        all.chunks(SECTOR as usize).map(value).collect()
    }

    fn failure(kind: FailureKind, tear: Option<u32>, lying_flushes: u64) -> Failure {
        Failure {
            kind,
            tear,
            lying_flushes,
        }
    }

    fn numbered(steps: &[Step]) -> Vec<(u64, &Step)> {
        (1..).zip(steps).collect()
    }

    /// What each sector holds after the writes up to `at`, by the simplest of means.
    fn replayed(steps: &[Step], at: u64) -> Vec<u64> {
        let mut all = vec![0; SECTORS as usize];
        for (number, step) in (1..=at).zip(steps) {
            if let Step::Write { sector, count, zeros } = *step {
                all[sector as usize..(sector + count) as usize].fill(if zeros { 0 } else { number });
            }
        }
        all
    }

    /// The last record such that a flush that the device did arrived after its answer.
    fn durable(steps: &[Step], at: u64, lying: usize) -> u64 {
        let of_flush = |(number, step): (u64, &Step)| match step {
            Step::Flush { late } => Some((number - 1).saturating_sub(*late)),
            Step::Write { .. } => None,
        };
        let flushes: Vec<u64> = (1..=at).zip(steps).filter_map(of_flush).collect();
        let done = &flushes[..flushes.len().saturating_sub(lying)];
        let is_durable = |record: &u64| done.iter().any(|before| record <= before);
        (1..=at).rfind(is_durable).unwrap_or(0)
    }

    fn at_of(steps: &[Step], share: f64) -> u64 {
        (steps.len() as f64 * share).round() as u64
    }

    proptest! {
        #[test]
        fn a_crash_of_the_system_keeps_every_write(steps in steps(), share in 0.0..1.0) {
            let at = at_of(&steps, share);
            let found = sectors(&record(&steps), at, failure(FailureKind::Os, Some(512), 0), 1);
            prop_assert_eq!(found, replayed(&steps, at));
        }

        #[test]
        fn a_power_cut_keeps_what_was_flushed_and_invents_nothing(
            steps in steps(), share in 0.0..1.0, seed: u64, lying in 0..3_usize,
            tear in prop::sample::select(vec![None, Some(512), Some(4096)]),
        ) {
            let at = at_of(&steps, share);
            let kind = if lying > 0 { FailureKind::LyingDisk } else { FailureKind::Power };
            let found = sectors(&record(&steps), at, failure(kind, tear, lying as u64), seed);
            let kept = durable(&steps, at, lying);
            let mut possible: Vec<Vec<u64>> = replayed(&steps, kept).into_iter().map(|one| vec![one]).collect();
            for (number, step) in (1..=at).zip(&steps).filter(|(number, _)| *number > kept) {
                if let Step::Write { sector, count, zeros } = *step {
                    for values in &mut possible[sector as usize..(sector + count) as usize] {
                        values.push(if zeros { 0 } else { number });
                    }
                }
            }
            for (sector, (value, values)) in found.iter().zip(&possible).enumerate() {
                prop_assert!(values.contains(value), "sector {} has {}, not of {:?}", sector, value, values);
            }
        }

        #[test]
        fn a_device_that_tears_nothing_keeps_writes_whole(steps in steps_with_zeros(0.0), seed: u64) {
            let at = steps.len() as u64;
            let found = sectors(&record(&steps), at, failure(FailureKind::Power, None, 0), seed);
            // Taken from the last one back, each write shows everywhere that no later one that is kept covers.
            let mut covered = vec![false; SECTORS as usize];
            for (number, step) in numbered(&steps).into_iter().rev() {
                let Step::Write { sector, count, .. } = *step else { continue };
                let range = sector as usize..(sector + count) as usize;
                let shown = range.clone().filter(|&at| found[at] == number).count();
                let open = range.clone().filter(|&at| !covered[at]).count();
                prop_assert!(shown == 0 || shown == open);
                if shown > 0 {
                    covered[range].fill(true);
                }
            }
        }

        #[test]
        fn a_large_write_that_no_flush_made_durable_is_there_in_part(
            steps in steps_with_zeros(0.0), seed: u64, unit in prop::sample::select(vec![1_u64, 8]),
        ) {
            let torn = failure(FailureKind::Torn, Some((unit * SECTOR) as u32), 0);
            let found = sectors(&record(&steps), steps.len() as u64, torn, seed);
            let whole = replayed(&steps, steps.len() as u64);
            let kept = durable(&steps, steps.len() as u64, 0);
            let last = numbered(&steps).into_iter().rev().find_map(|(number, step)| match *step {
                Step::Write { sector, count, .. }
                    if number > kept && (sector + count).div_ceil(unit) - sector / unit > 1 =>
                {
                    Some((number, sector..sector + count))
                }
                _ => None,
            });
            let Some((number, range)) = last else {
                prop_assert_eq!(found, whole);
                return Ok(());
            };
            for at in (0..SECTORS).filter(|at| !range.contains(at)) {
                prop_assert_eq!(found[at as usize], whole[at as usize]);
            }
            let own = |all: &[u64]| all.iter().filter(|&&value| value == number).count();
            let count = range.count();
            prop_assert!(own(&whole) < count || (1..count).contains(&own(&found)));
        }

        #[test]
        fn the_same_seed_leaves_the_same_and_parts_are_as_the_whole(
            steps in steps(), share in 0.0..1.0, seed: u64, sector in 0..SECTORS, count in 1..SECTORS,
        ) {
            let (at, folder) = (at_of(&steps, share), record(&steps));
            let spec = ImageSpec {
                record: folder.path().to_owned(), at, failure: failure(FailureKind::Power, Some(512), 0), seed,
            };
            let mut whole = vec![0; SIZE as usize];
            Image::open(&spec).unwrap().read(&mut whole, 0).unwrap();
            std::fs::remove_file(folder.path().join("index")).unwrap();
            let (from, to) = (sector * SECTOR, (sector + count).min(SECTORS) * SECTOR);
            let mut part = vec![0; (to - from) as usize];
            Image::open(&spec).unwrap().read(&mut part, from).unwrap();
            prop_assert_eq!(&part[..], &whole[from as usize..to as usize]);
        }
    }

    fn writes(count: u64) -> Vec<Step> {
        (0..count)
            .map(|sector| Step::Write {
                sector,
                count: 1,
                zeros: false,
            })
            .collect()
    }

    #[test]
    fn what_was_not_flushed_is_lost_with_some_seeds_in_part_with_others_and_mostly_kept_with_some() {
        let folder = record(&writes(SECTORS));
        let power = failure(FailureKind::Power, None, 0);
        let kept = |seed| {
            sectors(&folder, SECTORS, power, seed)
                .iter()
                .filter(|&&value| value > 0)
                .count()
        };
        let kept: Vec<usize> = (0..200).map(kept).collect();
        let nothing = kept.iter().filter(|&&count| count == 0).count();
        assert!((30..90).contains(&nothing), "{nothing} of 200");
        assert!(kept.iter().any(|count| (20..44).contains(count)));
        assert!(kept.iter().any(|&count| count > 56));
    }

    #[test]
    fn a_flush_that_is_answered_late_takes_nothing_back() {
        // The second flush arrived before the first two writes were answered, and was answered last.
        let mut steps = writes(2);
        steps.extend([Step::Flush { late: 0 }, Step::Flush { late: 3 }]);
        let folder = record(&steps);
        for seed in 0..40 {
            let found = sectors(&folder, 4, failure(FailureKind::Power, None, 0), seed);
            assert_eq!(found[..2], [1, 2], "seed {seed}");
        }
        let lying = |seed| sectors(&folder, 4, failure(FailureKind::LyingDisk, None, 2), seed)[0];
        assert!((0..40).any(|seed| lying(seed) == 0));
    }

    #[test]
    fn what_waited_for_a_flush_that_failed_may_be_lost_although_the_next_one_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(folder.path(), SIZE, Base::Zeros, None).unwrap();
        let kinds = [EntryKind::Flush, EntryKind::Failed, EntryKind::Flush];
        for (sector, kind) in (0_u64..).zip(kinds) {
            let data = recorder.keep(&(sector + 1).to_le_bytes().repeat(64)).unwrap();
            let write = Entry {
                kind: EntryKind::Write,
                length: 512,
                time_ns: 0,
                offset: sector * SECTOR,
                data,
                before: recorder.position(),
            };
            recorder.add(write).unwrap();
            let before = recorder.position();
            recorder
                .add(Entry {
                    kind,
                    length: 0,
                    before,
                    ..write
                })
                .unwrap();
        }
        let left = |kind, seed| sectors(&folder, 6, failure(kind, None, 0), seed)[..3].to_vec();
        let found: Vec<_> = (0..40).map(|seed| left(FailureKind::Power, seed)).collect();
        assert!(found.iter().all(|one| one[0] == 1 && one[2] == 3));
        assert!(found.iter().any(|one| one[1] == 0) && found.iter().any(|one| one[1] == 2));
        assert_eq!(left(FailureKind::Os, 0), [1, 2, 3]);
    }

    #[test]
    fn a_record_that_was_cut_short_is_read_to_its_last_whole_entry() {
        let folder = record(&writes(10));
        let entries = File::options()
            .write(true)
            .open(folder.path().join("entries"))
            .unwrap();
        entries.set_len(40 * 7 + 13).unwrap();
        assert_eq!(Recording::open(folder.path()).unwrap().last(), 7);
        let found = sectors(&folder, 7, failure(FailureKind::Os, None, 0), 0);
        assert_eq!(found[..9], [1, 2, 3, 4, 5, 6, 7, 0, 0]);
    }

    #[test]
    fn an_index_is_made_anew_when_the_record_has_grown() {
        let folder = record(&writes(3));
        let os = failure(FailureKind::Os, None, 0);
        assert_eq!(sectors(&folder, 3, os, 0)[2], 3);
        let entries = File::options()
            .write(true)
            .open(folder.path().join("entries"))
            .unwrap();
        let more = std::fs::read(record(&writes(4)).path().join("entries")).unwrap();
        entries.write_all_at(&more, 0).unwrap();
        std::fs::write(folder.path().join("data"), 9_u64.to_le_bytes().repeat(64 * 4)).unwrap();
        std::fs::write(folder.path().join("position"), 4_u64.to_le_bytes()).unwrap();
        assert_eq!(sectors(&folder, 4, os, 0)[3], 9);
    }

    #[test]
    fn an_image_can_be_the_beginning_of_another_record() {
        let below = record(&writes(4));
        let spec = ImageSpec {
            record: below.path().to_owned(),
            at: 3,
            failure: failure(FailureKind::Os, None, 0),
            seed: 0,
        };
        let above = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(above.path(), SIZE, Base::Image(spec), None).unwrap();
        let data = recorder.keep(&77_u64.to_le_bytes().repeat(64)).unwrap();
        let entry = Entry {
            kind: EntryKind::Write,
            length: 512,
            time_ns: 0,
            offset: 512,
            data,
            before: 0,
        };
        recorder.add(entry).unwrap();
        let found = sectors(&above, 1, failure(FailureKind::Os, None, 0), 0);
        assert_eq!(found[..5], [1, 77, 3, 0, 0]);
    }

    #[test]
    fn there_is_no_image_beyond_the_last_record() {
        let folder = record(&writes(2));
        let record = folder.path().to_owned();
        let failure = failure(FailureKind::Os, None, 0);
        let error = Image::open(&ImageSpec {
            record,
            at: 3,
            failure,
            seed: 0,
        })
        .err()
        .unwrap();
        assert_eq!(error.to_string(), "there is no record 3; the last one is 2");
    }
}
