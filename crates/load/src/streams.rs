//! Which random numbers are for what: every use has a stream of its own.

use flushlab_rows::Random;

/// What draws random numbers in a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The gaps of a Poisson process, of the load generator with that number, from 0.
    Arrivals(u32),
    /// The events of the connection with that number, from 0.
    Connection(u32),
    /// The rows of the table with that number, from 1.
    Table(u32),
}

impl Stream {
    /// Its generator under that seed.
    pub fn random(self, seed: u64) -> Random {
        let (kind, number) = match self {
            Self::Arrivals(number) => (0, number),
            Self::Connection(number) => (1, number),
            Self::Table(number) => (2, number),
        };
        Random::stream(seed, kind << 32 | u64::from(number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use flushlab_rows::Bits;

    use super::*;

    #[test]
    fn no_two_uses_draw_the_same_numbers() {
        let connections = (0..1000).map(Stream::Connection);
        let tables = (1..1000).map(Stream::Table);
        let arrivals = (0..10).map(Stream::Arrivals);
        let all: Vec<_> = connections.chain(tables).chain(arrivals).collect();
        let first: HashSet<u64> = all.iter().map(|stream| stream.random(7).bits()).collect();
        assert_eq!(first.len(), all.len());
        // The next run's first connection is not this one's second.
        let next: HashSet<u64> = all.iter().map(|stream| stream.random(8).bits()).collect();
        assert!(first.is_disjoint(&next));
    }
}
