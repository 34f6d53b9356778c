//! What an event is about: each type goes to those who follow it.

use super::report::{LimitKind, Rule};
use super::{FileCheck, Go, Gtids};
use crate::event::{EventType, Header, MAGIC};
use crate::Rows;

impl FileCheck {
    pub(super) fn judge_content(&mut self, header: &Header, body: &[u8]) -> Go {
        match header.event_type {
            EventType::PREVIOUS_GTIDS | EventType::GTID_LIST => self.previous(header.event_type, body),
            EventType::GTID | EventType::ANONYMOUS_GTID => self.mysql_gtid(header.event_type, body),
            EventType::MARIADB_GTID => self.mariadb_gtid(header, body),
            EventType::GTID_TAGGED => {
                self.report.opaque_events += 1;
                self.gtids = Gtids::Unknown;
                // Its number is not read: the next transaction's cannot be foretold.
                self.sequence_number = 0;
                self.open(None, false);
            }
            EventType::QUERY => self.query(body),
            EventType::XID => {
                match (body.try_into(), &mut self.transaction) {
                    (Ok(number), Some(open)) => open.xid = u64::from_le_bytes(number),
                    (Ok(_), None) => {}
                    (Err(_), _) => self.problem(Rule::Size, format!("XID has {} bytes, not 8", body.len())),
                }
                self.end_transaction(header);
            }
            EventType::XA_PREPARE => self.end_transaction(header),
            EventType::TRANSACTION_PAYLOAD => {
                self.report.opaque_events += 1;
                self.end_transaction(header);
            }
            EventType::TABLE_MAP => self.table_map(body),
            EventType::ROTATE => self.rotate(body),
            EventType::STOP => self.ended = true,
            EventType::FORMAT_DESCRIPTION => {
                self.problem(Rule::Structure, "there is a second FORMAT_DESCRIPTION");
            }
            EventType::START_ENCRYPTION => {
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

    fn other(&mut self, event_type: EventType, body: &[u8]) {
        if Rows::change_of(event_type).is_some() {
            self.row_event(event_type, body);
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
            EventType::PARTIAL_UPDATE_ROWS
            | EventType::WRITE_ROWS_COMPRESSED_V1
            | EventType::UPDATE_ROWS_COMPRESSED_V1
            | EventType::DELETE_ROWS_COMPRESSED_V1
            | EventType::WRITE_ROWS_COMPRESSED
            | EventType::UPDATE_ROWS_COMPRESSED
            | EventType::DELETE_ROWS_COMPRESSED => {
                self.report.opaque_events += 1;
                // Their first bytes are those of row events: six of the table, two of flags.
                let ends = body.get(6).is_some_and(|flags| flags & 1 == 1);
                self.needs_transaction(event_type);
                self.rows_end(ends);
            }
            EventType::QUERY_COMPRESSED => {
                self.report.opaque_events += 1;
                if self.transaction.as_ref().is_some_and(|open| open.standalone) {
                    self.close_transaction();
                }
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
