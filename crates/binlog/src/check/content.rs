//! What an event is about: each type goes to those who follow it.

use super::report::{LimitKind, Rule};
use super::{FileCheck, Go};
use crate::bytes::Malformed;
use crate::event::{EventType, Header, FLAG_IGNORABLE, MAGIC};
use crate::payload::{uncompressed_rows, Payload};
use crate::transaction::Query;
use crate::{Rows, TableMap};

impl FileCheck {
    pub(super) fn judge_content(&mut self, header: &Header, body: &[u8]) -> Go {
        match header.event_type {
            EventType::PREVIOUS_GTIDS | EventType::GTID_LIST => self.previous(header.event_type, body),
            EventType::GTID | EventType::ANONYMOUS_GTID | EventType::GTID_TAGGED => {
                self.mysql_gtid(header.event_type, body);
            }
            EventType::MARIADB_GTID => self.mariadb_gtid(header, body),
            EventType::QUERY | EventType::QUERY_COMPRESSED => self.query(header.event_type, body),
            EventType::XID => {
                if let (Some(number), Some(open)) = (self.xid(body), &mut self.transaction) {
                    open.xid = number;
                }
                self.end_transaction(header);
            }
            EventType::XA_PREPARE => self.end_transaction(header),
            EventType::TRANSACTION_PAYLOAD => self.payload(header, body),
            EventType::TABLE_MAP => self.table_map(body),
            EventType::ROTATE => self.rotate(body),
            EventType::STOP => self.ended = true,
            EventType::FORMAT_DESCRIPTION => {
                self.problem(Rule::Structure, "there is a second FORMAT_DESCRIPTION");
            }
            // MariaDB marks the event so where it sends what it decrypted, which `mariadb-binlog --raw` writes.
            EventType::START_ENCRYPTION if header.flags & FLAG_IGNORABLE != 0 => {}
            EventType::START_ENCRYPTION | EventType::PERCONA_START_ENCRYPTION => {
                self.limit(
                    LimitKind::Encrypted,
                    "all from here is encrypted: its keys are needed",
                );
                return Go::Stop;
            }
            event_type => self.other(event_type, body),
        }
        Go::On
    }

    /// What can be told of an event of a relay log by itself: whether its body is one of its type.
    pub(super) fn judge_relayed(&mut self, header: &Header, body: &[u8]) -> Go {
        match header.event_type {
            EventType::START_ENCRYPTION | EventType::PERCONA_START_ENCRYPTION => {
                return self.judge_content(header, body);
            }
            EventType::QUERY | EventType::QUERY_COMPRESSED => {
                if let Err(error) = Query::parse(header.event_type, body) {
                    self.unread(Rule::Body, &error);
                }
            }
            EventType::XID => {
                self.xid(body);
            }
            EventType::TABLE_MAP => match TableMap::parse(body) {
                Err(error) if error.is_unknown() => self.report.opaque_events += 1,
                Err(error) => self.problem(Rule::TableMap, error.to_string()),
                Ok(_) => {}
            },
            _ => {}
        }
        Go::On
    }

    fn xid(&mut self, body: &[u8]) -> Option<u64> {
        let number = body.try_into().ok().map(u64::from_le_bytes);
        if number.is_none() {
            self.problem(Rule::Size, format!("XID has {} bytes, not 8", body.len()));
        }
        number
    }

    /// The events of a compressed transaction, from BEGIN to its end.
    fn payload(&mut self, header: &Header, body: &[u8]) {
        if self.transaction.is_none() {
            self.outside(header.event_type);
            return;
        }
        let read = Payload::parse(body).and_then(|payload| {
            payload.each_event(|header, body| {
                self.report.events += 1;
                self.count(header.event_type);
                match header.event_type.may_be_in_payload() {
                    true => {
                        self.judge_content(header, body);
                    }
                    false => {
                        let message = format!("{} is inside a compressed transaction", header.event_type);
                        self.problem(Rule::Structure, message);
                    }
                }
                Ok(())
            })
        });
        match read {
            Ok(()) if self.transaction.is_none() => {}
            Ok(()) => self.problem(Rule::Structure, "a compressed transaction has no end"),
            Err(error) => self.unread(Rule::Body, &error),
        }
        if self.transaction.is_some() {
            self.statement_open = false;
            self.close_transaction();
        }
    }

    /// Content that is damaged, or that is not read here.
    pub(super) fn unread(&mut self, rule: Rule, error: &Malformed) {
        match error.is_unknown() {
            true => {
                self.report.opaque_events += 1;
                self.limit(LimitKind::Compression, error.to_string());
            }
            false => self.problem(rule, error.to_string()),
        }
    }

    /// Rows that MariaDB compressed.
    fn compressed_rows(&mut self, event_type: EventType, body: &[u8]) {
        match uncompressed_rows(event_type, body) {
            Ok((plain, body)) => self.row_event(plain, &body),
            Err(error) => {
                self.needs_transaction(event_type);
                self.unread(Rule::Rows, &error);
                // The first bytes are those of row events: six of the table, two of flags.
                let ends = body.get(6).is_some_and(|flags| flags & 1 == 1);
                self.rows_end(ends);
            }
        }
    }

    fn other(&mut self, event_type: EventType, body: &[u8]) {
        if Rows::change_of(event_type).is_some() {
            self.row_event(event_type, body);
            return;
        }
        if Rows::is_compressed(event_type) {
            self.compressed_rows(event_type, body);
            return;
        }
        match event_type {
            EventType::BINLOG_CHECKPOINT
            | EventType::INCIDENT
            | EventType::HEARTBEAT
            | EventType::AURORA_PADDING => {}
            EventType::DELETE_FILE => self.end_statement(),
            EventType::EXECUTE_LOAD_QUERY => {
                self.needs_transaction(event_type);
                self.end_statement();
            }
            _ if event_type.name().is_none() => self.report.opaque_events += 1,
            _ => self.needs_transaction(event_type),
        }
    }

    fn rotate(&mut self, body: &[u8]) {
        self.ended = true;
        match body.split_first_chunk::<8>() {
            Some((position, name)) if !name.is_empty() => {
                if u64::from_le_bytes(*position) != MAGIC.len() as u64 {
                    self.problem(Rule::Body, "ROTATE does not point to the next file's beginning");
                }
                self.report.next = Some(String::from_utf8_lossy(name).into_owned());
            }
            _ => self.problem(Rule::Body, "ROTATE has no position or no name"),
        }
    }
}
