//! What the tables of a workload look like.

use std::io::Write;

use flushlab_rows::shape::{write_c, write_pad, C_LENGTH, PAD_LENGTH};
use flushlab_rows::Random;

use crate::spec::LoadSpec;
use crate::workload::{Key, Kind};

/// Longest row of an INSERT: `(2147483647, 'c', 'pad'),`.
pub(super) const ROW_BYTES: usize = 10 + C_LENGTH + PAD_LENGTH + 12;

/// The tables of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// sysbench 1.0.20's (src/lua/oltp_common.lua, `create_table`).
    Sbtest,
    /// Rows under a key of the user's, `k`, which is the primary key or a unique index besides one.
    Upsert(Key),
}

impl Layout {
    pub fn of(workload: Kind) -> Self {
        match workload {
            Kind::UpdateNonIndex => Self::Sbtest,
            Kind::Upsert(upsert) => Self::Upsert(upsert.key),
        }
    }

    /// Name of a table, from 1.
    pub fn name(self, table: u32) -> String {
        match self {
            Self::Sbtest => format!("sbtest{table}"),
            Self::Upsert(Key::Unique) => format!("upsert_unique{table}"),
            Self::Upsert(Key::Primary) => format!("upsert_primary{table}"),
        }
    }

    /// sysbench's statement is as sysbench words it, comment included.
    pub fn create(self, table: u32) -> String {
        let name = self.name(table);
        match self {
            Self::Sbtest => format!(
                "CREATE TABLE {name}(\n  id INTEGER NOT NULL AUTO_INCREMENT,\n  \
                 k INTEGER DEFAULT '0' NOT NULL,\n  c CHAR(120) DEFAULT '' NOT NULL,\n  \
                 pad CHAR(60) DEFAULT '' NOT NULL,\n  PRIMARY KEY (id)\n) /*! ENGINE = innodb */ "
            ),
            // BIGINT: every row, also one that is only updated, takes a number of AUTO_INCREMENT.
            Self::Upsert(Key::Unique) => format!(
                "CREATE TABLE {name} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, k BIGINT NOT NULL, \
                 c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, UNIQUE KEY k (k)) ENGINE=InnoDB"
            ),
            Self::Upsert(Key::Primary) => format!(
                "CREATE TABLE {name} (k BIGINT NOT NULL PRIMARY KEY, \
                 c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL) ENGINE=InnoDB"
            ),
        }
    }

    /// Appends row `number`, from 1, as a group of VALUES (k, c, pad).
    pub fn put_row(self, sql: &mut Vec<u8>, number: u32, spec: &LoadSpec, random: &mut Random) {
        let (mut c, mut pad) = ([0; C_LENGTH], [0; PAD_LENGTH]);
        write_c(&mut c, random);
        write_pad(&mut pad, random);
        let k = match self {
            Self::Sbtest => spec.distribution.draw(random, 1, spec.table_size),
            Self::Upsert(_) => number,
        };
        write!(sql, "({k}, '").expect("a Vec takes everything");
        sql.extend_from_slice(&c);
        sql.extend_from_slice(b"', '");
        sql.extend_from_slice(&pad);
        sql.extend_from_slice(b"')");
    }

    /// What is made once the rows are there.
    pub fn index(self, table: u32) -> Option<String> {
        match self {
            Self::Sbtest => Some(format!("CREATE INDEX k_{table} ON sbtest{table}(k)")),
            Self::Upsert(_) => None,
        }
    }

    /// The column whose values the load draws.
    pub fn key(self) -> &'static str {
        match self {
            Self::Sbtest => "id",
            Self::Upsert(_) => "k",
        }
    }

    /// Its columns and their types, without display widths.
    pub fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Sbtest => &[
                ("id", "int"),
                ("k", "int"),
                ("c", "char(120)"),
                ("pad", "char(60)"),
            ],
            Self::Upsert(_) => &[("k", "bigint"), ("c", "char(120)"), ("pad", "char(60)")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_created_as_sysbench_words_it() {
        let created = Layout::Sbtest.create(3);
        assert!(created.starts_with("CREATE TABLE sbtest3(\n  id INTEGER NOT NULL AUTO_INCREMENT,\n"));
        assert!(created.contains("/*! ENGINE = innodb */"));
    }

    #[test]
    fn the_conflicting_key_is_the_primary_key_or_a_unique_index_besides_it() {
        let primary = Layout::Upsert(Key::Primary).create(1);
        assert!(primary.contains("k BIGINT NOT NULL PRIMARY KEY") && !primary.contains("UNIQUE"));
        let unique = Layout::Upsert(Key::Unique).create(1);
        assert!(unique.contains("AUTO_INCREMENT PRIMARY KEY") && unique.contains("UNIQUE KEY k (k)"));
    }
}
