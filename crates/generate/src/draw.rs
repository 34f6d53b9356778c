//! Random numbers by counting: those of a cell follow from the seed, the table, the column and the row.

use flushlab_rows::Bits;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The random numbers of one cell: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014), begun at a state that the column's key and the row decide.
#[derive(Debug, Clone)]
pub(crate) struct Draw(u64);

impl Draw {
    /// Those of a row of the column with that key.
    #[inline]
    pub fn new(key: u64, row: u64) -> Self {
        Self(mixed(key ^ row.wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }
}

impl Bits for Draw {
    #[inline]
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mixed(self.0)
    }
}

/// The key of a column, or of what several columns share.
pub(crate) fn key(seed: u64, table: &str, name: &str) -> u64 {
    let mut hash = mixed(seed.wrapping_add(GOLDEN));
    for part in [table, name] {
        for &byte in part.as_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash = mixed(hash.wrapping_add(GOLDEN));
    }
    hash
}

/// A permutation of 64 bits in which every bit depends on all.
#[inline]
pub(crate) fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn cells_share_no_numbers() {
        let keys = [
            key(1, "t", "a"),
            key(1, "t", "b"),
            key(1, "ta", ""),
            key(2, "t", "a"),
        ];
        let mut seen = HashSet::new();
        for key in keys {
            for row in 0..5000 {
                let mut draw = Draw::new(key, row);
                assert!(seen.insert(draw.bits()) && seen.insert(draw.bits()));
            }
        }
    }

    #[test]
    fn first_numbers_of_neighbouring_rows_are_uniform() {
        const ROWS: u64 = 100_000;
        let mut counts = [0u32; 100];
        for row in 0..ROWS {
            counts[Draw::new(key(1, "t", "c"), row).below(100) as usize] += 1;
        }
        // n = 100,000, p = 0.01: sigma = 31; six sigma is 189.
        assert!(
            counts.iter().all(|count| count.abs_diff(1000) < 189),
            "{counts:?}"
        );
    }
}
