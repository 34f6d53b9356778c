//! All workloads: one arm each.

use std::sync::Arc;

use super::event::{Rank, Workload};
use super::oltp::{Oltp, OltpEvents};
use super::txn::{Txn, TxnEvents};
use super::upsert::{NewKeys, Upsert, Upserts};
use crate::layout::{Layout, TableSet};
use crate::share::Share;
use crate::Error;

/// A workload's name, with the options that are its own.
#[derive(Debug, Clone)]
pub(crate) enum WorkloadKind {
    Oltp(Oltp),
    Txn(Arc<Txn>),
    Upsert(Upsert),
    /// Writes the acknowledgement table only.
    AckedInserts,
}

impl WorkloadKind {
    /// What an event adds to the figure.
    pub fn amount(&self) -> u32 {
        match self {
            Self::Oltp(_) | Self::Txn(_) | Self::AckedInserts => 1,
            Self::Upsert(upsert) => upsert.rows,
        }
    }

    /// Whether the figure counts rows instead of transactions.
    pub fn counts_rows(&self) -> bool {
        matches!(self, Self::Upsert(_))
    }

    /// What its tables look like; none, if they are the user's own.
    pub fn layout(&self) -> Option<Layout> {
        match self {
            Self::Oltp(oltp) => Some(Layout::Sbtest(oltp.table)),
            Self::Upsert(upsert) => Some(Layout::Upsert(upsert.key)),
            Self::Txn(_) | Self::AckedInserts => None,
        }
    }

    /// Keeps the counters that all connections share apart from those of other load generators.
    pub fn divide(&mut self, share: Share) -> Result<(), Error> {
        if share.generators == 1 {
            return Ok(());
        }
        match self {
            Self::Oltp(oltp) if oltp.makes_ids() => Err(Error::usage(
                "oltp_insert with auto_inc=off takes one load generator: its ids are one sequence",
            )),
            Self::Txn(txn) => {
                let txn = Arc::get_mut(txn).expect("no connection has it yet");
                txn.divide(share);
                Ok(())
            }
            Self::Oltp(_) | Self::Upsert(_) | Self::AckedInserts => Ok(()),
        }
    }

    /// The workload of one connection, not prepared yet; none for `AckedInserts`.
    pub fn open(&self, tables: &TableSet, rank: Rank, new_keys: &NewKeys) -> Option<Box<dyn Workload>> {
        Some(match self {
            Self::Oltp(oltp) => Box::new(OltpEvents::new(tables, oltp)),
            Self::Txn(txn) => Box::new(TxnEvents::new(txn, rank)),
            Self::Upsert(upsert) => Box::new(Upserts::new(tables, *upsert, rank, new_keys)),
            Self::AckedInserts => return None,
        })
    }
}
