//! Tables and rows: every row is one of its table.

use super::report::Rule;
use super::FileCheck;
use crate::bytes::Malformed;
use crate::event::EventType;
use crate::table::TableMap;
use crate::{Change, Rows};

impl FileCheck {
    pub(super) fn table_map(&mut self, body: &[u8]) {
        self.needs_transaction(EventType::TABLE_MAP);
        match TableMap::parse(body) {
            Ok(table) => {
                self.tables.insert(table.id, Some(table));
            }
            Err(error) if error.is_unknown() => {
                self.report.opaque_events += 1;
                let id = crate::bytes::little(body.get(..6).unwrap_or_default());
                self.tables.insert(id, None);
            }
            Err(error) => self.problem(Rule::TableMap, error.to_string()),
        }
    }

    pub(super) fn row_event(&mut self, event_type: EventType, body: &[u8]) {
        self.needs_transaction(event_type);
        let rows = match Rows::parse(event_type, body) {
            Ok(rows) => rows,
            Err(error) => {
                self.problem(Rule::Rows, error.to_string());
                return;
            }
        };
        let ends = rows.flags & crate::rows::STATEMENT_END != 0;
        if let Err(error) = self.read_rows(rows) {
            self.problem(Rule::Rows, error.to_string());
        }
        self.rows_end(ends);
    }

    /// A row event was read; `ends` says whether it is its statement's last.
    pub(super) fn rows_end(&mut self, ends: bool) {
        self.statement_open = !ends;
        if ends {
            self.tables.clear();
            self.end_statement();
        }
    }

    fn read_rows(&mut self, mut rows: Rows<'_>) -> Result<(), Malformed> {
        if rows.table_id == crate::rows::DUMMY_TABLE_ID && rows.is_empty() {
            return Ok(());
        }
        let table = match self.tables.get(&rows.table_id) {
            Some(Some(table)) => table,
            Some(None) => {
                self.report.opaque_events += 1;
                return Ok(());
            }
            None => {
                let id = rows.table_id;
                return Err(Malformed::new(format!(
                    "there is no TABLE_MAP for the table id {id}"
                )));
            }
        };
        let mut count = 0_u64;
        while !rows.is_empty() {
            rows.read_row(&table.columns, |_, _, _| {}).map_err(|error| {
                let schema = String::from_utf8_lossy(&table.schema);
                let name = String::from_utf8_lossy(&table.name);
                Malformed::new(format!("row {count} (from 0) of {schema}.{name}: {error}"))
            })?;
            count += 1;
        }
        let counter = match rows.change {
            Change::Write => &mut self.rows.written,
            Change::Update => &mut self.rows.updated,
            Change::Delete => &mut self.rows.deleted,
        };
        *counter += count;
        Ok(())
    }
}
