//! Numbers that do not repeat, in a scattered order: sysbench's `sysbench.rand.unique()`, and a range of any size.

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

/// A range of any size in a scattered order; where each number stands is computed, not looked up.
///
/// A Feistel network over the next even power of two, applied again while it leaves the range (cycle walking:
/// Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002): on average fewer than four times.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    count: u64,
    half: u32,
    key: u64,
}

impl Permutation {
    /// An order of `0..count` that `key` decides; `count` is at least 1.
    pub fn new(key: u64, count: u64) -> Self {
        assert!(count > 0);
        let bits = 64 - (count - 1).leading_zeros();
        Self {
            count,
            half: bits.div_ceil(2).max(1),
            key,
        }
    }

    /// The number at that place of the order, which repeats after `count`.
    #[inline]
    pub fn at(&self, place: u64) -> u64 {
        let mut number = place % self.count;
        loop {
            number = self.scattered(number);
            if number < self.count {
                return number;
            }
        }
    }

    #[inline]
    fn scattered(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for round in 1..=4u64 {
            let mixed = (right ^ self.key.rotate_left(16 * round as u32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93 ^ round);
            (left, right) = (right, left ^ ((mixed >> 32) & mask));
        }
        left << self.half | right
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
    fn a_permutation_has_every_number_of_its_range_once() {
        for count in [1, 2, 3, 4, 5, 16, 17, 999, 1000, 65_536, 65_537] {
            for key in [0, 1, u64::MAX] {
                let order = Permutation::new(key, count);
                let seen: HashSet<u64> = (0..count).map(|place| order.at(place)).collect();
                assert_eq!(seen.len() as u64, count);
                assert!(seen.iter().all(|&number| number < count));
            }
        }
    }

    #[test]
    fn a_permutation_scatters_and_its_key_matters() {
        for count in [100_000, 1 << 40, u64::MAX] {
            let (one, other) = (Permutation::new(1, count), Permutation::new(2, count));
            let places: Vec<u64> = (0..10_000).map(|place| one.at(place)).collect();
            let near = places
                .windows(2)
                .filter(|pair| pair[0].abs_diff(pair[1]) < count / 1000);
            // A share of 2 / 1000 of 10,000 pairs: 20 are due, six sigma is 27.
            assert!(near.count() < 47);
            let mean = places.iter().map(|&number| number as f64).sum::<f64>() / 10_000.0 / count as f64;
            assert!((mean - 0.5).abs() < 0.02, "{mean}: six sigma is 0.017");
            let same = (0..10_000).filter(|&place| other.at(place) == places[place as usize]);
            assert!(same.count() < 10);
        }
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
