use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use flushlab_protocol::command::Param;
use flushlab_protocol::response::Completed;
use flushlab_rows::shape::{write_c, write_pad, C_LENGTH, PAD_LENGTH};
use flushlab_rows::{Bits, Random};

use super::event::{Effect, Next, Rank, Workload};
use crate::connection::{Connection, PreparedStatement};
use crate::layout::{Key, Layout, TableSet};
use crate::share::Share;
use crate::Error;

const ER_PARSE: u16 = 1064;

/// The options of `upsert`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Upsert {
    /// Rows per statement.
    pub rows: u32,
    pub key: Key,
    /// Share of the rows that exist already.
    pub hit_ratio: f64,
    /// Every statement commits by itself.
    pub autocommit: bool,
}

/// The next key that each table has not seen yet; one for all connections.
#[derive(Debug, Clone)]
pub(crate) struct NewKeys {
    next: Arc<[AtomicU64]>,
    step: u64,
}

impl NewKeys {
    /// Those beyond the largest key of each table, apart from those of other load generators.
    pub fn beyond(largest: Vec<u64>, share: Share) -> Self {
        let first = |key| AtomicU64::new(key + 1 + u64::from(share.generator));
        Self {
            next: largest.into_iter().map(first).collect(),
            step: u64::from(share.generators),
        }
    }

    #[inline]
    fn take(&self, table: u32) -> u64 {
        self.next[table as usize].fetch_add(self.step, Ordering::Relaxed)
    }
}

/// INSERT … ON DUPLICATE KEY UPDATE of whole rows, several per statement.
///
/// A row exists already with the probability `hit_ratio`: its key is then drawn from the prepared
/// ones, 1 to `table_size`. Other keys are new and ascend over all connections. The tables are dealt
/// out: connections share one only where there are more connections than tables.
pub(super) struct Upserts {
    layout: Layout,
    /// From 0.
    tables: Vec<u32>,
    statements: Vec<PreparedStatement>,
    turn: usize,
    rows: Vec<Row>,
    hit_ratio: f64,
    set: TableSet,
    new_keys: NewKeys,
    autocommit: bool,
}

#[derive(Clone)]
struct Row {
    k: i64,
    c: [u8; C_LENGTH],
    pad: [u8; PAD_LENGTH],
}

impl Row {
    fn params(&self) -> [Param<'_>; 3] {
        [
            Param::BigInt(self.k),
            Param::Char(&self.c),
            Param::Char(&self.pad),
        ]
    }
}

impl Upserts {
    pub fn new(set: &TableSet, upsert: Upsert, rank: Rank, new_keys: &NewKeys) -> Self {
        let row = Row {
            k: 0,
            c: [0; C_LENGTH],
            pad: [0; PAD_LENGTH],
        };
        Self {
            layout: Layout::Upsert(upsert.key),
            tables: dealt(set.count, rank).collect(),
            statements: Vec::new(),
            turn: 0,
            rows: vec![row; upsert.rows as usize],
            hit_ratio: upsert.hit_ratio,
            set: *set,
            new_keys: new_keys.clone(),
            autocommit: upsert.autocommit,
        }
    }
}

impl Workload for Upserts {
    fn statements(&self) -> Vec<String> {
        vec!["INSERT".into()]
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let name = |table: &u32| self.layout.name(table + 1);
        self.statements = self
            .tables
            .iter()
            .map(|table| prepare(connection, &name(table), self.rows.len()))
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    fn next(&mut self, random: &mut Random, out: &mut Vec<u8>) -> Result<Next, Error> {
        let turn = self.turn;
        self.turn = (turn + 1) % self.tables.len();
        let table = self.tables[turn];
        for row in &mut self.rows {
            row.k = if random.unit() < self.hit_ratio {
                i64::from(self.set.draw(random))
            } else {
                self.new_keys.take(table) as i64
            };
            write_c(&mut row.c, random);
            write_pad(&mut row.pad, random);
        }
        self.statements[turn].execute(out, self.rows.iter().flat_map(Row::params))?;
        Ok(Next {
            commits: self.autocommit,
            ..Next::SINGLE
        })
    }

    fn answered(&mut self, completed: &Completed) -> Effect {
        let rows = self.rows.len() as u64;
        Effect {
            amount: rows,
            // An inserted row counts once, an updated one twice (MySQL manual, "INSERT ... ON DUPLICATE
            // KEY UPDATE PreparedStatement").
            updated: completed.affected_rows.saturating_sub(rows),
        }
    }

    fn abandon(&mut self) {}
}

/// The tables, from 0, of the connection of that rank.
fn dealt(tables: u32, rank: Rank) -> impl Iterator<Item = u32> {
    let first = rank.number % tables;
    (first..tables).step_by(rank.of as usize)
}

/// Prepares the statement in the wording that this server does not call deprecated: MySQL has a row
/// alias since 8.0.19, MariaDB and MySQL before have VALUES().
fn prepare(connection: &mut Connection, table: &str, rows: usize) -> Result<PreparedStatement, Error> {
    let with_alias = statement(table, rows, " AS fresh", "c=fresh.c, pad=fresh.pad");
    match connection.prepare(&with_alias) {
        Err(Error {
            errno: Some(ER_PARSE),
            ..
        }) => connection.prepare(&statement(table, rows, "", "c=VALUES(c), pad=VALUES(pad)")),
        other => other,
    }
}

fn statement(table: &str, rows: usize, alias: &str, assignments: &str) -> String {
    let values = vec!["(?,?,?)"; rows].join(",");
    format!("INSERT INTO {table} (k,c,pad) VALUES {values}{alias} ON DUPLICATE KEY UPDATE {assignments}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables_of(tables: u32, of: u32) -> Vec<Vec<u32>> {
        (0..of)
            .map(|number| dealt(tables, Rank { number, of }).collect())
            .collect()
    }

    #[test]
    fn new_keys_of_several_load_generators_never_meet() {
        let of = |generator| {
            let share = Share {
                generator,
                generators: 3,
                first_connection: generator,
                connections: 3,
            };
            let keys = NewKeys::beyond(vec![100, 7], share);
            [keys.take(0), keys.take(0), keys.take(1)]
        };
        assert_eq!(
            [of(0), of(1), of(2)],
            [[101, 104, 8], [102, 105, 9], [103, 106, 10]]
        );
    }

    #[test]
    fn tables_are_dealt_out_and_shared_only_by_surplus_connections() {
        assert_eq!(tables_of(5, 2), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(tables_of(2, 2), [[0], [1]]);
        assert_eq!(tables_of(2, 5), [[0], [1], [0], [1], [0]]);
        assert_eq!(tables_of(3, 1), [[0, 1, 2]]);
    }

    #[test]
    fn a_statement_has_a_group_per_row() {
        assert_eq!(
            statement("t", 2, " AS fresh", "c=fresh.c"),
            "INSERT INTO t (k,c,pad) VALUES (?,?,?),(?,?,?) AS fresh ON DUPLICATE KEY UPDATE c=fresh.c"
        );
    }
}
