//! Our draws against sysbench's own: histograms that `sysbench/record.sh` recorded with sysbench 1.0.20,
//! compared by a two-sample chi-square; Zipf's law, which 1.0.20 lacks, against its closed form.

use flushlab_rows::distribution::{Distribution, Gaussian, Pareto, Special, Zipfian};
use flushlab_rows::Random;

/// As many as recorded.
const RECORDED: f64 = 1e6;
const DRAWS: u32 = 250_000;
const NUMBERS: usize = 1000;
/// Cells with fewer draws are joined, so that chi-square holds.
const FEWEST: f64 = 20.0;
/// How far chi-square may be above its mean, in standard deviations: it is exceeded once in a hundred
/// thousand seeds, and the seed is fixed.
const SIGMAS: f64 = 4.5;

fn draws(distribution: Distribution) -> Vec<f64> {
    let mut random = Random::new(11);
    let mut counts = vec![0.0; NUMBERS];
    for _ in 0..DRAWS {
        counts[distribution.draw(&mut random, 1, NUMBERS as u32) as usize - 1] += 1.0;
    }
    counts
}

fn recorded(file: &str) -> Vec<f64> {
    let counts: Vec<f64> = file.lines().map(|line| line.parse().expect("a count")).collect();
    assert_eq!(counts.len(), NUMBERS);
    assert_eq!(counts.iter().sum::<f64>(), RECORDED);
    counts
}

/// Neighbouring cells joined until each has enough in both.
fn joined(ours: &[f64], theirs: &[f64]) -> Vec<(f64, f64)> {
    let mut cells = vec![(0.0, 0.0)];
    for (&one, &other) in ours.iter().zip(theirs) {
        let last = cells.last_mut().expect("never empty");
        *last = (last.0 + one, last.1 + other);
        if last.0 >= FEWEST && last.1 >= FEWEST {
            cells.push((0.0, 0.0));
        }
    }
    let rest = cells.pop().expect("never empty");
    let last = cells.last_mut().expect("the draws fill a cell");
    *last = (last.0 + rest.0, last.1 + rest.1);
    cells
}

/// Chi-square's distance from its mean in standard deviations.
fn distance(ours: &[f64], theirs: &[f64]) -> f64 {
    let cells = joined(ours, theirs);
    let scale = (RECORDED / f64::from(DRAWS)).sqrt();
    let chi_square: f64 = cells
        .iter()
        .map(|(a, b)| (a * scale - b / scale).powi(2) / (a + b))
        .sum();
    let freedom = cells.len() as f64 - 1.0;
    (chi_square - freedom) / (2.0 * freedom).sqrt()
}

/// The same against expected counts.
fn distance_from_law(ours: &[f64], law: &[f64]) -> f64 {
    let cells = joined(ours, law);
    let chi_square: f64 = cells.iter().map(|(a, b)| (a - b).powi(2) / b).sum();
    let freedom = cells.len() as f64 - 1.0;
    (chi_square - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn every_distribution_draws_as_sysbench_does() {
    for (distribution, file) in [
        (Distribution::Uniform, include_str!("sysbench/uniform.txt")),
        (Distribution::SPECIAL, include_str!("sysbench/special.txt")),
        (
            Distribution::Special(Special::new(3, 20, 50)),
            include_str!("sysbench/special_wide.txt"),
        ),
        (
            Distribution::Gaussian(Gaussian::new(12)),
            include_str!("sysbench/gaussian.txt"),
        ),
        (
            Distribution::Gaussian(Gaussian::new(3)),
            include_str!("sysbench/gaussian_few.txt"),
        ),
        (
            Distribution::Pareto(Pareto::new(0.2)),
            include_str!("sysbench/pareto.txt"),
        ),
        (
            Distribution::Pareto(Pareto::new(0.1)),
            include_str!("sysbench/pareto_steep.txt"),
        ),
    ] {
        let sigmas = distance(&draws(distribution), &recorded(file));
        assert!(sigmas < SIGMAS, "{distribution:?}: {sigmas} sigmas");
    }
}

#[test]
fn parameters_that_differ_a_little_are_told_apart() {
    for (distribution, file) in [
        (
            Distribution::Special(Special::new(9, 1, 75)),
            include_str!("sysbench/special.txt"),
        ),
        (
            Distribution::Special(Special::new(12, 1, 72)),
            include_str!("sysbench/special.txt"),
        ),
        (
            Distribution::Pareto(Pareto::new(0.21)),
            include_str!("sysbench/pareto.txt"),
        ),
        (
            Distribution::Gaussian(Gaussian::new(10)),
            include_str!("sysbench/gaussian.txt"),
        ),
    ] {
        let sigmas = distance(&draws(distribution), &recorded(file));
        assert!(sigmas > 2.0 * SIGMAS, "{distribution:?}: {sigmas} sigmas");
    }
}

#[test]
fn zipfian_follows_zipfs_law() {
    for exponent in [0.0, 0.5, 0.8, 1.0, 1.5, 3.0] {
        let weights: Vec<f64> = (1..=NUMBERS).map(|n| (n as f64).powf(-exponent)).collect();
        let whole: f64 = weights.iter().sum();
        let law: Vec<f64> = weights.iter().map(|w| w / whole * f64::from(DRAWS)).collect();
        let ours = draws(Distribution::Zipfian(Zipfian::new(exponent)));
        let sigmas = distance_from_law(&ours, &law);
        assert!(sigmas < SIGMAS, "exponent {exponent}: {sigmas} sigmas");
        let other: Vec<f64> = draws(Distribution::Zipfian(Zipfian::new(exponent + 0.05)));
        let sigmas = distance_from_law(&other, &law);
        assert!(
            sigmas > 2.0 * SIGMAS,
            "exponent {exponent} and a bit: {sigmas} sigmas"
        );
    }
}
