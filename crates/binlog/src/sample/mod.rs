//! A small log with rows of every column type, for trying what reads binlogs.

mod rows;
mod tables;

use std::io;
use std::path::Path;

use crate::{Body, Change, Format, Log, LogError, LogOptions, Table, Value};

use rows::{document, extreme_row, null_row, usual_row, zero_row, Long};
pub use tables::{sbtest, type_columns, TABLES};

/// When every transaction of a sample commits: seconds since 1970.
const COMMITTED_S: u32 = 1_790_000_000;

/// What a sample holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Sample {
    /// Files.
    pub files: u32,
    /// Transactions.
    pub transactions: u64,
    /// Inserted rows.
    pub written: u64,
    /// Pairs of updated rows.
    pub updated: u64,
    /// Deleted rows.
    pub deleted: u64,
}

/// How much is written, and how its log ends.
#[derive(Debug, Clone)]
pub struct SampleOptions {
    /// The schema of its tables.
    pub schema: String,
    /// Updates of one row of sbtest1, each a transaction.
    pub updates: u32,
    /// Size at which the next file begins.
    pub max_size: u64,
    /// `false` leaves the last file in use, as a crash does.
    pub close: bool,
}

/// Writes a sample log, named `binlog`, into an existing folder.
///
/// # Errors
/// A file cannot be made or written.
pub fn write_sample(format: &Format, folder: &Path, options: &SampleOptions) -> io::Result<Sample> {
    let log_options = LogOptions {
        basename: "binlog".to_owned(),
        max_size: options.max_size,
        timestamp: COMMITTED_S,
    };
    let log = Log::create(format, folder, log_options)?;
    let mut writer = Writer {
        body: Body::new(format),
        log,
        sample: Sample::default(),
    };
    let written = writer.write(format, options);
    written.map_err(|error| match error {
        LogError::Io(error) => error,
        LogError::Encode(error) => io::Error::other(error),
    })?;
    let mut sample = writer.sample;
    sample.files = writer.log.number();
    match options.close {
        true => writer.log.close()?,
        false => writer.log.flush()?,
    }
    Ok(sample)
}

struct Writer {
    body: Body,
    log: Log,
    sample: Sample,
}

impl Writer {
    fn write(&mut self, format: &Format, options: &SampleOptions) -> Result<(), LogError> {
        self.types(format, &options.schema)?;
        self.sbtest(format, options)
    }

    fn begin(&mut self) {
        self.body.begin(COMMITTED_S, 8);
    }

    fn commit(&mut self) -> Result<(), LogError> {
        let xid = self.sample.transactions + 1;
        self.body.commit(xid)?;
        // Two of each three transactions commit in a group, where there are such.
        let commit_id = if xid.is_multiple_of(3) { 0 } else { 1 + xid / 3 };
        let commit_us = u64::from(COMMITTED_S) * 1_000_000 + xid;
        self.log.append(&self.body, commit_us, None, commit_id)?;
        self.sample.transactions = xid;
        Ok(())
    }

    fn types(&mut self, format: &Format, schema: &str) -> Result<(), LogError> {
        let columns = type_columns(format.flavor());
        let table = Table::new(format, 109, schema, "types", &columns)?;
        let document = document(format.flavor());
        let long = Long::new(format.flavor());
        let rows = [
            null_row(columns.len()),
            usual_row(&document),
            zero_row(format.flavor()),
            extreme_row(&long),
        ];
        self.begin();
        self.body.annotate("INSERT INTO types VALUES …")?;
        let mut insert = self.body.statement(&table, Change::Write)?;
        for row in &rows {
            insert.row(row)?;
        }
        insert.end();
        self.sample.written += rows.len() as u64;
        self.commit()?;

        // Each row becomes the one after it, under an id of its own.
        self.begin();
        let mut update = self.body.statement(&table, Change::Update)?;
        for (index, row) in rows.iter().enumerate() {
            let mut after = rows[(index + 1) % rows.len()].clone();
            after[0] = Value::Int(11 + index as i64);
            update.update(row, &after)?;
        }
        update.end();
        self.sample.updated += rows.len() as u64;
        self.commit()?;

        self.begin();
        let mut delete = self.body.statement(&table, Change::Delete)?;
        // The row of NULLs, where the update left it.
        let mut gone = rows[0].clone();
        gone[0] = Value::Int(14);
        delete.row(&gone)?;
        delete.end();
        self.sample.deleted += 1;
        self.commit()
    }

    fn sbtest(&mut self, format: &Format, options: &SampleOptions) -> Result<(), LogError> {
        const ROWS: u32 = 100;
        let table = sbtest(format, 110, &options.schema, "sbtest1")?;
        let pad = "12345678901-".repeat(4);
        let c = |version: u32| format!("{version:011}{}", "-12345678901".repeat(9));
        // One statement of many rows: more than one row event.
        self.begin();
        let mut insert = self.body.statement(&table, Change::Write)?;
        let first = c(0);
        for id in 1..=i64::from(ROWS) {
            let row = [
                Value::Int(id),
                Value::Int(id * 7),
                Value::Bytes(first.as_bytes()),
                Value::Bytes(pad.as_bytes()),
            ];
            insert.row(&row)?;
        }
        insert.end();
        self.sample.written += u64::from(ROWS);
        self.commit()?;
        for update in 0..options.updates {
            let id = i64::from(update % ROWS) + 1;
            let (before, after) = (
                c(if update < ROWS { 0 } else { update + 1 - ROWS }),
                c(update + 1),
            );
            self.begin();
            let mut statement = self.body.statement(&table, Change::Update)?;
            let [old, new] = [&before, &after].map(|c| {
                let (c, pad) = (Value::Bytes(c.as_bytes()), Value::Bytes(pad.as_bytes()));
                [Value::Int(id), Value::Int(id * 7), c, pad]
            });
            statement.update(&old, &new)?;
            statement.end();
            self.sample.updated += 1;
            self.commit()?;
        }
        Ok(())
    }
}
