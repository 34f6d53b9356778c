//! What a commit waits for, and which pipeline it takes.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How redo and binlog of a group reach the disk. Each is named after what it models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BinlogStrategy {
    /// MySQL's flush, sync and commit stages: the group's leader writes one transaction's events after the other.
    Serial,
    /// AliSQL's Binlog Parallel Flush (mysql/mysql-community issue 114): every thread writes its own events into
    /// the place that it was given; the file is synced once a second.
    Parallel,
    /// The events go into the redo log too, and its sync makes both durable: the same proposal's Binlog in Redo,
    /// MariaDB 12.3's `binlog_storage_engine=innodb`.
    Redo,
    /// As `serial`, but redo and binlog are synced at the same time, beside each other.
    TwoSyncs,
}

impl BinlogStrategy {
    /// Whether each committer writes its own events, not the group's leader.
    pub(crate) fn owner_encodes(self) -> bool {
        matches!(self, Self::Parallel | Self::Redo)
    }
}

/// `innodb_flush_log_at_trx_commit`, `sync_binlog` and the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CommitSettings {
    /// 0: written and synced once a second; 1: synced at commit; 2: written at commit, synced once a
    /// second; 3: synced at prepare and at commit (MariaDB).
    pub trx_commit: u8,
    /// 0: the system syncs when it likes; N: synced every N groups.
    pub sync_binlog: u32,
    /// The pipeline.
    pub binlog_strategy: BinlogStrategy,
}

impl CommitSettings {
    /// Refuses what contradicts itself.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self {
            trx_commit,
            sync_binlog,
            ..
        } = self;
        let needs_both = |name: &str, why: &str| {
            let message = format!(
                "binlog strategy {name} needs trx_commit 1 or 3 and sync_binlog 1, not {trx_commit} and \
                 {sync_binlog}: {why}"
            );
            Err(Error::usage(message)
                .hint("give trx_commit 1 and sync_binlog 1, or the binlog strategy serial or parallel"))
        };
        let is_strict = self.syncs_redo() && *sync_binlog == 1;
        match self.binlog_strategy {
            _ if *trx_commit > 3 => {
                let rule = "innodb_flush_log_at_trx_commit takes 0, 1, 2 or 3";
                let message = format!("trx_commit is {trx_commit}, but {rule}");
                Err(Error::usage(message).hint("give one of 0, 1, 2, 3"))
            }
            BinlogStrategy::Parallel if *sync_binlog == 1 => {
                let message =
                    "binlog strategy parallel contradicts sync_binlog=1: it acknowledges a commit before \
                               the binlog is synced";
                Err(Error::usage(message)
                    .hint("give sync_binlog 0 or above 1, or the binlog strategy serial, redo or two-syncs"))
            }
            BinlogStrategy::Redo if !is_strict => needs_both("redo", "one fsync covers both logs"),
            BinlogStrategy::TwoSyncs if !is_strict => {
                needs_both("two-syncs", "both logs are synced at each commit")
            }
            _ => Ok(()),
        }
    }

    /// Whether the redo is synced before a commit is acknowledged.
    pub(crate) fn syncs_redo(&self) -> bool {
        matches!(self.trx_commit, 1 | 3)
    }
}
