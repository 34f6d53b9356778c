//! What one event does. One workload, one file, one line in [`Kind`]'s table.

mod update_non_index;

use flushlab_rows::Random;

use crate::connection::Connection;
use crate::spec::LoadSpec;
use crate::Error;

/// A workload on one connection.
pub(crate) trait Workload: Send {
    /// Runs one event.
    fn event(&mut self, connection: &mut Connection, random: &mut Random) -> Result<(), Error>;
}

/// A workload's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    UpdateNonIndex,
}

const NAMES: [(&str, Kind); 1] = [("oltp_update_non_index", Kind::UpdateNonIndex)];

/// All names, for messages.
pub(crate) fn names() -> String {
    NAMES.map(|(name, _)| name).join(", ")
}

impl Kind {
    pub fn named(name: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, kind)| kind)
    }

    /// Prepares the workload's statements on a connection.
    pub fn open(self, connection: &mut Connection, spec: &LoadSpec) -> Result<Box<dyn Workload>, Error> {
        match self {
            Self::UpdateNonIndex => Ok(Box::new(update_non_index::UpdateNonIndex::open(
                connection, spec,
            )?)),
        }
    }
}
