//! Bodies: a transaction's events, encoded once, and finished when its place is known.
//!
//! What depends on the place (log_pos, the GTID event and the checksums) is written by
//! [`Body::finish_into`] alone. Until then the events stand in the body's own buffer, which keeps
//! its memory from one transaction to the next: the steady state allocates nothing.

use crate::bytes::{lenenc_size, little, Fill, Put};
use crate::error::EncodeError;
use crate::event::{checksum, EventType, Header, CHECKSUM_SIZE, FLAG_SUPPRESS_USE, HEADER_SIZE};
use crate::format::{Flavor, Format};
use crate::table::Table;
use crate::value::{put_row, Value};

/// Size of a row event's body at which another one begins (`binlog_row_event_max_size`).
const ROW_EVENT_SIZE: usize = 8192;

/// Largest event that replicas take (`replica_max_allowed_packet`).
const MAX_EVENT_SIZE: usize = 1 << 30;

/// Where and as what a transaction stands in its log: all that is not known before it commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Where in its file the transaction begins.
    pub position: u64,
    /// The number of its GTID; 0 makes it anonymous (MySQL only).
    pub gtid_number: u64,
    /// Logical clock: the last transaction that it must wait for (MySQL).
    pub last_committed: u64,
    /// Logical clock: its own number, from 1 in each file (MySQL).
    pub sequence_number: u64,
    /// When it commits here, in microseconds since 1970 (MySQL).
    pub commit_us: u64,
    /// The group that it commits in, if there are others in it (MariaDB); 0 for none. It takes
    /// bytes: [`Body::size`] must be asked for the same.
    pub commit_id: u64,
}

/// Where a transaction was committed first, if that was another server (MySQL).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// When it committed there, in microseconds since 1970.
    pub commit_us: u64,
    /// That server's version: 80044 for 8.0.44.
    pub server_version: u32,
}

/// What a statement does to its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// INSERT: rows as they are afterwards.
    Write,
    /// UPDATE: pairs of before and after.
    Update,
    /// DELETE: rows as they were.
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Open,
    Committed,
}

/// A transaction's events but for the first, in memory that is used again and again.
#[derive(Debug, Clone)]
pub struct Body {
    format: Format,
    /// Events with log_pos relative to the body's start and room for the checksum.
    buffer: Vec<u8>,
    stage: Stage,
    timestamp: u32,
    thread_id: u32,
    sql_mode: u64,
    origin: Option<Origin>,
}

impl Body {
    /// An empty body for a format's transactions.
    pub fn new(format: &Format) -> Self {
        Self {
            format: format.clone(),
            buffer: Vec::with_capacity(1024),
            stage: Stage::Idle,
            timestamp: 0,
            thread_id: 0,
            sql_mode: 0,
            origin: None,
        }
    }

    /// Begins a transaction at `timestamp` (seconds since 1970) of the session `thread_id`; what
    /// stood in the body is gone.
    pub fn begin(&mut self, timestamp: u32, thread_id: u32) {
        self.buffer.clear();
        self.stage = Stage::Open;
        self.timestamp = timestamp;
        self.thread_id = thread_id;
        self.origin = None;
    }

    /// The session's `sql_mode` as bits, which BEGIN carries (MySQL); 0 at first.
    pub fn set_sql_mode(&mut self, sql_mode: u64) {
        self.sql_mode = sql_mode;
    }

    /// Says that the transaction comes from another server; holds until the next `begin`.
    pub fn set_origin(&mut self, origin: Origin) {
        self.origin = Some(origin);
    }

    /// Begins a statement that changes rows of `table`.
    ///
    /// # Errors
    /// No transaction is open.
    pub fn statement<'a>(
        &'a mut self,
        table: &'a Table,
        change: Change,
    ) -> Result<LoggedStatement<'a>, EncodeError> {
        if self.stage != Stage::Open {
            return Err(EncodeError::Order("a statement needs `begin` before it"));
        }
        let undo = self.buffer.len();
        if self.format.flavor() == Flavor::Mysql && self.buffer.is_empty() {
            self.put_begin(change);
        }
        let start = self.open_event(EventType::TABLE_MAP, 0);
        self.buffer.put(table.map_body());
        self.close_event(start);
        let event = self.open_rows(table, change);
        Ok(LoggedStatement {
            body: self,
            table,
            change,
            undo,
            event,
            rows: 0,
        })
    }

    /// The statement's text, which replicas and tools show (ROWS_QUERY, ANNOTATE_ROWS).
    ///
    /// # Errors
    /// No transaction is open, or the text is larger than an event can be.
    pub fn annotate(&mut self, statement: &str) -> Result<(), EncodeError> {
        if self.stage != Stage::Open {
            return Err(EncodeError::Order("a statement's text needs `begin` before it"));
        }
        if statement.len() > MAX_EVENT_SIZE - HEADER_SIZE - 1 - CHECKSUM_SIZE {
            return Err(EncodeError::TooLarge);
        }
        if self.format.flavor() == Flavor::Mysql {
            if self.buffer.is_empty() {
                self.put_begin(Change::Write);
            }
            let start = self.open_event(EventType::ROWS_QUERY, crate::event::FLAG_IGNORABLE);
            // The length is cut to a byte and never read: readers take the rest of the event.
            self.buffer.put_u8(statement.len() as u8);
            self.buffer.put(statement.as_bytes());
            self.close_event(start);
        } else {
            let start = self.open_event(EventType::ANNOTATE_ROWS, 0);
            self.buffer.put(statement.as_bytes());
            self.close_event(start);
        }
        Ok(())
    }

    /// Ends the transaction; only its place is missing now.
    ///
    /// # Errors
    /// No transaction is open, or it is empty: a server writes none.
    pub fn commit(&mut self, xid: u64) -> Result<(), EncodeError> {
        if self.stage != Stage::Open || self.buffer.is_empty() {
            return Err(EncodeError::Order(
                "`commit` needs `begin` and a statement before it",
            ));
        }
        let start = self.open_event(EventType::XID, 0);
        self.buffer.put_u64(xid);
        self.close_event(start);
        self.stage = Stage::Committed;
        Ok(())
    }

    /// Bytes that the whole transaction takes in its file, with its GTID event.
    ///
    /// `grouped` says whether its place will have a `commit_id` (MariaDB; no matter for MySQL).
    pub fn size(&self, grouped: bool) -> u64 {
        self.gtid_size(grouped) as u64 + self.buffer.len() as u64
    }

    /// Writes the whole transaction into its place.
    ///
    /// # Errors
    /// The transaction is not committed, or `out` is not exactly as large as [`size`](Self::size).
    pub fn finish_into(&self, place: &Place, out: &mut [u8]) -> Result<(), EncodeError> {
        if self.stage != Stage::Committed {
            return Err(EncodeError::Order("`finish_into` needs `commit` before it"));
        }
        let wanted = self.size(place.commit_id != 0);
        if out.len() as u64 != wanted {
            return Err(EncodeError::Size {
                given: out.len(),
                wanted,
            });
        }
        let (gtid, events) = out.split_at_mut(out.len() - self.buffer.len());
        self.put_gtid(place, wanted, gtid);
        self.put_events(place.position + gtid.len() as u64, events);
        Ok(())
    }

    /// Copies the events, one after the other while they are in the cache, and patches each.
    fn put_events(&self, position: u64, out: &mut [u8]) {
        let checksums = self.format.checksum_size();
        let positions_left_open = self.format.inner_positions();
        let (mut from, mut to) = (self.buffer.as_slice(), out);
        let mut end = position;
        while !from.is_empty() {
            let size = little(&from[9..13]) as usize;
            let (event, rest) = from.split_at(size);
            let (place, behind) = to.split_at_mut(size);
            end += size as u64;
            place[..size - checksums].copy_from_slice(&event[..size - checksums]);
            let log_pos = if positions_left_open && !rest.is_empty() {
                0
            } else {
                end as u32
            };
            place[13..17].copy_from_slice(&log_pos.to_le_bytes());
            if checksums != 0 {
                let crc = checksum(&place[..size - checksums]);
                place[size - checksums..].copy_from_slice(&crc.to_le_bytes());
            }
            (from, to) = (rest, behind);
        }
    }

    fn gtid_size(&self, grouped: bool) -> usize {
        let body = match self.format.flavor() {
            Flavor::Mysql => {
                let fixed = 1 + 16 + 8 + 1 + 8 + 8 + 7 + 4 + self.origin.map_or(0, |_| 7 + 4);
                let rest = HEADER_SIZE + fixed + self.format.checksum_size() + self.buffer.len();
                // The length counts its own bytes: the smallest width that holds the sum.
                let widths = [1, 3, 4, 9];
                let holds = |width: &usize| lenenc_size((rest + width) as u64) <= *width;
                fixed + widths.into_iter().find(holds).unwrap_or(9)
            }
            Flavor::Mariadb => {
                let group = if grouped { 8 } else { 0 };
                let thread = if self.format.gtid_has_thread() { 5 } else { 0 };
                (13 + group + thread).max(if grouped { 21 } else { 19 })
            }
        };
        HEADER_SIZE + body + self.format.checksum_size()
    }

    fn put_gtid(&self, place: &Place, transaction_size: u64, out: &mut [u8]) {
        let size = out.len();
        let event_type = match (self.format.flavor(), place.gtid_number) {
            (Flavor::Mysql, 0) => EventType::ANONYMOUS_GTID,
            (Flavor::Mysql, _) => EventType::GTID,
            (Flavor::Mariadb, _) => EventType::MARIADB_GTID,
        };
        let flags = match self.format.flavor() {
            Flavor::Mysql => 0,
            Flavor::Mariadb => FLAG_SUPPRESS_USE,
        };
        let mut header = self.header(event_type, flags);
        header.size = size as u32;
        header.log_pos = (place.position + size as u64) as u32;
        let mut fill = Fill::new(out);
        header.put(&mut fill);
        match self.format.flavor() {
            Flavor::Mysql => self.put_mysql_gtid(place, transaction_size, &mut fill),
            Flavor::Mariadb => self.put_mariadb_gtid(place, &mut fill),
        }
        let body_end = size - self.format.checksum_size();
        let missing = body_end - fill.used();
        fill.put(&[0; 8][..missing]);
        if self.format.checksums() {
            let crc = checksum(&out[..body_end]);
            out[body_end..].copy_from_slice(&crc.to_le_bytes());
        }
    }

    fn put_mysql_gtid(&self, place: &Place, transaction_size: u64, out: &mut impl Put) {
        const ORIGIN_FOLLOWS: u64 = 1 << 55;
        const LOGICAL_CLOCK: u8 = 2;
        out.put_u8(0);
        match place.gtid_number {
            0 => out.put(&[0; 16]),
            _ => out.put(&self.format.identity().uuid.0),
        }
        out.put_u64(place.gtid_number);
        out.put_u8(LOGICAL_CLOCK);
        out.put_u64(place.last_committed);
        out.put_u64(place.sequence_number);
        let here = place.commit_us & (ORIGIN_FOLLOWS - 1);
        let version = self.format.version().number();
        match self.origin {
            None => out.put_uint(here, 7),
            Some(origin) => {
                out.put_uint(here | ORIGIN_FOLLOWS, 7);
                out.put_uint(origin.commit_us & (ORIGIN_FOLLOWS - 1), 7);
            }
        }
        out.put_lenenc(transaction_size);
        match self.origin {
            None => out.put_u32(version),
            Some(origin) => {
                out.put_u32(version | 1 << 31);
                out.put_u32(origin.server_version & !(1 << 31));
            }
        }
    }

    fn put_mariadb_gtid(&self, place: &Place, out: &mut impl Put) {
        const GROUP_COMMIT_ID: u8 = 2;
        const TRANSACTIONAL: u8 = 4;
        const ALLOW_PARALLEL: u8 = 8;
        const EXTRA_THREAD_ID: u8 = 16;
        let grouped = if place.commit_id != 0 { GROUP_COMMIT_ID } else { 0 };
        out.put_u64(place.gtid_number);
        out.put_u32(self.format.identity().domain);
        out.put_u8(TRANSACTIONAL | ALLOW_PARALLEL | grouped);
        if place.commit_id != 0 {
            out.put_u64(place.commit_id);
        }
        if self.format.gtid_has_thread() {
            out.put_u8(EXTRA_THREAD_ID);
            out.put_u32(self.thread_id);
        }
    }

    fn header(&self, event_type: EventType, flags: u16) -> Header {
        Header {
            timestamp: self.timestamp,
            event_type,
            server_id: self.format.identity().server_id,
            size: 0,
            log_pos: 0,
            flags,
        }
    }

    fn open_event(&mut self, event_type: EventType, flags: u16) -> usize {
        let start = self.buffer.len();
        self.header(event_type, flags).put(&mut self.buffer);
        start
    }

    /// Leaves room for the checksum and settles the size.
    fn close_event(&mut self, start: usize) {
        self.buffer.put(&[0; 4][..self.format.checksum_size()]);
        let size = (self.buffer.len() - start) as u32;
        self.buffer[start + 9..start + 13].copy_from_slice(&size.to_le_bytes());
    }

    /// BEGIN with the session's variables that replicas need, in the server's order.
    fn put_begin(&mut self, change: Change) {
        const DEFAULT_COLLATION: u16 = crate::table::UTF8MB4_0900_AI_CI;
        let start = self.open_event(EventType::QUERY, FLAG_SUPPRESS_USE);
        let thread_id = self.thread_id;
        let sql_mode = self.sql_mode;
        let of_update = change == Change::Update;
        let out = &mut self.buffer;
        out.put_u32(thread_id);
        out.put_u32(0);
        out.put_u8(0);
        out.put_u16(0);
        out.put_u16(29 + if of_update { 9 } else { 0 });
        out.put_u8(0x00);
        out.put_u32(0);
        out.put_u8(0x01);
        out.put_u64(sql_mode);
        out.put(b"\x06\x03std");
        out.put_u8(0x04);
        for _ in 0..3 {
            out.put_u16(DEFAULT_COLLATION);
        }
        if of_update {
            out.put_u8(0x09);
            out.put_u64(1);
        }
        out.put_u8(0x12);
        out.put_u16(DEFAULT_COLLATION);
        out.put_u8(0);
        out.put(b"BEGIN");
        self.close_event(start);
    }

    fn open_rows(&mut self, table: &Table, change: Change) -> usize {
        let mysql = self.format.flavor() == Flavor::Mysql;
        let event_type = match (change, mysql) {
            (Change::Write, true) => EventType::WRITE_ROWS,
            (Change::Update, true) => EventType::UPDATE_ROWS,
            (Change::Delete, true) => EventType::DELETE_ROWS,
            (Change::Write, false) => EventType::WRITE_ROWS_V1,
            (Change::Update, false) => EventType::UPDATE_ROWS_V1,
            (Change::Delete, false) => EventType::DELETE_ROWS_V1,
        };
        let start = self.open_event(event_type, 0);
        let end_flags = self.format.statement_end_flags();
        let out = &mut self.buffer;
        out.put_uint(table.id(), 6);
        out.put_u16(end_flags & !1);
        if mysql {
            out.put_u16(2);
        }
        let columns = table.columns().len();
        out.put_lenenc(columns as u64);
        let images = if change == Change::Update { 2 } else { 1 };
        for _ in 0..images {
            let bits_at = out.len();
            out.resize(bits_at + columns.div_ceil(8), 0xff);
            if !mysql && !columns.is_multiple_of(8) {
                out[bits_at + columns / 8] = (1 << (columns % 8)) - 1;
            }
        }
        start
    }

    /// Marks the row event at `start` as its statement's last and closes it.
    fn close_statement(&mut self, start: usize) {
        let flags = self.format.statement_end_flags();
        self.buffer[start + HEADER_SIZE + 6..start + HEADER_SIZE + 8].copy_from_slice(&flags.to_le_bytes());
        self.close_event(start);
    }
}

/// A statement whose rows are being written. Dropped without `end`, it leaves nothing behind.
#[derive(Debug)]
pub struct LoggedStatement<'a> {
    body: &'a mut Body,
    table: &'a Table,
    change: Change,
    /// Where the body ended before the statement.
    undo: usize,
    /// Where the open row event begins.
    event: usize,
    rows: u64,
}

impl LoggedStatement<'_> {
    /// Adds an inserted or deleted row: one value for every column.
    ///
    /// # Errors
    /// The row does not fit the table, or the statement is an update; the row is then left out.
    pub fn row(&mut self, values: &[Value<'_>]) -> Result<(), EncodeError> {
        if self.change == Change::Update {
            return Err(EncodeError::Order("an update takes pairs of rows"));
        }
        self.put(&[values])
    }

    /// Adds an updated row as it was and as it is.
    ///
    /// # Errors
    /// The row does not fit the table, or the statement is no update; the row is then left out.
    pub fn update(&mut self, before: &[Value<'_>], after: &[Value<'_>]) -> Result<(), EncodeError> {
        if self.change != Change::Update {
            return Err(EncodeError::Order("only an update takes pairs of rows"));
        }
        self.put(&[before, after])
    }

    /// Ends the statement; one without rows leaves nothing behind.
    pub fn end(mut self) {
        if self.rows > 0 {
            self.body.close_statement(self.event);
            self.undo = self.body.buffer.len();
        }
    }

    fn put(&mut self, images: &[&[Value<'_>]]) -> Result<(), EncodeError> {
        let start = self.body.buffer.len();
        for values in images {
            if let Err(error) = self.put_image(values) {
                self.body.buffer.truncate(start);
                return Err(error);
            }
        }
        let row = self.body.buffer.len() - start;
        if row + self.event_head() > MAX_EVENT_SIZE - CHECKSUM_SIZE {
            self.body.buffer.truncate(start);
            return Err(EncodeError::TooLarge);
        }
        let first = start - self.event == self.event_head();
        if !first && self.body.buffer.len() - self.event - HEADER_SIZE > ROW_EVENT_SIZE {
            self.move_to_next_event(start);
        }
        self.rows += 1;
        Ok(())
    }

    fn put_image(&mut self, values: &[Value<'_>]) -> Result<(), EncodeError> {
        let columns = self.table.columns();
        if values.len() != columns.len() {
            return Err(EncodeError::Columns {
                given: values.len(),
                wanted: columns.len(),
            });
        }
        let flavor = self.body.format.flavor();
        put_row(&mut self.body.buffer, flavor, columns, values)
            .map_err(|(column, reason)| EncodeError::Value { column, reason })
    }

    /// Bytes of a row event before its first row.
    fn event_head(&self) -> usize {
        let columns = self.table.columns().len();
        let extra = if self.body.format.flavor() == Flavor::Mysql {
            2
        } else {
            0
        };
        let images = if self.change == Change::Update { 2 } else { 1 };
        HEADER_SIZE + 8 + extra + lenenc_size(columns as u64) + images * columns.div_ceil(8)
    }

    /// The row at `row` overflows its event: that one ends before it, and another begins with it.
    fn move_to_next_event(&mut self, row: usize) {
        let head = self.event_head();
        let end = row + self.body.format.checksum_size();
        let buffer = &mut self.body.buffer;
        let row_end = buffer.len();
        buffer.resize(row_end + (end - row) + head, 0);
        buffer.copy_within(row..row_end, end + head);
        buffer[row..end].fill(0);
        let size = (end - self.event) as u32;
        buffer[self.event + 9..self.event + 13].copy_from_slice(&size.to_le_bytes());
        // The next event begins as this one does; its size is settled when it is closed.
        buffer.copy_within(self.event..self.event + head, end);
        self.event = end;
    }
}

impl Drop for LoggedStatement<'_> {
    fn drop(&mut self) {
        self.body.buffer.truncate(self.undo);
    }
}
