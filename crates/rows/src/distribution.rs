//! Which id an event touches.

use std::str::FromStr;

use crate::Random;

/// A distribution of ids, under sysbench's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// sysbench 1.0's default: 75 % of the draws fall into 0.75 % of the range, in its middle.
    Special,
    /// Every id alike; the default of sysbench 1.1.
    Uniform,
}

/// sysbench's --rand-spec-iter.
const SPECIAL_ITERATIONS: u32 = 12;
/// sysbench's --rand-spec-pct, as a share of the range.
const SPECIAL_SHARE: f64 = 0.01;
/// 100 / (100 - sysbench's --rand-spec-res): the inverse of the share of bell-shaped draws.
const SPECIAL_WIDENING: f64 = 4.0;

impl FromStr for Distribution {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "special" => Ok(Self::Special),
            "uniform" => Ok(Self::Uniform),
            _ => Err(()),
        }
    }
}

impl Distribution {
    /// Draws from `low..=high`; `low <= high`.
    #[inline]
    pub fn draw(self, random: &mut Random, low: u32, high: u32) -> u32 {
        debug_assert!(low <= high);
        match self {
            Self::Special => special(random, low, high),
            Self::Uniform => low + random.below(u64::from(high - low) + 1) as u32,
        }
    }
}

/// sysbench 1.0.20, src/sb_rand.c, `sb_rand_special`, with iter 12, pct 1, res 75. One draw decides
/// between the two parts *and* places the value in the second: so the hot part is 0.75 % of the
/// range, not 1 %.
#[inline]
fn special(random: &mut Random, low: u32, high: u32) -> u32 {
    let span = f64::from(high - low);
    let draw = random.unit();
    if draw * span * SPECIAL_WIDENING < span {
        let sum: f64 = (0..SPECIAL_ITERATIONS).map(|_| random.unit()).sum();
        return (f64::from(low) + sum * span / f64::from(SPECIAL_ITERATIONS)) as u32;
    }
    let offset = draw * (span * SPECIAL_SHARE + 1.0) + span / 2.0 - span * SPECIAL_SHARE / 2.0;
    // sysbench computes this without a bound; it exceeds `high` for none but tiny ranges.
    (low + offset as u32).min(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;

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
        let counts = histogram(Distribution::Special, 1, 10_000);
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
        let counts = histogram(Distribution::Special, 1, 10_000);
        let below_one_sigma = share(&counts[..(5000 - 833)]);
        assert!(
            (below_one_sigma - 0.25 * 0.1587).abs() < 0.003,
            "{below_one_sigma}"
        );
        assert_eq!(share(&counts[..500]) + share(&counts[9500..]), 0.0);
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
    fn a_range_of_one_id_yields_it() {
        let mut random = Random::new(4);
        for distribution in [Distribution::Special, Distribution::Uniform] {
            for _ in 0..1000 {
                assert_eq!(distribution.draw(&mut random, 7, 7), 7);
            }
        }
    }

    #[test]
    fn every_draw_is_in_its_range() {
        let mut random = Random::new(5);
        for high in [2, 3, 10, 99, 100, 101, u32::MAX] {
            for distribution in [Distribution::Special, Distribution::Uniform] {
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
}
