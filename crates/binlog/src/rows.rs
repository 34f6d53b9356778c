//! Row events that are read: their head, and their rows value by value.

use crate::body::Change;
use crate::bytes::{Malformed, Reader};
use crate::event::EventType;
use crate::table::{Column, ColumnType};
use crate::value::{read_json_changes, read_value, Value};

/// A row event's flag: it is its statement's last.
pub const STATEMENT_END: u16 = 0x01;

/// The table id of an event without rows that only ends a statement.
pub const DUMMY_TABLE_ID: u64 = 0xff_ffff;

/// A row event's head and the bytes of its rows.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The id of the TABLE_MAP that they belong to.
    pub table_id: u64,
    /// `STATEMENT_END` and others.
    pub flags: u16,
    /// What happened to them.
    pub change: Change,
    /// Columns of the table.
    pub columns: usize,
    /// Bits of the columns that each first image has.
    pub present: &'a [u8],
    /// The same for the second image of an update.
    pub present_after: &'a [u8],
    /// Each second image may have changes inside JSON documents in place of documents.
    is_partial: bool,
    rest: Reader<'a>,
}

impl<'a> Rows<'a> {
    /// What a row event's type says; `None` for other types.
    pub fn change_of(event_type: EventType) -> Option<Change> {
        match event_type {
            EventType::WRITE_ROWS | EventType::WRITE_ROWS_V1 => Some(Change::Write),
            EventType::UPDATE_ROWS | EventType::UPDATE_ROWS_V1 | EventType::PARTIAL_UPDATE_ROWS => {
                Some(Change::Update)
            }
            EventType::DELETE_ROWS | EventType::DELETE_ROWS_V1 => Some(Change::Delete),
            _ => None,
        }
    }

    /// Whether a row event's rows are compressed (MariaDB).
    pub fn is_compressed(event_type: EventType) -> bool {
        (EventType::WRITE_ROWS_COMPRESSED_V1..=EventType::DELETE_ROWS_COMPRESSED).contains(&event_type)
    }

    /// Reads the head of a row event's body (without header and checksum).
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub fn parse(event_type: EventType, body: &'a [u8]) -> Result<Self, Malformed> {
        let Some(change) = Self::change_of(event_type) else {
            return Err(Malformed::new("the event is not a row event"));
        };
        let mut reader = Reader::new(body);
        let table_id = reader.uint(6, "the table id")?;
        let flags = reader.uint(2, "the flags")? as u16;
        if event_type >= EventType::WRITE_ROWS {
            let extra = reader.uint(2, "the extra data's size")? as usize;
            let Some(extra) = extra.checked_sub(2) else {
                return Err(Malformed::new("the extra data's size does not count itself"));
            };
            reader.bytes(extra, "the extra data")?;
        }
        let columns = reader.lenenc("the number of columns")? as usize;
        let bits = columns.div_ceil(8);
        let present = reader.bytes(bits, "the bits of present columns")?;
        let present_after = match change {
            Change::Update => reader.bytes(bits, "the bits of present columns")?,
            _ => &[],
        };
        Ok(Self {
            table_id,
            flags,
            change,
            columns,
            present,
            present_after,
            is_partial: event_type == EventType::PARTIAL_UPDATE_ROWS,
            rest: reader,
        })
    }

    /// The bytes of the rows that were not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest.rest()
    }

    /// Whether all rows were read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next row, an update's with both images: `each` is told the image (0, 1), the
    /// column and the value.
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub fn read_row(
        &mut self,
        columns: &[Column],
        mut each: impl FnMut(usize, usize, Value<'a>),
    ) -> Result<(), Malformed> {
        self.require_columns(columns)?;
        self.read_image(columns, self.present, &[], |column, value| each(0, column, value))?;
        if self.change == Change::Update {
            let partial = self.read_partial(columns)?;
            self.read_image(columns, self.present_after, partial, |column, value| {
                each(1, column, value)
            })?;
        }
        Ok(())
    }

    /// The bytes of the next row's images, the second one empty except in updates; not of partial ones.
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub(crate) fn images(&mut self, columns: &[Column]) -> Result<[&'a [u8]; 2], Malformed> {
        self.require_columns(columns)?;
        let (change, first, second) = (self.change, self.present, self.present_after);
        let mut image = |present| {
            let start = self.rest();
            self.read_image(columns, present, &[], |_, _| {})?;
            Ok(&start[..start.len() - self.rest().len()])
        };
        let before = image(first)?;
        match change {
            Change::Update => Ok([before, image(second)?]),
            _ => Ok([before, &[]]),
        }
    }

    fn require_columns(&self, columns: &[Column]) -> Result<(), Malformed> {
        match columns.len() == self.columns {
            true => Ok(()),
            false => Err(Malformed::new(format!(
                "the rows have {} columns, but their table has {}",
                self.columns,
                columns.len()
            ))),
        }
    }

    /// The bits of the JSON columns that have changes in place of a document, one for each JSON column of the
    /// table; none where all have documents.
    fn read_partial(&mut self, columns: &[Column]) -> Result<&'a [u8], Malformed> {
        const PARTIAL_JSON: u64 = 1;
        if !self.is_partial {
            return Ok(&[]);
        }
        match self.rest.lenenc("the options of an image")? {
            0 => Ok(&[]),
            PARTIAL_JSON => {
                let documents = columns.iter().filter(|one| one.column_type == ColumnType::Json);
                self.rest
                    .bytes(documents.count().div_ceil(8), "the bits of partial documents")
            }
            options => Err(Malformed::new(format!(
                "the options {options} of an image are unknown"
            ))),
        }
    }

    fn read_image(
        &mut self,
        columns: &[Column],
        present: &[u8],
        partial: &[u8],
        mut each: impl FnMut(usize, Value<'a>),
    ) -> Result<(), Malformed> {
        let is_set = |bits: &[u8], index: usize| bits[index / 8] >> (index % 8) & 1 == 1;
        let is_present = |index: usize| is_set(present, index);
        let mut documents = 0;
        let count = (0..columns.len()).filter(|index| is_present(*index)).count();
        let nulls = self.rest.bytes(count.div_ceil(8), "the bits of NULLs")?;
        let mut nth = 0;
        for (index, column) in columns.iter().enumerate() {
            let is_json = column.column_type == ColumnType::Json;
            let is_partial = is_json && !partial.is_empty() && is_set(partial, documents);
            documents += usize::from(is_json);
            if !is_present(index) {
                continue;
            }
            let null = is_set(nulls, nth);
            nth += 1;
            if null && !column.nullable {
                return Err(Malformed::new(format!(
                    "column {index} (from 0) is NULL but NOT NULL"
                )));
            }
            let value = match null {
                true => Value::Null,
                false => match is_partial {
                    true => read_json_changes(&mut self.rest),
                    false => read_value(&mut self.rest, column.column_type),
                }
                .map_err(|error| Malformed::new(format!("column {index} (from 0): {error}")))?,
            };
            each(index, value);
        }
        match count {
            // Rows without columns take no bytes: reading them would never end.
            0 => Err(Malformed::new("the rows have no columns")),
            _ => Ok(()),
        }
    }
}
