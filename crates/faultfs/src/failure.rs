//! Which records a crash leaves.
//!
//! What any flush made durable is always there: the records that were answered before the flush arrived. Of what
//! follows, the device may have kept anything, in any order and in part; a seed chooses. So it does of what had
//! waited for a flush that failed: a later flush that succeeds does not bring it back.

use std::io;
use std::ops::RangeInclusive;

use crate::mix::mix;
use crate::record::{Entry, EntryKind, Recording};
use crate::spec::{Failure, FailureKind};
use crate::{BLOCK, SECTOR};

/// One write that was cut.
#[derive(Debug, Clone, Copy)]
struct Cut {
    number: u64,
    /// On the disk, in sectors.
    sector: u64,
    keeps_front: bool,
}

/// What became of a crash at a record, with a seed.
pub struct Policy {
    at: u64,
    durable: u64,
    seed: u64,
    /// Of 2^32: how often a write that was not flushed is kept whole, and torn.
    keep: u64,
    torn: u64,
    unit_sectors: u64,
    cut: Option<Cut>,
    /// Records that had waited for flushes that failed.
    dropped: Vec<RangeInclusive<u64>>,
}

impl Policy {
    /// Of a record.
    pub fn new(recording: &Recording, at: u64, failure: &Failure, seed: u64) -> io::Result<Self> {
        if at > recording.last() {
            let message = format!("there is no record {at}; the last one is {}", recording.last());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let durable = match failure.kind {
            FailureKind::Os | FailureKind::Torn => at,
            FailureKind::Power => flushed(recording, at, 0)?,
            FailureKind::LyingDisk => flushed(recording, at, failure.lying_flushes)?,
        };
        let unit = u64::from(failure.tear.unwrap_or(0));
        if ![0, SECTOR, BLOCK].contains(&unit) {
            let message = format!("a device that tears at {unit} bytes: 512 or 4096");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let unit_sectors = unit / SECTOR;
        let cut = match failure.kind {
            FailureKind::Torn => cut(recording, at, seed, unit_sectors.max(1))?,
            _ => None,
        };
        let dropped = match failure.kind {
            FailureKind::Os | FailureKind::Torn => Vec::new(),
            FailureKind::Power | FailureKind::LyingDisk => dropped(recording, durable)?,
        };
        // A quarter of the seeds keep nothing that was not flushed: the worst that most databases meet. The
        // others keep more or less of it.
        let drawn = mix(seed ^ 0x6b65_6570);
        let keep = if drawn.is_multiple_of(4) { 0 } else { drawn >> 32 };
        let torn = if unit == 0 || drawn.is_multiple_of(4) {
            0
        } else {
            ((1 << 32) - keep) / 4
        };
        Ok(Self {
            at,
            durable,
            seed,
            keep,
            torn,
            unit_sectors,
            cut,
            dropped,
        })
    }

    /// The last record that may be seen.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Every record up to this one is there, but for what had waited for a flush that failed.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether a record is there whole, whatever the seed.
    fn certain(&self, number: u64) -> bool {
        number <= self.durable
            && !self.dropped.iter().any(|range| range.contains(&number))
            && self.cut.is_none_or(|cut| cut.number != number)
    }

    /// Which of 8 sectors from `sector` on, of those in `mask`, a record has left.
    pub fn left(&self, number: u64, sector: u64, mask: u8) -> u8 {
        if number > self.at {
            return 0;
        }
        if let Some(cut) = self.cut.filter(|cut| cut.number == number) {
            let front = (0..8)
                .filter(|bit| sector + bit < cut.sector)
                .fold(0, |bits, bit| bits | 1 << bit);
            return if cut.keeps_front {
                mask & front
            } else {
                mask & !front
            };
        }
        if self.certain(number) {
            return mask;
        }
        let drawn = mix(self.seed.wrapping_add(mix(number))) >> 32;
        if drawn < self.keep {
            return mask;
        }
        if drawn >= self.keep + self.torn {
            return 0;
        }
        let kept = |bit: &u64| {
            let unit = (sector + bit) / self.unit_sectors;
            mix(self.seed ^ mix(number.rotate_left(32) ^ unit)) & 1 == 1
        };
        mask & (0..8).filter(kept).fold(0, |bits, bit| bits | 1 << bit)
    }
}

/// The last record that a flush up to `at`, but for the last `skipped` ones, made durable. That need not be the last
/// flush: one that arrived earlier may be answered later, and takes nothing back.
fn flushed(recording: &Recording, at: u64, skipped: u64) -> io::Result<u64> {
    let (mut skipped, mut durable) = (skipped, 0);
    for number in (1..=at).rev() {
        if number <= durable {
            break; // an earlier flush arrived before `durable` was answered
        }
        let entry = recording.get(number)?;
        if entry.kind == EntryKind::Flush {
            if skipped == 0 {
                durable = durable.max(entry.before);
            } else {
                skipped -= 1;
            }
        }
    }
    Ok(durable)
}

/// What had waited for flushes that failed, among the first records.
fn dropped(recording: &Recording, last: u64) -> io::Result<Vec<RangeInclusive<u64>>> {
    let (mut found, mut durable) = (Vec::new(), 0);
    for number in 1..=last {
        let entry = recording.get(number)?;
        match entry.kind {
            EntryKind::Write => {}
            EntryKind::Flush => durable = durable.max(entry.before),
            EntryKind::Failed => found.push(durable + 1..=entry.before),
        }
    }
    Ok(found)
}

/// Where the last write of more than a unit is cut; nowhere if a flush has made it durable.
fn cut(recording: &Recording, at: u64, seed: u64, unit_sectors: u64) -> io::Result<Option<Cut>> {
    for number in (flushed(recording, at, 0)? + 1..=at).rev() {
        let entry: Entry = recording.get(number)?;
        let first = entry.offset / SECTOR / unit_sectors;
        let end = (entry.offset + u64::from(entry.length)).div_ceil(SECTOR * unit_sectors);
        if entry.kind == EntryKind::Write && end - first > 1 {
            let drawn = mix(seed ^ 0x0063_7574);
            let unit = first + 1 + (drawn >> 1) % (end - first - 1);
            return Ok(Some(Cut {
                number,
                sector: unit * unit_sectors,
                keeps_front: drawn & 1 == 0,
            }));
        }
    }
    Ok(None)
}
