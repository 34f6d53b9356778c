//! Opens connections as a load needs them.

use std::sync::Arc;

use crate::connection::Connection;
use crate::spec::LoadSpec;
use crate::transaction::Commit;
use crate::{Cutoff, Error};

/// Opens connections as a load needs them.
pub(crate) struct Dialer {
    pub spec: LoadSpec,
    pub cutoff: Arc<Cutoff>,
}

impl Dialer {
    /// A connection that is logged in and in the right commit mode.
    pub fn open(&self) -> Result<Connection, Error> {
        let spec = &self.spec;
        let mut connection =
            Connection::open(&spec.endpoint, &spec.address, Some(&spec.database), &self.cutoff)?;
        if spec.commit != Commit::Auto {
            connection.query("SET autocommit=0")?;
        }
        Ok(connection)
    }
}
