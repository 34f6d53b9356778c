//! Transactions: where they begin and end, and whether they are as long as they say.

use super::gtid::Gtid;
use super::report::{Found, RowCounts, Rule};
use super::FileCheck;
use crate::event::{EventType, Header};
use crate::format::Flavor;
use crate::transaction::{End, Query};

/// A transaction that is being read.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) start: u64,
    pub(super) length: Option<u64>,
    pub(super) begun: bool,
    pub(super) standalone: bool,
    /// No event of its own began it: it lasts to the end of its statement unless BEGIN follows.
    pub(super) implicit: bool,
    pub(super) gtid: Option<Gtid>,
    pub(super) gtid_number: u64,
    pub(super) xid: u64,
    /// Problems that the file had when it began.
    problems_before: u64,
}

impl FileCheck {
    pub(super) fn open(&mut self, length: Option<u64>, standalone: bool) {
        if let Some(open) = &self.transaction {
            let start = open.start;
            self.problem(Rule::Structure, format!("the transaction at {start} has no end"));
            self.forget_transaction();
        }
        self.transaction = Some(Transaction {
            start: self.position,
            length,
            begun: false,
            standalone,
            implicit: false,
            gtid: None,
            gtid_number: 0,
            xid: 0,
            problems_before: self.report.problem_count,
        });
    }

    /// Begins a transaction with the event at hand, in files whose transactions have no event of their own.
    fn open_implicit(&mut self) {
        self.open(None, false);
        if let Some(open) = &mut self.transaction {
            open.implicit = true;
        }
    }

    /// The statement at hand ends: outside BEGIN it was all of its transaction.
    pub(super) fn end_statement(&mut self) {
        if self
            .transaction
            .as_ref()
            .is_some_and(|open| open.implicit && !open.begun)
        {
            self.close_transaction();
        }
    }

    pub(super) fn query(&mut self, event_type: EventType, body: &[u8]) {
        let query = match Query::parse(event_type, body) {
            Ok(query) => query,
            Err(error) => {
                self.unread(Rule::Body, &error);
                if error.is_unknown() && self.transaction.as_ref().is_some_and(|open| open.standalone) {
                    self.close_transaction();
                }
                return;
            }
        };
        let is_mariadb = self.report.flavor == Some(Flavor::Mariadb);
        let begins_another = query.end() == End::Begins
            && self
                .transaction
                .as_ref()
                .is_some_and(|open| open.implicit && open.begun);
        if begins_another {
            self.open_implicit();
        }
        self.needs_transaction(EventType::QUERY);
        let Some(open) = &mut self.transaction else {
            return;
        };
        match query.end() {
            End::Begins => open.begun = true,
            End::Ends => self.close_transaction(),
            End::Neither if open.standalone || (!open.begun && (!is_mariadb || open.implicit)) => {
                self.close_transaction();
            }
            End::Neither => {}
        }
    }

    pub(super) fn end_transaction(&mut self, header: &Header) {
        match self.transaction {
            Some(_) => self.close_transaction(),
            None => self.outside(header.event_type),
        }
    }

    /// The event at hand ends the transaction, which counts once the event was looked at whole.
    pub(super) fn close_transaction(&mut self) {
        if self.statement_open {
            self.problem(Rule::Rows, "the transaction ends inside a statement");
        }
        self.closed = self.transaction.take();
        self.tables.clear();
        self.statement_open = false;
    }

    /// `position` stands behind an event now: the transaction that ends here.
    pub(super) fn after_event(&mut self) -> Option<Found> {
        let closed = self.closed.take();
        if let Some(closed) = &closed {
            let rows = std::mem::take(&mut self.rows);
            let length = self.position - closed.start;
            if closed.length.is_some_and(|told| told != length) {
                let told = closed.length.unwrap_or_default();
                let end = std::mem::replace(&mut self.position, closed.start);
                let message = format!("transaction_length is {told}, but its events have {length} bytes");
                self.problem(Rule::TransactionLength, message);
                self.position = end;
            }
            if self.report.problem_count == closed.problems_before {
                self.report.rows.written += rows.written;
                self.report.rows.updated += rows.updated;
                self.report.rows.deleted += rows.deleted;
                self.report.transactions += 1;
            }
        }
        if self.transaction.is_none() && !self.is_broken() {
            self.report.whole_until = self.position;
            if let Some(gtid) = closed.as_ref().and_then(|closed| closed.gtid) {
                self.gtids.insert(gtid);
            }
        }
        closed.map(|closed| Found {
            start: closed.start,
            end: self.position,
            gtid_number: closed.gtid_number,
            xid: closed.xid,
        })
    }

    fn forget_transaction(&mut self) {
        self.transaction = None;
        self.rows = RowCounts::default();
        self.tables.clear();
        self.statement_open = false;
    }

    pub(super) fn needs_transaction(&mut self, event_type: EventType) {
        match self.transaction {
            Some(_) => {}
            None if self.has_gtids() => self.outside(event_type),
            None => self.open_implicit(),
        }
    }

    pub(super) fn outside(&mut self, event_type: EventType) {
        let name = event_type.name().unwrap_or("an event");
        self.problem(Rule::Structure, format!("{name} is outside any transaction"));
    }
}
