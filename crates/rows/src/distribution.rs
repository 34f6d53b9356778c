//! Which number of a range an event touches: sysbench's distributions under its names.

mod zipfian;

use crate::Bits;
pub use zipfian::Zipfian;

/// A distribution over ranges of whole numbers, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Every number alike; the default of sysbench 1.1.
    Uniform,
    /// A bell around the middle.
    Gaussian(Gaussian),
    /// sysbench 1.0's default: most draws fall into a small part of the range, in its middle.
    Special(Special),
    /// Few numbers at the range's beginning get most of the draws.
    Pareto(Pareto),
    /// The n-th number gets a share in proportion to 1/n^exponent.
    Zipfian(Zipfian),
}

impl Distribution {
    /// sysbench 1.0's default.
    pub const SPECIAL: Self = Self::Special(Special::new(12, 1, 75));

    /// Draws from `low..=high`; `low <= high`.
    #[inline]
    pub fn draw(&self, random: &mut impl Bits, low: u32, high: u32) -> u32 {
        debug_assert!(low <= high);
        low + self.offset(random, u64::from(high - low)) as u32
    }

    /// Draws from `0..=span`; a span of 2^53 or more is drawn with 53 bits.
    #[inline]
    pub fn offset(&self, random: &mut impl Bits, span: u64) -> u64 {
        match self {
            Self::Uniform => match span.checked_add(1) {
                Some(count) => random.below(count),
                None => random.bits(),
            },
            Self::Gaussian(gaussian) => gaussian.offset(random, span),
            Self::Special(special) => special.offset(random, span),
            Self::Pareto(pareto) => pareto.offset(random, span),
            Self::Zipfian(zipfian) => zipfian.offset(random, span),
        }
    }
}

/// The mean of a number of uniform draws (sysbench 1.0.20, src/sb_rand.c, `sb_rand_gaussian`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gaussian {
    iterations: u32,
}

impl Gaussian {
    /// `iterations` is sysbench's --rand-spec-iter, at least 1.
    pub const fn new(iterations: u32) -> Self {
        assert!(iterations > 0);
        Self { iterations }
    }

    #[inline]
    fn offset(&self, random: &mut impl Bits, span: u64) -> u64 {
        let mean = sum_of_units(random, self.iterations) / f64::from(self.iterations);
        ((mean * (span as f64 + 1.0)) as u64).min(span)
    }
}

/// A share of the draws goes to a small part in the middle, the rest makes a bell (sysbench 1.0.20,
/// src/sb_rand.c, `sb_rand_special`).
///
/// One draw decides between the two parts *and* places the number in the small one: so with the defaults 75 %
/// of the draws hit 0.75 % of the range, not 1 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Special {
    iterations: u32,
    /// The small part as a share of the range.
    part: f64,
    /// The inverse of the share of the bell.
    widening: f64,
}

impl Special {
    /// sysbench's --rand-spec-iter (at least 1), --rand-spec-pct and --rand-spec-res (0 to 100 each).
    pub const fn new(iterations: u32, percent: u32, share: u32) -> Self {
        assert!(iterations > 0 && percent <= 100 && share <= 100);
        Self {
            iterations,
            part: percent as f64 / 100.0,
            widening: 100.0 / (100 - share) as f64,
        }
    }

    #[inline]
    fn offset(&self, random: &mut impl Bits, span: u64) -> u64 {
        let range = span as f64;
        let draw = random.unit();
        if draw * range * self.widening < range {
            let mean = sum_of_units(random, self.iterations) / f64::from(self.iterations);
            return (mean * range) as u64;
        }
        let part = range * self.part;
        let offset = draw * (part + 1.0) + range / 2.0 - part / 2.0;
        // sysbench computes this without a bound; it exceeds the range for none but tiny ones.
        (offset as u64).min(span)
    }
}

/// sysbench 1.0.20, src/sb_rand.c, `sb_rand_pareto`: with h = 0.2, 80 % of the draws hit the first 20 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pareto {
    power: f64,
}

impl Pareto {
    /// `h` is sysbench's --rand-pareto-h, between 0 and 1 (both excluded).
    pub fn new(h: f64) -> Self {
        assert!(h > 0.0 && h < 1.0);
        Self {
            power: h.ln() / (1.0 - h).ln(),
        }
    }

    #[inline]
    fn offset(&self, random: &mut impl Bits, span: u64) -> u64 {
        (((span as f64 + 1.0) * random.unit().powf(self.power)) as u64).min(span)
    }
}

#[inline]
fn sum_of_units(random: &mut impl Bits, count: u32) -> f64 {
    (0..count).map(|_| random.unit()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    const DRAWS: usize = 400_000;

    fn all() -> [Distribution; 5] {
        [
            Distribution::Uniform,
            Distribution::Gaussian(Gaussian::new(12)),
            Distribution::SPECIAL,
            Distribution::Pareto(Pareto::new(0.2)),
            Distribution::Zipfian(Zipfian::new(0.8)),
        ]
    }

    fn histogram(distribution: Distribution, low: u32, high: u32) -> Vec<u32> {
        let mut counts = vec![0; (high - low + 1) as usize];
        let mut random = Random::new(3);
        for _ in 0..DRAWS {
            counts[(distribution.draw(&mut random, low, high) - low) as usize] += 1;
        }
        counts
    }

    fn share(counts: &[u32]) -> f64 {
        f64::from(counts.iter().sum::<u32>()) / DRAWS as f64
    }

    #[test]
    fn special_sends_three_quarters_of_the_draws_to_three_quarters_of_a_percent() {
        // Of 1..=10000 (t = 9999) the hot part is floor(r x 100.99 + 4949.505) for r in [0.25, 1):
        // offsets 4974..=5050, 77 ids (the bell adds its 0.25 x 77 x its density there).
        let counts = histogram(Distribution::SPECIAL, 1, 10_000);
        let hot = share(&counts[4974..=5050]);
        let bell = 0.25 * 77.0 / 9999.0 * 12.0 / (2.0 * std::f64::consts::PI).sqrt();
        assert!(
            (hot - 0.75 - bell).abs() < 0.004,
            "hot {hot}, due {}",
            0.75 + bell
        );
        assert!(counts[4960] < counts[5000] / 20, "the hot part begins at 4974");
    }

    #[test]
    fn specials_bell_is_the_mean_of_twelve_uniforms() {
        // Outside the hot part: mean 1/2, sigma 1/12 of the range (each uniform has 1/sqrt(12)).
        let counts = histogram(Distribution::SPECIAL, 1, 10_000);
        let below_one_sigma = share(&counts[..(5000 - 833)]);
        assert!(
            (below_one_sigma - 0.25 * 0.1587).abs() < 0.003,
            "{below_one_sigma}"
        );
        assert_eq!(share(&counts[..500]) + share(&counts[9500..]), 0.0);
    }

    #[test]
    fn special_without_a_bell_or_without_a_small_part_is_defined() {
        let all_hot = histogram(Distribution::Special(Special::new(12, 10, 100)), 1, 1000);
        assert_eq!(share(&all_hot[..449]) + share(&all_hot[551..]), 0.0);
        let all_bell = histogram(Distribution::Special(Special::new(12, 10, 0)), 1, 1000);
        assert!((share(&all_bell[..(500 - 83)]) - 0.1587).abs() < 0.005);
    }

    #[test]
    fn uniform_treats_every_id_alike() {
        let counts = histogram(Distribution::Uniform, 5, 104);
        // n = 400,000, p = 0.01: sigma = 63; six sigma is 378.
        for (offset, &seen) in counts.iter().enumerate() {
            assert!(seen.abs_diff(4000) < 378, "{}: {seen}", offset + 5);
        }
    }

    #[test]
    fn pareto_sends_four_fifths_of_the_draws_to_the_first_fifth() {
        let counts = histogram(Distribution::Pareto(Pareto::new(0.2)), 1, 1000);
        assert!((share(&counts[..200]) - 0.8).abs() < 0.004);
        assert!((share(&counts[..40]) - 0.64).abs() < 0.005, "and so on within it");
    }

    #[test]
    fn a_range_of_one_id_yields_it() {
        let mut random = Random::new(4);
        for distribution in all() {
            for _ in 0..1000 {
                assert_eq!(distribution.draw(&mut random, 7, 7), 7);
            }
        }
    }

    #[test]
    fn every_draw_is_in_its_range() {
        let mut random = Random::new(5);
        for high in [2, 3, 10, 99, 100, 101, u32::MAX] {
            for distribution in all() {
                for _ in 0..5000 {
                    let id = distribution.draw(&mut random, 1, high);
                    assert!(
                        (1..=high).contains(&id),
                        "{distribution:?} drew {id} of 1..={high}"
                    );
                }
            }
        }
    }

    #[test]
    fn spans_as_wide_as_a_bigint_are_drawn() {
        let mut random = Random::new(6);
        for distribution in all() {
            for span in [1 << 53, u64::MAX >> 1, u64::MAX] {
                let largest = (0..1000).map(|_| distribution.offset(&mut random, span)).max();
                assert!(largest.is_some_and(|largest| largest <= span));
            }
        }
        assert!((0..100).any(|_| Distribution::Uniform.offset(&mut random, u64::MAX) > u64::MAX >> 1));
    }
}
