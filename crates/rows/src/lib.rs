//! sysbench's rows and key distributions, without allocation.
//!
//! * [`shape`]: the texts of `c` and `pad`.
//! * [`distribution`]: which id an event touches.
//! * [`unique`]: ids that do not repeat.
//! * [`calendar`] and [`digits`]: dates, numbers and UUIDs as texts.
//! * [`Random`]: one small fast generator per connection; what draws takes any [`Bits`].
//!
//! Promises: the same seed gives the same rows; shapes and distributions are sysbench's, the
//! sequence of numbers is not (sysbench seeds from libc's `random()` and the clock).

#![forbid(unsafe_code)]

pub mod calendar;
pub mod digits;
pub mod distribution;
pub mod shape;
pub mod unique;

use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// Where random numbers come from.
pub trait Bits {
    /// 64 random bits.
    fn bits(&mut self) -> u64;

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..`bound` by multiplication; the bias is below `bound` / 2^64.
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

/// A generator of random numbers: xoshiro256++ (Blackman and Vigna, 2021), seeded through
/// SplitMix64, so that neighbouring seeds give unrelated sequences.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A generator whose sequence `seed` decides.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The generator of one of the streams under a seed. SplitMix64 permutes: streams of one seed begin in
    /// different states, and those of neighbouring seeds have nothing in common.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mixed = SplitMix64::seed_from_u64(seed).next_u64() ^ stream;
        Self::new(SplitMix64::seed_from_u64(mixed).next_u64())
    }
}

impl Bits for Random {
    #[inline]
    fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}
