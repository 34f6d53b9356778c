//! Latencies as an HDR histogram: of nanoseconds, with three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longer latencies count as this, and are counted: an open loop that falls behind has no other bound.
pub(crate) const MAX_LATENCY: Duration = Duration::from_secs(86_400);
/// Significant digits of a histogram.
const DIGITS: u8 = 3;

/// Latencies in nanoseconds.
pub(crate) type Latencies = Histogram<u32>;

/// An empty histogram.
pub(crate) fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, MAX_LATENCY.as_nanos() as u64, DIGITS)
        .expect("the bounds are constants that hdrhistogram takes")
}

/// Latencies of a whole load in microseconds, with two significant digits: for a glance while it runs.
#[derive(Debug)]
pub(crate) struct LiveLatencies {
    histogram: Histogram<u64>,
    sum: Duration,
}

impl LiveLatencies {
    /// None yet.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_LATENCY.as_micros() as u64, 2);
        Self {
            histogram: histogram.expect("the bounds are constants that hdrhistogram takes"),
            sum: Duration::ZERO,
        }
    }

    /// Counts a latency.
    #[inline]
    pub fn record(&mut self, took: Duration) {
        self.histogram.saturating_record((took.as_micros() as u64).max(1));
        self.sum += took;
    }

    /// How many took so many microseconds, ascending; a value stands for those that are alike in two digits.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let recorded = self.histogram.iter_recorded();
        recorded
            .map(|at| (at.value_iterated_to(), at.count_since_last_iteration()))
            .collect()
    }

    /// Of all.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

/// Counts a latency; whether it is longer than what it counts as.
#[inline]
pub(crate) fn record(latencies: &mut Latencies, took: Duration) -> bool {
    let capped = took > MAX_LATENCY;
    latencies.saturating_record(took.min(MAX_LATENCY).as_nanos() as u64);
    capped
}

/// All values of a histogram with how often they came, ascending: what it is made of, to the last count.
fn bins(latencies: &Latencies) -> Vec<(u64, u32)> {
    let recorded = latencies.iter_recorded();
    recorded
        .map(|at| (at.value_iterated_to(), at.count_at_value()))
        .collect()
}

/// Adds the counts of `other`, bin by bin; whether a bin has become too large for its counter.
pub(crate) fn add(latencies: &mut Latencies, other: &Latencies) -> bool {
    let due = latencies.len() + other.len();
    latencies.add(other).expect("all histograms have the same bounds");
    latencies.len() != due || bins(latencies).iter().map(|(_, n)| u64::from(*n)).sum::<u64>() != due
}

/// Histograms as JSON: their bins.
pub(crate) mod as_bins {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{bins, latencies, Latencies};

    type Bins = Vec<(u64, u32)>;

    fn of<E: serde::de::Error>(bins: Bins) -> Result<Latencies, E> {
        let mut some = latencies();
        for (value, count) in bins {
            some.record_n(value, count)
                .map_err(|_| E::custom("a latency that no histogram has"))?;
        }
        Ok(some)
    }

    pub fn serialize<S: Serializer>(some: &Latencies, to: S) -> Result<S::Ok, S::Error> {
        bins(some).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Latencies, D::Error> {
        of(Bins::deserialize(from)?)
    }

    /// Several of them.
    pub mod all {
        use super::*;

        pub fn serialize<'a, S: Serializer>(
            some: impl IntoIterator<Item = &'a Latencies>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            to.collect_seq(some.into_iter().map(bins))
        }

        pub fn deserialize<'de, D: Deserializer<'de>, T: FromIterator<Latencies>>(
            from: D,
        ) -> Result<T, D::Error> {
            Vec::<Bins>::deserialize(from)?.into_iter().map(of).collect()
        }
    }

    /// One, or none.
    pub mod maybe {
        use super::*;

        pub fn serialize<S: Serializer>(some: &Option<Latencies>, to: S) -> Result<S::Ok, S::Error> {
            some.as_ref().map(bins).serialize(to)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Latencies>, D::Error> {
            Option::<Bins>::deserialize(from)?.map(of).transpose()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_has_each_latency_within_two_digits_and_their_sum() {
        let mut some = LiveLatencies::new();
        for us in [0, 90, 91, 1_234_567] {
            some.record(Duration::from_micros(us));
        }
        let counts = some.counts();
        assert_eq!(counts[..3], [(1, 1), (90, 1), (91, 1)]);
        let (longest, once) = counts[3];
        assert!((longest as f64 / 1_234_567.0 - 1.0).abs() < 0.01 && once == 1);
        assert_eq!(some.sum(), Duration::from_micros(1_234_748));
    }

    #[test]
    fn a_latency_of_hours_is_kept_and_one_beyond_a_day_is_capped_and_says_so() {
        let mut some = latencies();
        let hours = Duration::from_secs(3 * 3600);
        assert!(!record(&mut some, hours));
        assert!((some.max() as f64 / hours.as_nanos() as f64 - 1.0).abs() < 0.001);
        assert!(record(&mut some, 10 * MAX_LATENCY));
        assert!((some.max() as f64 / MAX_LATENCY.as_nanos() as f64 - 1.0).abs() < 0.001);
    }

    #[test]
    fn latencies_keep_three_digits() {
        let mut some = latencies();
        record(&mut some, Duration::from_nanos(123_456_789));
        let read = some.value_at_quantile(0.5) as f64;
        assert!((read / 123_456_789.0 - 1.0).abs() < 0.001);
    }
}
