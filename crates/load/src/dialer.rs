//! Opens connections as a load needs them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::connection::Connection;
use crate::reconnect::is_loss;
use crate::spec::LoadSpec;
use crate::transaction::Commit;
use crate::{Cutoff, Error};

/// Opens connections as a load needs them, to one server or to the nodes of a cluster.
pub(crate) struct Dialer {
    pub spec: LoadSpec,
    pub cutoff: Arc<Cutoff>,
    /// Where the next connection goes, if they are spread.
    next: AtomicUsize,
}

impl Dialer {
    pub fn new(spec: LoadSpec, cutoff: Arc<Cutoff>) -> Self {
        Self {
            spec,
            cutoff,
            next: AtomicUsize::new(0),
        }
    }

    /// A connection that is logged in and in the right commit mode: to the first node that takes it, from the
    /// next one on if connections are spread.
    pub fn open(&self) -> Result<Connection, Error> {
        let nodes = &self.spec.nodes;
        let first = if nodes.spread {
            self.next.fetch_add(1, Ordering::Relaxed)
        } else {
            0
        };
        let mut number = 0;
        loop {
            match self.open_to((first + number) % nodes.len()) {
                Err(error) if number + 1 < nodes.len() && is_loss(&error) => number += 1,
                opened => return opened,
            }
        }
    }

    fn open_to(&self, number: usize) -> Result<Connection, Error> {
        let spec = &self.spec;
        let mut connection = spec.nodes.connect(number, Some(&spec.database), &self.cutoff)?;
        if spec.commit != Commit::Auto {
            connection.query("SET autocommit=0")?;
        }
        Ok(connection)
    }
}
