//! Numbers that do not repeat, in a scattered order: sysbench's `sysbench.rand.unique()`.

use std::sync::atomic::{AtomicU32, Ordering};

/// The largest prime below 2^32 that leaves 3 when divided by 4, so that squares modulo it permute.
const PRIME: u32 = 4_294_967_291;

/// All numbers of 32 bits, each once, from any number of threads (Preshing, "How to generate a sequence of
/// unique random integers", 2012; sysbench 1.0.20, src/sb_rand.c, `sb_rand_unique`).
#[derive(Debug)]
pub struct Unique {
    index: AtomicU32,
    offset: u32,
}

impl Unique {
    /// A sequence whose beginning and order the two numbers decide.
    pub fn new(index: u32, offset: u32) -> Self {
        Self {
            index: AtomicU32::new(permuted(permuted(index).wrapping_add(0x682f_0161))),
            offset: permuted(permuted(offset).wrapping_add(0x4679_0905)),
        }
    }

    /// The next number.
    #[inline]
    pub fn next(&self) -> u32 {
        let index = self.index.fetch_add(1, Ordering::Relaxed);
        permuted(permuted(index).wrapping_add(self.offset) ^ 0x5bf0_3635)
    }

    /// The next number as sysbench makes an INTEGER of it.
    #[inline]
    pub fn next_int(&self) -> i32 {
        self.next().wrapping_add(1 << 31) as i32
    }
}

/// Quadratic residues modulo the prime; the five numbers from the prime on stay where they are.
#[inline]
fn permuted(number: u32) -> u32 {
    if number >= PRIME {
        return number;
    }
    let residue = (u64::from(number) * u64::from(number) % u64::from(PRIME)) as u32;
    if number <= PRIME / 2 {
        residue
    } else {
        PRIME - residue
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_comes_twice() {
        let unique = Unique::new(1, 2);
        let seen: HashSet<u32> = (0..200_000).map(|_| unique.next()).collect();
        assert_eq!(seen.len(), 200_000);
    }

    #[test]
    fn neighbours_are_far_apart() {
        let unique = Unique::new(3, 4);
        let numbers: Vec<u32> = (0..1000).map(|_| unique.next()).collect();
        let near = numbers
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) < 1 << 20);
        // A share of 2^21 / 2^32: half a pair in a thousand is due.
        assert!(near.count() < 6);
    }

    #[test]
    fn the_lowest_number_is_the_lowest_integer() {
        let unique = Unique::new(5, 6);
        let twin = Unique::new(5, 6);
        for _ in 0..1000 {
            assert_eq!(i64::from(unique.next_int()), i64::from(twin.next()) - (1 << 31));
        }
    }

    #[test]
    fn numbers_beyond_the_prime_stay() {
        assert_eq!(
            (PRIME..=u32::MAX).map(permuted).collect::<Vec<_>>(),
            (PRIME..=u32::MAX).collect::<Vec<_>>()
        );
    }
}
