//! Opens connections as a load needs them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::connection::Connection;
use crate::error::is_passing;
use crate::spec::LoadSpec;
use crate::transaction::Commit;
use crate::{Cancellation, Error, ErrorKind};

/// Opens connections as a load needs them, to one server or to the nodes of a cluster.
pub(crate) struct Dialer {
    pub spec: LoadSpec,
    pub cancellation: Arc<Cancellation>,
    /// Where the next connection goes, if they are spread.
    next: AtomicUsize,
}

impl Dialer {
    pub fn new(spec: LoadSpec, cancellation: Arc<Cancellation>) -> Self {
        Self {
            spec,
            cancellation,
            next: AtomicUsize::new(0),
        }
    }

    /// A connection that is logged in and in the right commit mode: to the first node that takes it, from the
    /// next one on if connections are spread.
    pub fn open(&self) -> Result<Connection, Error> {
        self.open_within(Duration::MAX)
    }

    /// The same, but no node may take longer than `limit` to let us in.
    pub fn open_within(&self, limit: Duration) -> Result<Connection, Error> {
        let nodes = &self.spec.nodes;
        let first = if nodes.spread {
            self.next.fetch_add(1, Ordering::Relaxed)
        } else {
            0
        };
        let mut number = 0;
        loop {
            match self.open_to((first + number) % nodes.len(), limit) {
                Err(error) if number + 1 < nodes.len() && is_loss(&error) => number += 1,
                opened => return opened,
            }
        }
    }

    fn open_to(&self, number: usize, limit: Duration) -> Result<Connection, Error> {
        let spec = &self.spec;
        let mut connection =
            spec.nodes
                .connect_within(limit, number, Some(&spec.database), &self.cancellation)?;
        connection.follow_limits()?;
        if spec.commit != Commit::Auto {
            connection.query("SET autocommit=0")?;
        }
        if spec.nodes.len() > 1 {
            connection.query("DO 0")?; // a node without a quorum answers SET and SHOW, and nothing else (1047)
        }
        Ok(connection)
    }
}

/// Whether only the connection is gone.
pub(crate) fn is_loss(error: &Error) -> bool {
    error.kind == ErrorKind::Server && error.errno.is_none_or(is_passing)
}
