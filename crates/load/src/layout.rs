//! What the tables of a workload look like.

use std::io::Write;

use flushlab_rows::distribution::Distribution;
use flushlab_rows::shape::{write_c, write_pad, C_LENGTH, PAD_LENGTH};
use flushlab_rows::Random;

/// Longest row of an INSERT: `(2147483647, 2147483647, 'c', 'pad'),`.
pub(crate) const ROW_BYTES: usize = 22 + C_LENGTH + PAD_LENGTH + 12;

/// How many tables there are, how large, and which of their rows are touched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableSet {
    pub count: u32,
    /// Rows of each.
    pub size: u32,
    /// Of the ids in 1 to `size`.
    pub distribution: Distribution,
}

impl TableSet {
    /// The id of a row.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        self.distribution.draw(random, 1, self.size)
    }
}

/// Which key a row that exists already conflicts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A unique index besides an auto-increment primary key.
    Unique,
    /// The primary key itself.
    Primary,
}

/// The tables of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// sysbench 1.0.20's (src/lua/oltp_common.lua, `create_table`).
    Sbtest(Sbtest),
    /// Rows under a key of the user's, `k`, which is the primary key or a unique index besides one.
    Upsert(Key),
}

/// sysbench's options that shape its tables, and what its workload does with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sbtest {
    /// The server makes the ids.
    pub auto_inc: bool,
    /// `id` has a secondary index, and nothing is the primary key.
    pub secondary: bool,
    /// `k` has an index.
    pub create_secondary: bool,
    /// There are rows before the load.
    pub filled: bool,
    /// The load inserts rows under new ids and touches no other.
    pub inserts: bool,
}

impl Default for Sbtest {
    fn default() -> Self {
        Self {
            auto_inc: true,
            secondary: false,
            create_secondary: true,
            filled: true,
            inserts: false,
        }
    }
}

impl Layout {
    /// Name of a table, from 1.
    pub fn name(self, table: u32) -> String {
        match self {
            Self::Sbtest(_) => format!("sbtest{table}"),
            Self::Upsert(Key::Unique) => format!("upsert_unique{table}"),
            Self::Upsert(Key::Primary) => format!("upsert_primary{table}"),
        }
    }

    /// sysbench's statement is as sysbench words it, comment included. A table has `mark` as its comment from
    /// its first instant, unless it is empty.
    pub fn create(self, table: u32, mark: &str) -> String {
        let name = self.name(table);
        let mut statement = match self {
            Self::Sbtest(sbtest) => {
                let number = if sbtest.auto_inc { " AUTO_INCREMENT" } else { "" };
                let key = if sbtest.secondary {
                    "KEY xid"
                } else {
                    "PRIMARY KEY"
                };
                format!(
                    "CREATE TABLE {name}(\n  id INTEGER NOT NULL{number},\n  \
                     k INTEGER DEFAULT '0' NOT NULL,\n  c CHAR(120) DEFAULT '' NOT NULL,\n  \
                     pad CHAR(60) DEFAULT '' NOT NULL,\n  {key} (id)\n) /*! ENGINE = innodb */ "
                )
            }
            // BIGINT: every row, also one that is only updated, takes a number of AUTO_INCREMENT.
            Self::Upsert(Key::Unique) => format!(
                "CREATE TABLE {name} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, k BIGINT NOT NULL, \
                 c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, UNIQUE KEY k (k)) ENGINE=InnoDB"
            ),
            Self::Upsert(Key::Primary) => format!(
                "CREATE TABLE {name} (k BIGINT NOT NULL PRIMARY KEY, \
                 c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL) ENGINE=InnoDB"
            ),
        };
        if !mark.is_empty() {
            statement.push_str(&format!(" COMMENT='{mark}'"));
        }
        statement
    }

    /// Rows of a table before the load.
    pub fn rows(self, table_size: u32) -> u32 {
        match self {
            Self::Sbtest(sbtest) if !sbtest.filled => 0,
            _ => table_size,
        }
    }

    /// The columns that a row of an INSERT names. Ids too, where the server could make them: a cluster's
    /// nodes would leave gaps between them, in which loads find no rows.
    pub fn inserted(self) -> &'static str {
        match self {
            Self::Sbtest(_) => "id, k, c, pad",
            Self::Upsert(_) => "k, c, pad",
        }
    }

    /// Appends row `number`, from 1, as a group of VALUES.
    pub fn put_row(self, sql: &mut Vec<u8>, number: u32, tables: &TableSet, random: &mut Random) {
        let (mut c, mut pad) = ([0; C_LENGTH], [0; PAD_LENGTH]);
        write_c(&mut c, random);
        write_pad(&mut pad, random);
        match self {
            Self::Sbtest(_) => {
                let k = tables.draw(random);
                write!(sql, "({number}, {k}, '")
            }
            Self::Upsert(_) => write!(sql, "({number}, '"),
        }
        .expect("a Vec takes everything");
        sql.extend_from_slice(&c);
        sql.extend_from_slice(b"', '");
        sql.extend_from_slice(&pad);
        sql.extend_from_slice(b"')");
    }

    /// What is made once the rows are there.
    pub fn index(self, table: u32) -> Option<String> {
        match self {
            Self::Sbtest(sbtest) if sbtest.create_secondary => {
                Some(format!("CREATE INDEX k_{table} ON sbtest{table}(k)"))
            }
            _ => None,
        }
    }

    /// Whether the load draws keys of rows that are there.
    pub fn draws_keys(self) -> bool {
        !matches!(self, Self::Sbtest(Sbtest { inserts: true, .. }))
    }

    /// Whether the load leaves new keys to the server.
    pub fn numbers_rows(self) -> bool {
        matches!(
            self,
            Self::Sbtest(Sbtest {
                inserts: true,
                auto_inc: true,
                ..
            })
        )
    }

    /// The column that identifies a row.
    pub fn key(self) -> &'static str {
        match self {
            Self::Sbtest(_) => "id",
            Self::Upsert(_) => "k",
        }
    }

    /// Its columns and their types, without display widths.
    pub fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Sbtest(_) => &[
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
        let created = Layout::Sbtest(Sbtest::default()).create(3, "");
        assert!(created.starts_with("CREATE TABLE sbtest3(\n  id INTEGER NOT NULL AUTO_INCREMENT,\n"));
        assert!(created.contains("  PRIMARY KEY (id)\n) /*! ENGINE = innodb */"));
        let bare = Sbtest {
            auto_inc: false,
            secondary: true,
            create_secondary: false,
            ..Sbtest::default()
        };
        let created = Layout::Sbtest(bare).create(3, "");
        assert!(created.contains("  id INTEGER NOT NULL,\n") && created.contains("  KEY xid (id)\n"));
        assert_eq!(Layout::Sbtest(bare).index(3), None);
    }

    #[test]
    fn a_table_has_its_mark_from_the_first_instant() {
        for layout in [Layout::Sbtest(Sbtest::default()), Layout::Upsert(Key::Unique)] {
            let plain = layout.create(1, "");
            assert!(!plain.contains("COMMENT"));
            assert_eq!(layout.create(1, "ours 1f"), format!("{plain} COMMENT='ours 1f'"));
        }
    }

    #[test]
    fn the_conflicting_key_is_the_primary_key_or_a_unique_index_besides_it() {
        let primary = Layout::Upsert(Key::Primary).create(1, "");
        assert!(primary.contains("k BIGINT NOT NULL PRIMARY KEY") && !primary.contains("UNIQUE"));
        let unique = Layout::Upsert(Key::Unique).create(1, "");
        assert!(unique.contains("AUTO_INCREMENT PRIMARY KEY") && unique.contains("UNIQUE KEY k (k)"));
    }
}
