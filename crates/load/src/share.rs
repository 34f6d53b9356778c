//! The part of a load that one of several load generators drives.

use serde::Deserialize;

use crate::Error;

/// Most load generators of one load.
const MAX_GENERATORS: u32 = 1000;

/// Which part of a load it is (`flushlab.record.ShareSpec`): all of it, if nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Share {
    /// Which load generator, from 0.
    pub generator: u32,
    /// How many there are.
    pub generators: u32,
    /// The number of its first connection among those of the whole load, from 0.
    pub first_connection: u32,
    /// Connections of the whole load.
    pub connections: u32,
}

impl Share {
    /// All of a load with so many connections.
    pub fn whole(connections: u32) -> Self {
        Self {
            generator: 0,
            generators: 1,
            first_connection: 0,
            connections,
        }
    }

    /// A part with so many connections, if it can be one.
    pub fn checked(self, connections: u32) -> Result<Self, Error> {
        let last = self.first_connection.checked_add(connections);
        let fits = last.is_some_and(|last| last <= self.connections);
        if (1..=MAX_GENERATORS).contains(&self.generators) && self.generator < self.generators && fits {
            return Ok(self);
        }
        Err(Error::usage(
            "share: generator is below generators, and its connections are among those of the whole load",
        ))
    }

    /// Its connections as a share of all of them.
    pub fn of_connections(self, connections: u32) -> f64 {
        f64::from(connections) / f64::from(self.connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_lies_within_the_whole_load() {
        let second = Share {
            generator: 1,
            generators: 2,
            first_connection: 5,
            connections: 9,
        };
        assert_eq!(second.checked(4), Ok(second));
        assert!(second.checked(5).is_err());
        assert!(Share {
            generator: 2,
            ..second
        }
        .checked(4)
        .is_err());
        assert!(Share {
            first_connection: u32::MAX,
            ..second
        }
        .checked(4)
        .is_err());
        assert!(Share {
            generators: 0,
            ..second
        }
        .checked(4)
        .is_err());
    }
}
