//! GTIDs and the logical clock, within a file and from file to file. Gaps in GTIDs are legal, and MariaDB gives any
//! number to a transaction unless `gtid_strict_mode` is on.

use std::fmt;

use super::report::{LimitKind, Rule};
use super::{Before, FileCheck};
use crate::event::{EventType, Header};
use crate::format::Uuid;
use crate::gtid::{GtidList, GtidSet, Tag};
use crate::transaction::{MariadbGtid, MysqlGtid};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Gtids {
    #[default]
    Unknown,
    Set(GtidSet),
    List(GtidList),
}

/// What a transaction adds to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gtid {
    Mysql(Uuid, Tag, u64),
    Mariadb(u32, u32, u64),
}

impl Gtids {
    pub(super) fn insert(&mut self, gtid: Gtid) {
        match (self, gtid) {
            (Self::Set(seen), Gtid::Mysql(uuid, tag, number)) => {
                seen.insert_tagged(uuid, tag, number);
            }
            (Self::List(seen), Gtid::Mariadb(domain, server_id, number)) => {
                seen.set(domain, server_id, number)
            }
            _ => {}
        }
    }

    /// Whether a log with these GTIDs may go on with a file that begins with `later`.
    fn may_become(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Unknown, _) | (_, Self::Unknown) => true,
            // FLUSH BINARY LOGS DELETE_DOMAIN_ID takes domains from the list.
            (Self::List(before), Self::List(later)) => before.continues_in(later),
            _ => self == later,
        }
    }
}

impl fmt::Display for Gtids {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::Set(set) => set.fmt(formatter),
            Self::List(list) => list.fmt(formatter),
        }
    }
}

impl FileCheck {
    pub(super) fn previous(&mut self, event_type: EventType, body: &[u8]) {
        if self.previous_seen || self.transaction.is_some() {
            self.problem(
                Rule::Structure,
                "the GTIDs of earlier files are in the wrong place",
            );
            return;
        }
        self.previous_seen = true;
        let parsed = match event_type {
            EventType::PREVIOUS_GTIDS => GtidSet::parse(body).map(Gtids::Set),
            _ => GtidList::parse(body).map(Gtids::List),
        };
        match parsed {
            Ok(gtids) => {
                self.report.previous_gtids = gtids.to_string();
                self.gtids = gtids;
                self.compare_with_file_before();
            }
            Err(error) if error.is_unknown() => self.report.opaque_events += 1,
            Err(error) => self.problem(Rule::Gtid, error.to_string()),
        }
    }

    fn compare_with_file_before(&mut self) {
        let Some(Before { gtids: before, .. }) = &self.before else {
            return;
        };
        if !before.may_become(&self.gtids) {
            let message = format!(
                "the file says that {:?} was logged before it, but the previous file ends with {:?}",
                self.gtids.to_string(),
                before.to_string()
            );
            self.problem(Rule::Series, message);
        }
    }

    pub(super) fn mysql_gtid(&mut self, event_type: EventType, body: &[u8]) {
        let parsed = match event_type {
            EventType::GTID_TAGGED => MysqlGtid::parse_tagged(body),
            _ => MysqlGtid::parse(body),
        };
        let gtid = match parsed {
            Ok(gtid) => gtid,
            Err(error) => {
                match error.is_unknown() {
                    true => self.unread_gtid(),
                    false => self.problem(Rule::Body, error.to_string()),
                }
                self.open(None, false);
                return;
            }
        };
        self.open(gtid.transaction_length, false);
        self.logical_clock(&gtid);
        if event_type == EventType::ANONYMOUS_GTID {
            if gtid.number != 0 {
                self.problem(Rule::Gtid, "an anonymous transaction has a number");
            }
            return;
        }
        if gtid.number == 0 || gtid.number >= i64::MAX as u64 {
            self.problem(Rule::Gtid, format!("{} is no number of a GTID", gtid.number));
            return;
        }
        if matches!(&self.gtids, Gtids::Set(seen) if seen.contains(gtid.uuid, gtid.tag, gtid.number)) {
            self.problem(Rule::Gtid, format!("the GTID {gtid} appeared before"));
        }
        self.name(Gtid::Mysql(gtid.uuid, gtid.tag, gtid.number), gtid.number);
    }

    /// A GTID of a later form: the numbers and the clock that follow cannot be foretold.
    fn unread_gtid(&mut self) {
        self.report.opaque_events += 1;
        self.gtids = Gtids::Unknown;
        self.sequence_number = 0;
        self.clock_unread = true;
    }

    fn name(&mut self, gtid: Gtid, number: u64) {
        if let Some(open) = &mut self.transaction {
            open.gtid = Some(gtid);
            open.gtid_number = number;
        }
    }

    fn logical_clock(&mut self, gtid: &MysqlGtid) {
        let (own, waits_for) = (gtid.sequence_number, gtid.last_committed);
        if own == 0 && waits_for == 0 {
            return;
        }
        let before = std::mem::replace(&mut self.sequence_number, own);
        let after_unknown = before == 0 && self.clock_unread;
        if before == 0 && own != 1 && !after_unknown {
            // MySQL begins at 1 in each file; Aurora does not.
            self.limit(
                LimitKind::LogicalClock,
                format!("the logical clock begins at {own}, not at 1: only its steps are checked"),
            );
        } else if own != before.wrapping_add(1) && !after_unknown {
            self.problem(
                Rule::SequenceNumber,
                format!("sequence_number {own} follows {before}"),
            );
        }
        if waits_for >= own {
            let message = format!("last_committed {waits_for} is not below sequence_number {own}");
            self.problem(Rule::LastCommitted, message);
        }
    }

    pub(super) fn mariadb_gtid(&mut self, header: &Header, body: &[u8]) {
        let gtid = match MariadbGtid::parse(body) {
            Ok(gtid) => gtid,
            Err(error) => {
                self.problem(Rule::Body, error.to_string());
                self.open(None, false);
                return;
            }
        };
        self.open(None, gtid.standalone);
        self.name(
            Gtid::Mariadb(gtid.domain, header.server_id, gtid.number),
            gtid.number,
        );
    }
}
