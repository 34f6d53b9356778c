//! What a commit waits for, and which way it takes.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How binlog events come into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BinlogStrategy {
    /// MySQL's ordered group commit: a leader writes each transaction's events under the log lock.
    Serial,
    /// The group's leader reserves places and writes its group's events; groups in parallel.
    ParallelLeader,
    /// Every thread writes its own events into its reserved place.
    Parallel,
    /// The events go into the redo log, which is synced once for both.
    Redo,
}

impl BinlogStrategy {
    /// As options spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::ParallelLeader => "parallel-leader",
            Self::Parallel => "parallel",
            Self::Redo => "redo",
        }
    }
}

/// `innodb_flush_log_at_trx_commit`, `sync_binlog` and the way of flushing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitSettings {
    /// 0: written and synced once a second; 1: synced at commit; 2: written at commit, synced once a
    /// second; 3: synced at prepare and at commit (MariaDB).
    pub trx_commit: u8,
    /// 0: the system syncs when it likes; N: synced every N groups.
    pub sync_binlog: u32,
    /// The way.
    pub binlog_strategy: BinlogStrategy,
}

impl CommitSettings {
    /// Refuses what contradicts itself.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.trx_commit > 3 {
            let message = format!(
                "trx_commit is {}, but innodb_flush_log_at_trx_commit takes 0, 1, 2 or 3",
                self.trx_commit
            );
            return Err(Error::usage(message).hint("give one of 0, 1, 2, 3"));
        }
        match self.binlog_strategy {
            BinlogStrategy::Parallel | BinlogStrategy::ParallelLeader if self.sync_binlog == 1 => {
                let message = format!(
                    "binlog strategy {} contradicts sync_binlog=1: it acknowledges a commit before the binlog is synced",
                    self.binlog_strategy.name()
                );
                Err(Error::usage(message)
                    .hint("give sync_binlog 0 or above 1, or the binlog strategy serial or redo"))
            }
            BinlogStrategy::Redo if self.sync_binlog != 1 || matches!(self.trx_commit, 0 | 2) => {
                let message = format!(
                    "binlog strategy redo needs trx_commit 1 or 3 and sync_binlog 1, not {} and {}: one fsync covers both logs",
                    self.trx_commit, self.sync_binlog
                );
                Err(Error::usage(message)
                    .hint("give trx_commit 1 and sync_binlog 1, or the binlog strategy serial or parallel"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the redo is synced before a commit is acknowledged.
    pub(crate) fn syncs_redo(&self) -> bool {
        matches!(self.trx_commit, 1 | 3)
    }

    /// Whether a binlog file is synced when it is ended, before the next one is used. Servers do so; a
    /// parallel flush that promises no sync leaves it to whoever ends the file, beside the others.
    pub(crate) fn syncs_at_rotation(&self) -> bool {
        matches!(
            self.binlog_strategy,
            BinlogStrategy::Serial | BinlogStrategy::Redo
        )
    }

    pub(crate) fn to_bits(self) -> u64 {
        let binlog_strategy = match self.binlog_strategy {
            BinlogStrategy::Serial => 0,
            BinlogStrategy::ParallelLeader => 1,
            BinlogStrategy::Parallel => 2,
            BinlogStrategy::Redo => 3,
        };
        binlog_strategy << 40 | u64::from(self.trx_commit) << 32 | u64::from(self.sync_binlog)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        let binlog_strategy = match bits >> 40 {
            0 => BinlogStrategy::Serial,
            1 => BinlogStrategy::ParallelLeader,
            2 => BinlogStrategy::Parallel,
            _ => BinlogStrategy::Redo,
        };
        Self {
            trx_commit: (bits >> 32) as u8,
            sync_binlog: bits as u32,
            binlog_strategy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit_settings(trx_commit: u8, sync_binlog: u32, binlog_strategy: BinlogStrategy) -> CommitSettings {
        CommitSettings {
            trx_commit,
            sync_binlog,
            binlog_strategy,
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_a_way_out() {
        for refused in [
            commit_settings(2, 1, BinlogStrategy::Parallel),
            commit_settings(1, 1, BinlogStrategy::ParallelLeader),
            commit_settings(2, 1, BinlogStrategy::Redo),
            commit_settings(1, 1000, BinlogStrategy::Redo),
            commit_settings(4, 1, BinlogStrategy::Serial),
        ] {
            let error = refused.check().unwrap_err();
            assert!(error.hint.is_some(), "{refused:?}: {error}");
        }
        for taken in [
            commit_settings(1, 1, BinlogStrategy::Serial),
            commit_settings(0, 0, BinlogStrategy::Serial),
            commit_settings(1, 0, BinlogStrategy::Parallel),
            commit_settings(2, 1000, BinlogStrategy::ParallelLeader),
            commit_settings(1, 1, BinlogStrategy::Redo),
            commit_settings(3, 1, BinlogStrategy::Redo),
        ] {
            assert_eq!(taken.check(), Ok(()));
        }
    }

    #[test]
    fn a_policy_comes_back_from_its_bits() {
        for binlog_strategy in [
            BinlogStrategy::Serial,
            BinlogStrategy::ParallelLeader,
            BinlogStrategy::Parallel,
            BinlogStrategy::Redo,
        ] {
            let commit_settings = commit_settings(3, u32::MAX, binlog_strategy);
            assert_eq!(
                CommitSettings::from_bits(commit_settings.to_bits()),
                commit_settings
            );
        }
    }
}
