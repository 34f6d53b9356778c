//! Which of the values that a generator can give a row has, as a number from 0.

use flushlab_rows::distribution::{Distribution, Gaussian, Pareto, Zipfian};
use flushlab_rows::unique::Permutation;
use flushlab_rows::Bits;
use serde::Deserialize;

use crate::Error;

/// JSON of a distribution.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum JsonDistribution {
    /// Every number alike.
    Uniform {},
    /// sysbench 1.0's default.
    Special {},
    /// sysbench's bell: the mean of twelve uniform draws.
    Gaussian {},
    /// The first `h` of the numbers get 1 - `h` of the draws.
    Pareto { h: f64 },
    /// The n-th number gets a share in proportion to 1/n^exponent.
    Zipf { exponent: f64 },
    /// A normal distribution, cut off at the ends; in units of the numbers.
    Normal { mean: f64, sd: f64 },
    /// From the first to the last with the row's number.
    Ascending {},
}

impl Default for JsonDistribution {
    fn default() -> Self {
        Self::Uniform {}
    }
}

/// Draws from `0..=span`.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    span: u64,
    law: Law,
}

#[derive(Debug, Clone)]
enum Law {
    Drawn(Distribution),
    Normal(Normal),
    Ascending {
        rows: u64,
    },
    /// Each number once, or as one of several columns whose numbers together are unique: the n-th of all their
    /// combinations, of which this column's number is `(n / divisor) % (span + 1)`.
    Unique {
        order: Permutation,
        divisor: u64,
    },
}

impl Index {
    /// By a distribution; `low` is the value of number 0, for what is given in values.
    pub fn drawn(span: u64, low: f64, rows: u64, distribution: JsonDistribution) -> Result<Self, Error> {
        let law = match distribution {
            JsonDistribution::Uniform {} => Law::Drawn(Distribution::Uniform),
            JsonDistribution::Special {} => Law::Drawn(Distribution::SPECIAL),
            JsonDistribution::Gaussian {} => Law::Drawn(Distribution::Gaussian(Gaussian::new(12))),
            JsonDistribution::Pareto { h } if h > 0.0 && h < 1.0 => {
                Law::Drawn(Distribution::Pareto(Pareto::new(h)))
            }
            JsonDistribution::Zipf { exponent } if (0.0..=30.0).contains(&exponent) => {
                Law::Drawn(Distribution::Zipfian(Zipfian::new(exponent)))
            }
            JsonDistribution::Normal { mean, sd } if sd > 0.0 && mean.is_finite() && sd.is_finite() => {
                Law::Normal(Normal::new(mean - low, sd, span))
            }
            JsonDistribution::Ascending {} => Law::Ascending { rows },
            wrong => return Err(Error::new(format!("{wrong:?} is out of range"))),
        };
        Ok(Self { span, law })
    }

    /// Each number once.
    pub fn unique(span: u64, key: u64) -> Self {
        Self::combined(span, key, span.saturating_add(1), 1)
    }

    /// One of several columns whose numbers together come once.
    pub fn combined(span: u64, key: u64, combinations: u64, divisor: u64) -> Self {
        let order = Permutation::new(key, combinations);
        Self {
            span,
            law: Law::Unique { order, divisor },
        }
    }

    /// The largest number.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// The number of a row.
    #[inline]
    pub fn of(&self, row: u64, draw: &mut impl Bits) -> u64 {
        match &self.law {
            Law::Drawn(distribution) => distribution.offset(draw, self.span),
            Law::Normal(normal) => normal.of(draw, self.span),
            Law::Ascending { rows } => {
                let place = u128::from(row.min(rows.saturating_sub(1)));
                (place * u128::from(self.span) / u128::from(rows.saturating_sub(1).max(1))) as u64
            }
            Law::Unique { order, divisor } => {
                let number = order.at(row) / divisor;
                self.span.checked_add(1).map_or(number, |count| number % count)
            }
        }
    }
}

/// A normal distribution between two bounds, by the inverse of its cumulative function: one draw a value, and no
/// heaps at the bounds.
#[derive(Debug, Clone, Copy)]
struct Normal {
    mean: f64,
    sd: f64,
    /// Of the distribution without bounds, the share below the lower one, and the share between the two.
    below: f64,
    between: f64,
}

impl Normal {
    fn new(mean: f64, sd: f64, span: u64) -> Self {
        let below = cumulative((-0.5 - mean) / sd);
        Self {
            mean,
            sd,
            below,
            between: cumulative((span as f64 + 0.5 - mean) / sd) - below,
        }
    }

    #[inline]
    fn of(&self, draw: &mut impl Bits, span: u64) -> u64 {
        let share = self.below + draw.unit() * self.between;
        let number = (self.mean + self.sd * inverse(share.clamp(1e-300, 1.0 - 1e-16))).round();
        (number.max(0.0) as u64).min(span)
    }
}

/// The standard normal distribution's cumulative function.
fn cumulative(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Its inverse, to 1.15e-9 (Peter Acklam, "An algorithm for computing the inverse normal cumulative distribution
/// function", 2003).
#[inline]
fn inverse(share: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.383_577_518_672_69e2,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 5] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 4] = [
        7.784695709041462e-03,
        3.224671290700398e-01,
        2.445134137142996e+00,
        3.754408661907416e+00,
    ];
    const TAIL: f64 = 0.02425;
    fn polynomial(of: &[f64], x: f64) -> f64 {
        of.iter().fold(0.0, |sum, factor| sum * x + factor)
    }
    let tail = |q: f64| polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    if share < TAIL {
        tail((-2.0 * libm::log(share)).sqrt())
    } else if share > 1.0 - TAIL {
        -tail((-2.0 * libm::log(1.0 - share)).sqrt())
    } else {
        let q = share - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{key, Draw};

    const ROWS: u64 = 200_000;

    fn numbers(index: &Index) -> Vec<f64> {
        (0..ROWS)
            .map(|row| index.of(row, &mut Draw::new(key(1, "t", "c"), row)) as f64)
            .collect()
    }

    fn moments(numbers: &[f64]) -> (f64, f64) {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }

    fn drawn(span: u64, distribution: JsonDistribution) -> Index {
        Index::drawn(span, 0.0, ROWS, distribution).unwrap()
    }

    #[test]
    fn a_normal_distribution_has_its_moments() {
        let normal = JsonDistribution::Normal {
            mean: 5000.0,
            sd: 300.0,
        };
        let (mean, sd) = moments(&numbers(&drawn(9999, normal)));
        // sigma of the mean: 300 / sqrt(200,000) = 0.67; of the deviation 0.47.
        assert!((mean - 5000.0).abs() < 4.0, "{mean}");
        assert!((sd - 300.0).abs() < 3.0, "{sd}");
    }

    #[test]
    fn a_normal_distribution_that_is_cut_off_has_no_heap_at_its_bound() {
        let normal = JsonDistribution::Normal { mean: 0.0, sd: 100.0 };
        let numbers = numbers(&drawn(10_000, normal));
        let (mean, _) = moments(&numbers);
        assert!(
            (mean - 100.0 * (2.0 / std::f64::consts::PI).sqrt()).abs() < 1.0,
            "{mean}: half a bell"
        );
        let at_zero = numbers.iter().filter(|&&number| number == 0.0).count() as f64;
        let at_one = numbers.iter().filter(|&&number| number == 1.0).count() as f64;
        assert!(
            (at_zero / at_one - 1.0).abs() < 0.2,
            "{at_zero} zeros, {at_one} ones"
        );
    }

    #[test]
    fn the_inverse_undoes_the_cumulative_function() {
        for x in [-7.0, -3.0, -1.0, -0.01, 0.0, 0.5, 2.0, 5.0] {
            assert!((inverse(cumulative(x)) - x).abs() < 1e-6, "{x}");
        }
    }

    #[test]
    fn uniform_numbers_have_their_moments() {
        let (mean, sd) = moments(&numbers(&drawn(999, JsonDistribution::Uniform {})));
        assert!((mean - 499.5).abs() < 4.0, "{mean}: six sigma is 3.9");
        assert!((sd - 1000.0 / 12f64.sqrt()).abs() < 2.0, "{sd}");
    }

    #[test]
    fn pareto_and_zipf_have_their_shares() {
        let share = |numbers: &[f64], below: f64| {
            numbers.iter().filter(|&&number| number < below).count() as f64 / ROWS as f64
        };
        let pareto = numbers(&drawn(999, JsonDistribution::Pareto { h: 0.2 }));
        assert!((share(&pareto, 200.0) - 0.8).abs() < 0.006);
        let zipf = numbers(&drawn(99, JsonDistribution::Zipf { exponent: 1.0 }));
        let harmonic: f64 = (1..=100).map(|n| 1.0 / f64::from(n)).sum();
        assert!((share(&zipf, 1.0) - 1.0 / harmonic).abs() < 0.006);
    }

    #[test]
    fn ascending_numbers_go_from_the_first_to_the_last() {
        let numbers = numbers(&drawn(1_000_000_000_000, JsonDistribution::Ascending {}));
        assert_eq!((numbers[0], numbers[ROWS as usize - 1]), (0.0, 1e12));
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        let one = Index::drawn(5, 0.0, 1, JsonDistribution::Ascending {}).unwrap();
        assert_eq!(one.of(0, &mut Draw::new(1, 0)), 0);
    }

    #[test]
    fn several_columns_are_unique_together() {
        let (first, second) = (
            Index::combined(6, 9, 7 * 11, 1),
            Index::combined(10, 9, 7 * 11, 7),
        );
        let mut draw = Draw::new(0, 0);
        let mut pairs: Vec<_> = (0..77)
            .map(|row| (first.of(row, &mut draw), second.of(row, &mut draw)))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 77);
        assert!(pairs.iter().all(|&(one, other)| one < 7 && other < 11));
    }
}
