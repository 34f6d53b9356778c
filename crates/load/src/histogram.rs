//! Latencies as an HDR histogram: of nanoseconds, with three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longer latencies count as this; a read times out before.
const MAX_LATENCY: Duration = Duration::from_secs(120);
/// Significant digits of a histogram.
const DIGITS: u8 = 3;

/// Latencies in nanoseconds.
pub(crate) type Latencies = Histogram<u32>;

/// An empty histogram.
pub(crate) fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, MAX_LATENCY.as_nanos() as u64, DIGITS)
        .expect("the bounds are constants that hdrhistogram takes")
}

/// Counts a latency.
#[inline]
pub(crate) fn record(latencies: &mut Latencies, took: Duration) {
    latencies.saturating_record(took.as_nanos() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_keep_three_digits() {
        let mut some = latencies();
        record(&mut some, Duration::from_nanos(123_456_789));
        let read = some.value_at_quantile(0.5) as f64;
        assert!((read / 123_456_789.0 - 1.0).abs() < 0.001);
    }
}
