//! The versions of each block of a record, in the order of their numbers.
//!
//! Made once, beside the record, in the file `index`; every image reads the same one. Layout, little endian:
//! the number of records and of blocks (8 bytes each); per block the place of its first version (8 bytes), and
//! one more; per version 20 bytes: number, place in `data` of the first of its sectors, and (4 bytes) which of
//! the block's 8 sectors it has. To make it takes 8 bytes for each block of the disk and a buffer, however many
//! versions there are.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};

use memmap2::Mmap;

use crate::record::{map, Entry, EntryKind, Recording, ZEROS};
use crate::{BLOCK, SECTOR};

const HEAD: usize = 16;
const VERSION: usize = 20;

/// Versions that are written at once; each round reads the entries of the record again.
const AT_ONCE: usize = 1 << 20;

/// One write's part of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Of the record.
    pub number: u64,
    /// Place in `data` of the first of its sectors, or [`ZEROS`].
    pub data: u64,
    /// Which of the block's sectors it has; they follow each other.
    pub mask: u8,
}

/// The versions of all blocks.
pub struct Index {
    map: Mmap,
    blocks: u64,
}

impl Index {
    /// That of a record; made if it is not there, or older than `at`.
    pub fn open(recording: &Recording, at: u64) -> io::Result<Self> {
        let path = recording.file("index");
        if let Ok(file) = File::open(&path) {
            if let Some(map) = map(&file)? {
                let index = Self {
                    blocks: long(&map, 8),
                    map,
                };
                if long(&index.map, 0) >= at {
                    return Ok(index);
                }
            }
        }
        let beside = recording.file(&format!("index.{}", std::process::id()));
        let written = write(recording, &beside, AT_ONCE).and_then(|()| fs::rename(&beside, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
        let map = map(&File::open(&path)?)?.ok_or_else(|| io::Error::other("the index is empty"))?;
        Ok(Self {
            blocks: long(&map, 8),
            map,
        })
    }

    /// The versions of a block up to a record, the newest first.
    pub fn versions(&self, block: u64, at: u64) -> impl Iterator<Item = Version> + '_ {
        let place = |block: u64| long(&self.map, HEAD + block as usize * 8) as usize;
        let (first, end) = if block < self.blocks {
            (place(block), place(block + 1))
        } else {
            (0, 0)
        };
        let start = HEAD + (self.blocks as usize + 1) * 8;
        let number = move |version: usize| long(&self.map, start + version * VERSION);
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if number(middle) <= at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (first..low).rev().map(move |version| {
            let at = start + version * VERSION;
            Version {
                number: long(&self.map, at),
                data: long(&self.map, at + 8),
                mask: self.map[at + 16],
            }
        })
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The parts of a write, by block.
fn parts(number: u64, entry: &Entry) -> impl Iterator<Item = (u64, Version)> + use<> {
    let (offset, data) = (entry.offset, entry.data);
    let end = if entry.kind == EntryKind::Write {
        offset + u64::from(entry.length)
    } else {
        offset
    };
    let blocks = if end > offset {
        offset / BLOCK..end.div_ceil(BLOCK)
    } else {
        0..0
    };
    blocks.map(move |block| {
        let from = offset.max(block * BLOCK);
        let to = end.min((block + 1) * BLOCK);
        let mask = (from..to)
            .step_by(SECTOR as usize)
            .fold(0_u8, |mask, at| mask | 1 << (at % BLOCK / SECTOR));
        let data = if data == ZEROS {
            ZEROS
        } else {
            data + from - offset
        };
        (block, Version { number, data, mask })
    })
}

fn write(recording: &Recording, path: &std::path::Path, at_once: usize) -> io::Result<()> {
    let last = recording.last();
    let blocks = recording.header.size.div_ceil(BLOCK);
    let mut places = vec![0_u64; blocks as usize + 1];
    let outside = || io::Error::other("a record lies outside of the disk");
    for number in 1..=last {
        for (block, _) in parts(number, &recording.get(number)?) {
            *places.get_mut(block as usize + 1).ok_or_else(outside)? += 1;
        }
    }
    let mut sum = 0;
    for place in &mut places {
        sum += *place;
        *place = sum;
    }
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&last.to_le_bytes())?;
    file.write_all(&blocks.to_le_bytes())?;
    for place in &places {
        file.write_all(&place.to_le_bytes())?;
    }
    let all = sum as usize;
    let mut versions = vec![0_u8; all.min(at_once) * VERSION];
    for first in (0..all).step_by(at_once) {
        let end = all.min(first + at_once);
        for number in 1..=last {
            for (block, version) in parts(number, &recording.get(number)?) {
                let place = &mut places[block as usize];
                let at = *place as usize;
                *place += 1;
                if (first..end).contains(&at) {
                    let at = (at - first) * VERSION;
                    versions[at..at + 8].copy_from_slice(&version.number.to_le_bytes());
                    versions[at + 8..at + 16].copy_from_slice(&version.data.to_le_bytes());
                    versions[at + 16] = version.mask;
                }
            }
        }
        file.write_all(&versions[..(end - first) * VERSION])?;
        // Each block's place is now where the next block's was.
        places.copy_within(..blocks as usize, 1);
        places[0] = 0;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Header, Recorder};
    use crate::Base;

    #[test]
    fn an_index_is_the_same_in_however_many_rounds_it_is_made() {
        const BLOCKS: u64 = 40;
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(folder.path(), BLOCKS * BLOCK, Base::Zeros, None).unwrap();
        for number in 0..300_u64 {
            let block = number * number % (BLOCKS - 3);
            let entry = Entry {
                kind: EntryKind::Write,
                length: 3 * BLOCK as u32 - 512,
                time_ns: 0,
                offset: block * BLOCK + 512,
                data: number * 1_000_000,
                before: number,
            };
            recorder.add(entry).unwrap();
        }
        let recording = Recording::open(folder.path()).unwrap();
        let Header { size, .. } = recording.header;
        let made = |at_once| {
            let path = folder.path().join("made");
            write(&recording, &path, at_once).unwrap();
            std::fs::read(&path).unwrap()
        };
        let whole = made(usize::MAX);
        assert_eq!(
            whole.len(),
            HEAD + (size / BLOCK + 1) as usize * 8 + 900 * VERSION
        );
        for at_once in [1000, 900, 899, 123, 7] {
            assert!(made(at_once) == whole, "{at_once} at once");
        }
        let index = Index::open(&recording, 300).unwrap();
        for block in 0..BLOCKS {
            let found: Vec<u64> = index.versions(block, 300).map(|version| version.number).collect();
            let due = (1..=300).rev().filter(|&number| {
                let entry = recording.get(number).unwrap();
                parts(number, &entry).any(|(one, _)| one == block)
            });
            assert_eq!(found, due.collect::<Vec<_>>());
        }
    }
}
