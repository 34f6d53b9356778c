//! What one event does. One workload, one file, one arm in each `match` of [`Kind`].

mod update_non_index;
mod upsert;

use flushlab_rows::Random;

pub(crate) use upsert::{Key, NewKeys, Upsert};

use crate::connection::Connection;
use crate::spec::LoadSpec;
use crate::Error;

/// What an event that succeeded did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effect {
    /// What it adds to the figure: one transaction, or a number of rows.
    pub amount: u64,
    /// Rows among them that were there already.
    pub updated: u64,
}

impl Effect {
    pub const TRANSACTION: Self = Self {
        amount: 1,
        updated: 0,
    };
}

/// A workload on one connection.
pub(crate) trait Workload: Send {
    /// Runs one event.
    fn event(&mut self, connection: &mut Connection, random: &mut Random) -> Result<Effect, Error>;
}

/// Where a connection stands among all of a load's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// From 0.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

/// A workload's name, with the options that are its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    UpdateNonIndex,
    Upsert(Upsert),
}

impl Kind {
    /// All names, for messages.
    pub const NAMES: [&str; 2] = ["oltp_update_non_index", "upsert"];

    /// What an event adds to the figure.
    pub fn amount(self) -> u32 {
        match self {
            Self::UpdateNonIndex => 1,
            Self::Upsert(upsert) => upsert.rows,
        }
    }

    /// Whether the figure counts rows instead of transactions.
    pub fn counts_rows(self) -> bool {
        matches!(self, Self::Upsert(_))
    }

    /// Prepares the workload's statements on a connection.
    pub fn open(
        self,
        connection: &mut Connection,
        spec: &LoadSpec,
        place: Place,
        new_keys: &NewKeys,
    ) -> Result<Box<dyn Workload>, Error> {
        Ok(match self {
            Self::UpdateNonIndex => Box::new(update_non_index::UpdateNonIndex::open(connection, spec)?),
            Self::Upsert(upsert) => {
                Box::new(upsert::Upserts::open(connection, spec, upsert, place, new_keys)?)
            }
        })
    }
}
