//! What a commit waits for, and which way it takes.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How binlog events come into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flush {
    /// MySQL's ordered group commit: a leader writes each transaction's events under the log lock.
    Serial,
    /// The group's leader reserves places and writes its group's events; groups in parallel.
    ParallelLeader,
    /// Every thread writes its own events into its reserved place.
    Parallel,
    /// The events go into the redo log, which is synced once for both.
    Redo,
}

impl Flush {
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
pub struct Policy {
    /// 0: written and synced once a second; 1: synced at commit; 2: written at commit, synced once a
    /// second; 3: synced at prepare and at commit (MariaDB).
    pub redo: u8,
    /// 0: the system syncs when it likes; N: synced every N groups.
    pub sync_binlog: u32,
    /// The way.
    pub flush: Flush,
}

impl Policy {
    /// Refuses what contradicts itself.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.redo > 3 {
            let message = format!(
                "redo is {}, but innodb_flush_log_at_trx_commit is 0, 1, 2 or 3",
                self.redo
            );
            return Err(Error::usage(message).hint("give one of 0, 1, 2, 3"));
        }
        match self.flush {
            Flush::Parallel | Flush::ParallelLeader if self.sync_binlog == 1 => {
                let message = format!(
                    "{} flush contradicts sync_binlog=1: it acknowledges before the binlog is synced",
                    self.flush.name()
                );
                Err(Error::usage(message).hint(
                    "give sync_binlog 0 or above 1, or take flush serial or redo, which keep sync_binlog=1",
                ))
            }
            Flush::Redo if self.sync_binlog != 1 || matches!(self.redo, 0 | 2) => {
                let message = format!(
                    "redo flush with redo={} and sync_binlog={}: its one sync stands for both logs, so both must ask for it",
                    self.redo, self.sync_binlog
                );
                Err(Error::usage(message)
                    .hint("give redo 1 and sync_binlog 1, or take flush serial or parallel"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the redo is synced before a commit is acknowledged.
    pub(crate) fn syncs_redo(&self) -> bool {
        matches!(self.redo, 1 | 3)
    }

    /// Whether a binlog file is synced when it is ended, before the next one is used. Servers do so; a
    /// parallel flush that promises no sync leaves it to whoever ends the file, beside the others.
    pub(crate) fn syncs_at_rotation(&self) -> bool {
        matches!(self.flush, Flush::Serial | Flush::Redo)
    }

    pub(crate) fn to_bits(self) -> u64 {
        let flush = match self.flush {
            Flush::Serial => 0,
            Flush::ParallelLeader => 1,
            Flush::Parallel => 2,
            Flush::Redo => 3,
        };
        flush << 40 | u64::from(self.redo) << 32 | u64::from(self.sync_binlog)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        let flush = match bits >> 40 {
            0 => Flush::Serial,
            1 => Flush::ParallelLeader,
            2 => Flush::Parallel,
            _ => Flush::Redo,
        };
        Self {
            redo: (bits >> 32) as u8,
            sync_binlog: bits as u32,
            flush,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(redo: u8, sync_binlog: u32, flush: Flush) -> Policy {
        Policy {
            redo,
            sync_binlog,
            flush,
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_a_way_out() {
        for refused in [
            policy(2, 1, Flush::Parallel),
            policy(1, 1, Flush::ParallelLeader),
            policy(2, 1, Flush::Redo),
            policy(1, 1000, Flush::Redo),
            policy(4, 1, Flush::Serial),
        ] {
            let error = refused.check().unwrap_err();
            assert!(error.hint.is_some(), "{refused:?}: {error}");
        }
        for taken in [
            policy(1, 1, Flush::Serial),
            policy(0, 0, Flush::Serial),
            policy(1, 0, Flush::Parallel),
            policy(2, 1000, Flush::ParallelLeader),
            policy(1, 1, Flush::Redo),
            policy(3, 1, Flush::Redo),
        ] {
            assert_eq!(taken.check(), Ok(()));
        }
    }

    #[test]
    fn a_policy_comes_back_from_its_bits() {
        for flush in [Flush::Serial, Flush::ParallelLeader, Flush::Parallel, Flush::Redo] {
            let policy = policy(3, u32::MAX, flush);
            assert_eq!(Policy::from_bits(policy.to_bits()), policy);
        }
    }
}
