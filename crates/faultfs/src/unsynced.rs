//! What no flush had made durable before a crash, and what of it the crash has left: for whoever looks for the
//! sectors that matter.

use std::io;

use serde::Serialize;

use crate::failure::Policy;
use crate::index::parts;
use crate::record::Recording;
use crate::spec::ImageSpec;
use crate::{BLOCK, SECTOR};

/// Sectors of one write that follow each other and had the same fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Of the record.
    pub number: u64,
    /// The first one, on the disk.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
    /// The crash has left them.
    pub kept: bool,
}

/// The parts of all writes that the image of a crash may have or lack, in their order.
pub fn unsynced(spec: &ImageSpec) -> io::Result<Vec<Part>> {
    let recording = Recording::open(&spec.record)?;
    let policy = Policy::new(&recording, spec.at, &spec.failure, spec.seed)?;
    let mut found: Vec<Part> = Vec::new();
    for number in (1..=spec.at).filter(|&number| !policy.certain(number)) {
        for (block, version) in parts(number, &recording.get(number)?) {
            let first = block * (BLOCK / SECTOR);
            let left = policy.left(number, first, version.mask);
            for bit in (0..8).filter(|bit| version.mask >> bit & 1 == 1) {
                let (sector, kept) = (first + bit, left >> bit & 1 == 1);
                match found.last_mut() {
                    Some(part)
                        if (part.number, part.kept, part.sector + part.sectors) == (number, kept, sector) =>
                    {
                        part.sectors += 1;
                    }
                    _ => found.push(Part {
                        number,
                        sector,
                        sectors: 1,
                        kept,
                    }),
                }
            }
        }
    }
    Ok(found)
}
