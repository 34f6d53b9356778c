//! The blocks of a disk: what it began with, and over that what was written since.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::SECTOR;

/// Something that can be read like a disk.
pub trait ByteSource: Send + Sync {
    /// Fills a buffer with what stands at an offset; both are multiples of a sector.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// A disk that was never written.
pub struct Zeros;

impl ByteSource for Zeros {
    fn read(&self, buffer: &mut [u8], _: u64) -> io::Result<()> {
        buffer.fill(0);
        Ok(())
    }
}

impl ByteSource for File {
    /// What lies beyond the end is zero.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => {
                    buffer[done..].fill(0);
                    return Ok(());
                }
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A source with a file over it that takes the writes.
///
/// The file is sparse, and what of it is valid stands in a bit per sector: opening costs nothing, and the
/// kernel decides what of it stays in memory.
pub struct Layers {
    base: Box<dyn ByteSource>,
    over: File,
    written: Box<[AtomicU64]>,
}

impl Layers {
    /// Puts an empty file over a source.
    pub fn new(base: Box<dyn ByteSource>, over: File, size: u64) -> Self {
        let words = size.div_ceil(SECTOR * 64) as usize;
        let written = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { base, over, written }
    }

    /// Writes whole sectors.
    pub fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.over.write_all_at(data, offset)?;
        let mut sector = offset / SECTOR;
        let end = sector + data.len() as u64 / SECTOR;
        while sector < end {
            let bit = sector % 64;
            let count = (64 - bit).min(end - sector);
            let mask = (u64::MAX >> (64 - count)) << bit;
            self.written[(sector / 64) as usize].fetch_or(mask, Ordering::Release);
            sector += count;
        }
        Ok(())
    }

    /// How many sectors from `sector` on, but before `end`, lie in the same layer, and whether in the upper.
    fn run(&self, sector: u64, end: u64) -> (u64, bool) {
        let word = |sector: u64| self.written[(sector / 64) as usize].load(Ordering::Acquire);
        let upper = word(sector) >> (sector % 64) & 1 == 1;
        let mut next = sector;
        while next < end {
            let bits = if upper { !word(next) } else { word(next) } >> (next % 64);
            let same = u64::from(bits.trailing_zeros()).min(64 - next % 64);
            next += same;
            if !next.is_multiple_of(64) || same == 0 {
                break;
            }
        }
        (next.min(end) - sector, upper)
    }
}

impl ByteSource for Layers {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let first = offset / SECTOR;
        let end = first + buffer.len() as u64 / SECTOR;
        let mut sector = first;
        while sector < end {
            let (count, upper) = self.run(sector, end);
            let from = ((sector - first) * SECTOR) as usize;
            let part = &mut buffer[from..from + (count * SECTOR) as usize];
            let source: &dyn ByteSource = if upper { &self.over } else { &*self.base };
            source.read(part, sector * SECTOR)?;
            sector += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECTORS: u64 = 300;

    fn layers() -> Layers {
        let base = tempfile::tempfile().unwrap();
        base.write_all_at(&vec![7; (SECTORS * SECTOR) as usize], 0)
            .unwrap();
        Layers::new(Box::new(base), tempfile::tempfile().unwrap(), SECTORS * SECTOR)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_the_rest_is_the_base(
            writes in prop::collection::vec((0..SECTORS, 1..150_u64, 10_u8..), 0..12),
        ) {
            let disk = layers();
            let mut expected = vec![7_u8; (SECTORS * SECTOR) as usize];
            for (sector, count, byte) in writes {
                let count = count.min(SECTORS - sector);
                let data = vec![byte; (count * SECTOR) as usize];
                disk.write(&data, sector * SECTOR).unwrap();
                let from = (sector * SECTOR) as usize;
                expected[from..from + data.len()].copy_from_slice(&data);
            }
            let mut all = vec![0; expected.len()];
            disk.read(&mut all, 0).unwrap();
            prop_assert_eq!(all, expected);
        }
    }

    #[test]
    fn a_file_is_zero_beyond_its_end() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[9; 512], 0).unwrap();
        let mut buffer = [1; 1024];
        ByteSource::read(&file, &mut buffer, 0).unwrap();
        assert_eq!((buffer[511], buffer[512]), (9, 0));
    }
}
