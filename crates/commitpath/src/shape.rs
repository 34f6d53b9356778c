//! What is committed: transactions of sysbench's shapes, or of given sizes.
//!
//! No two committers touch the same row, as if each held its locks until it is acknowledged: replicas may
//! apply what is in flight at once in any order. A row's content follows from table, id and how often it was
//! changed.

use std::sync::Arc;

use flushlab_binlog::sample::sbtest;
use flushlab_binlog::{Body, Change, Column, ColumnType, EncodeError, Format, Table, Value, BINARY};
use flushlab_rows::shape::{write_c, write_pad, C_LENGTH, PAD_LENGTH};
use flushlab_rows::{Bits, Random};

use crate::spec::{Shape, Spec};

/// Schema of the tables.
const SCHEMA: &str = "sbtest";

/// Redo of one sysbench transaction beside its record's header: MySQL 9.7 writes some 830 bytes for an update
/// (`Innodb_redo_log_current_lsn` per transaction; benchmarks/commit_path.py, part calibration, measures it).
const UPDATE_REDO_BYTES: usize = 770;
/// An insert writes into two indexes: an estimate.
const INSERT_REDO_BYTES: usize = 900;

/// Bytes of a blob in a transaction of given size: two rows to an event.
const BLOB_SIZE: usize = 4000;
const TEXTS: usize = 256;

/// Contents of sbtest's rows.
#[derive(Debug)]
struct Rows {
    c: Vec<[u8; C_LENGTH]>,
    pad: Vec<[u8; PAD_LENGTH]>,
}

impl Rows {
    /// Contents that the seed decides.
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (mut c, mut pad) = (vec![[0; C_LENGTH]; TEXTS], vec![[0; PAD_LENGTH]; TEXTS]);
        c.iter_mut().for_each(|text| write_c(text, &mut random));
        pad.iter_mut().for_each(|text| write_pad(text, &mut random));
        Self { c, pad }
    }

    /// `k`, `c` and `pad` of row `id` (from 1) in table `table` (from 0) after `changes` changes, which
    /// count modulo 256.
    fn at(&self, table: u32, id: u32, changes: u8) -> (u32, [u8; C_LENGTH], &[u8; PAD_LENGTH]) {
        let mixed = (id ^ table << 24).wrapping_mul(0x9e37_79b1);
        let mut c = self.c[usize::from(((mixed >> 8) as u8).wrapping_add(changes))];
        // The row and its age stand in the first group, so that no two rows are alike.
        put_digits(&mut c[..11], u64::from(id) * 256 + u64::from(changes));
        (mixed >> 8, c, &self.pad[(mixed >> 24) as usize])
    }
}

fn put_digits(text: &mut [u8], mut number: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// What all committers share.
#[derive(Debug)]
pub struct CommitSource {
    shape: Shape,
    tables: Vec<Table>,
    rows: Rows,
    /// Redo and blobs are cut from here.
    noise: Vec<u8>,
    seed: u64,
    timestamp: u32,
    committers: u32,
}

impl CommitSource {
    /// What a run of the spec commits; `timestamp` is that of its events.
    ///
    /// # Errors
    /// A table's name or columns do not fit into the format.
    pub fn new(spec: &Spec, timestamp: u32) -> Result<Arc<Self>, EncodeError> {
        let Spec {
            shape,
            format,
            committers,
            seed,
            ..
        } = spec;
        let tables = match shape {
            Shape::OltpUpdateNonIndex { tables, .. } | Shape::OltpInsert { tables, .. } => (1..=*tables)
                .map(|n| sbtest(format, 107 + u64::from(n), SCHEMA, &format!("sbtest{n}")))
                .collect::<Result<_, _>>()?,
            Shape::Sizes { .. } => vec![sizes_table(format)?],
        };
        let redo = match shape {
            Shape::Sizes { redo_bytes, .. } => *redo_bytes as usize,
            _ => UPDATE_REDO_BYTES.max(INSERT_REDO_BYTES),
        };
        let mut random = Random::new(seed ^ 0x6e_6f69_7365);
        let noise = (0..redo.max(BLOB_SIZE) + 4096).map(|_| random.bits() as u8);
        Ok(Arc::new(Self {
            shape: shape.clone(),
            tables,
            rows: Rows::new(*seed),
            noise: noise.collect(),
            seed: *seed,
            timestamp,
            committers: *committers,
        }))
    }
}

/// The table of transactions of given size: `id BIGINT PRIMARY KEY, data LONGBLOB NOT NULL`.
fn sizes_table(format: &Format) -> Result<Table, EncodeError> {
    let id = Column::new(ColumnType::Int {
        bytes: 8,
        unsigned: false,
    });
    let data = Column::new(ColumnType::Blob {
        length_bytes: 4,
        collation: BINARY,
    });
    Table::new(format, 107, SCHEMA, "sizes", &[id, data])
}

/// One committer's transactions.
#[derive(Debug)]
pub struct Transactions {
    source: Arc<CommitSource>,
    committer: u32,
    random: Random,
    /// Changes of each own row so far, by table and place among the own ids.
    changes: Vec<u8>,
    own_rows: u32,
    made: u64,
    redo: std::ops::Range<usize>,
}

impl Transactions {
    /// Of committer number `committer`, from 0 on.
    pub fn new(source: &Arc<CommitSource>, committer: u32) -> Self {
        let (own_rows, changes) = match source.shape {
            Shape::OltpUpdateNonIndex { tables, rows } => {
                let own = (rows - committer).div_ceil(source.committers);
                (own, vec![0; (own * tables) as usize])
            }
            _ => (0, Vec::new()),
        };
        Self {
            source: source.clone(),
            committer,
            random: Random::new(source.seed.wrapping_add(u64::from(committer))),
            changes,
            own_rows,
            made: 0,
            redo: 0..0,
        }
    }

    /// Encodes the next transaction.
    ///
    /// # Errors
    /// It is too large for the format.
    pub fn next(&mut self, body: &mut Body, xid: u64) -> Result<(), EncodeError> {
        self.made += 1;
        body.begin(self.source.timestamp, self.committer + 1);
        let redo = match self.source.shape {
            Shape::OltpUpdateNonIndex { .. } => {
                self.update(body)?;
                UPDATE_REDO_BYTES
            }
            Shape::OltpInsert { rows, .. } => {
                self.insert(body, rows)?;
                INSERT_REDO_BYTES
            }
            Shape::Sizes {
                redo_bytes,
                binlog_bytes,
                large_every,
                large_bytes,
            } => {
                let large = self.committer == 0 && large_every > 0 && self.made.is_multiple_of(large_every);
                let bytes = if large { large_bytes } else { binlog_bytes };
                self.blobs(body, bytes as usize)?;
                redo_bytes as usize
            }
        };
        let from = self.random.below(4096) as usize;
        self.redo = from..from + redo;
        body.commit(xid)
    }

    /// The redo of the transaction that was encoded last.
    pub(crate) fn redo(&self) -> &[u8] {
        &self.source.noise[self.redo.clone()]
    }

    fn update(&mut self, body: &mut Body) -> Result<(), EncodeError> {
        let source = &self.source;
        let table = self.random.below(source.tables.len() as u64) as u32;
        let place = self.random.below(u64::from(self.own_rows)) as u32;
        let id = 1 + self.committer + place * source.committers;
        let changes = &mut self.changes[(table * self.own_rows + place) as usize];
        let before = source.rows.at(table, id, *changes);
        *changes = changes.wrapping_add(1);
        let after = source.rows.at(table, id, *changes);
        let mut update = body.statement(&source.tables[table as usize], Change::Update)?;
        update.update(&sbtest_row(id, &before), &sbtest_row(id, &after))?;
        update.end();
        Ok(())
    }

    fn insert(&mut self, body: &mut Body, rows: u32) -> Result<(), EncodeError> {
        let source = &self.source;
        let tables = source.tables.len() as u64;
        let table = (self.made % tables) as u32;
        let round = (self.made / tables) as u32;
        let id = 1 + rows + self.committer + round * source.committers;
        let row = source.rows.at(table, id, 0);
        let mut insert = body.statement(&source.tables[table as usize], Change::Write)?;
        insert.row(&sbtest_row(id, &row))?;
        insert.end();
        Ok(())
    }

    fn blobs(&mut self, body: &mut Body, bytes: usize) -> Result<(), EncodeError> {
        /// Events around the rows and a row's own fields, about.
        const AROUND: usize = 250;
        const ROW: usize = 17;
        let source = &self.source;
        let mut left = bytes.saturating_sub(AROUND).max(1);
        let mut insert = body.statement(&source.tables[0], Change::Write)?;
        let mut id = self.random.bits() as i64 & i64::MAX;
        while left > 0 {
            let size = left.min(BLOB_SIZE);
            insert.row(&[Value::Int(id), Value::Bytes(&source.noise[..size])])?;
            id = (id + 1) & i64::MAX;
            left = left.saturating_sub(size + ROW);
        }
        insert.end();
        Ok(())
    }
}

fn sbtest_row<'a>(id: u32, row: &'a (u32, [u8; C_LENGTH], &'a [u8; PAD_LENGTH])) -> [Value<'a>; 4] {
    [
        Value::Int(i64::from(id)),
        Value::Int(i64::from(row.0)),
        Value::Bytes(&row.1),
        Value::Bytes(row.2),
    ]
}
