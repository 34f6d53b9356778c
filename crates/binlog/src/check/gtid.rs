//! GTIDs and the logical clock: they follow each other, within a file and from file to file.

use std::fmt;

use super::report::{LimitKind, Rule};
use super::FileCheck;
use crate::event::{EventType, Header};
use crate::gtid::{GtidList, GtidSet};
use crate::transaction::{MariadbGtid, MysqlGtid};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Gtids {
    #[default]
    Unknown,
    Set(GtidSet),
    List(GtidList),
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
        let Some((_, before)) = &self.before else {
            return;
        };
        if *before != Gtids::Unknown && self.gtids != Gtids::Unknown && *before != self.gtids {
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
        self.number(gtid.number);
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
        if let Gtids::Set(seen) = &mut self.gtids {
            let follows = gtid.number == 1 || seen.contains(gtid.uuid, gtid.tag, gtid.number - 1);
            let last = seen.last(gtid.uuid, gtid.tag);
            if !seen.insert_tagged(gtid.uuid, gtid.tag, gtid.number) {
                self.problem(Rule::Gtid, format!("the GTID {gtid} appeared before"));
            } else if !follows && !self.options.gaps {
                self.problem(Rule::Gtid, format!("the GTID {gtid} follows {last}"));
            }
        }
    }

    /// A GTID of a later form: the numbers and the clock that follow cannot be foretold.
    fn unread_gtid(&mut self) {
        self.report.opaque_events += 1;
        self.gtids = Gtids::Unknown;
        self.sequence_number = 0;
        self.clock_unread = true;
    }

    fn number(&mut self, number: u64) {
        if let Some(open) = &mut self.transaction {
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
        self.number(gtid.number);
        if let Gtids::List(seen) = &mut self.gtids {
            let last = seen.last(gtid.domain);
            let own = seen.last_of(gtid.domain, header.server_id);
            seen.set(gtid.domain, header.server_id, gtid.number);
            let name = format!("{}-{}-{}", gtid.domain, header.server_id, gtid.number);
            // Without gtid_strict_mode, another server of the domain may have had the number.
            if gtid.number <= own {
                self.problem(
                    Rule::Gtid,
                    format!("the GTID {name} comes after the number {own}"),
                );
            } else if gtid.number > last && gtid.number != last + 1 && !self.options.gaps {
                self.problem(Rule::Gtid, format!("the GTID {name} follows {last}"));
            }
        }
    }
}
