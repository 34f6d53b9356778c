//! Indexes of a large table that wait until its rows are there: building one by sorting costs a fraction of keeping
//! it in order row by row.
//!
//! What is taken away and given back is what the server
//! itself says in SHOW CREATE TABLE, word for word and in its order, so that the table ends as the script has it.
//! A table with anything out of the ordinary keeps its indexes, and so does one whose indexes the server does not
//! let go. PRIMARY and UNIQUE stay, for what they refuse; where flushlab makes the rows itself, UNIQUE may wait.

use super::literals::Columns;
use crate::connection::Connection;
use crate::Error;

/// Where one of these stands in a definition, the order of indexes, or how they are added, follows rules of its own.
const OUT_OF_THE_ORDINARY: [&str; 7] = [
    "FULLTEXT KEY",
    "SPATIAL KEY",
    "VECTOR KEY",
    "GENERATED ALWAYS",
    "SYSTEM VERSIONING",
    "PERIOD FOR",
    "((",
];

/// Whether definitions are shown in part, whether foreign keys are checked, whether rows of literals come to the same in
/// any order, and where; nothing if another table refers to this one by what may be one of the indexes.
const STATE: &str = "SELECT @@sql_mode LIKE '%\\_OPTIONS%', @@foreign_key_checks, \
    @@sql_mode NOT LIKE '%BACKSLASH%' AND ABS(TIMESTAMPDIFF(SECOND, SYSDATE(), NOW())) < 2 AND NOT EXISTS \
    (SELECT 1 FROM information_schema.triggers WHERE event_object_schema = DATABASE() \
    AND event_object_table = {table}), DATABASE() FROM DUAL WHERE NOT EXISTS \
    (SELECT 1 FROM information_schema.referential_constraints WHERE unique_constraint_schema = DATABASE() \
    AND COALESCE(unique_constraint_name, '') <> 'PRIMARY' AND referenced_table_name = {table})";

/// Flags of a session's status.
const IN_TRANSACTION: u16 = 1;
const AUTOCOMMIT: u16 = 2;

/// A large table that rows are coming for.
#[derive(Debug)]
pub(crate) struct Taken {
    /// In its quotes.
    pub table: Vec<u8>,
    /// With its database, for people.
    pub name: String,
    /// What gives the indexes back; nothing was taken without it.
    pub keys: Option<String>,
    /// What gives the foreign keys back once the indexes are there.
    pub foreign: Option<String>,
    /// The indexes may wait for what follows: the session commits every statement and checks no foreign keys.
    pub may_wait: bool,
    /// Statements were not committed one by one; they are until the rows are there.
    pub autocommit_off: bool,
    /// Rows of literals for these come to the same in any order.
    pub columns: Option<Columns>,
}

/// The table that rows are coming for.
#[derive(Debug)]
pub(crate) struct LateIndexes {
    /// Of a table's rows, before its indexes are taken away; never without.
    from_bytes: Option<usize>,
    /// In its quotes; empty between tables.
    table: Vec<u8>,
    bytes: usize,
}

impl LateIndexes {
    pub fn new(from_bytes: Option<usize>) -> Self {
        Self {
            from_bytes,
            table: Vec::new(),
            bytes: 0,
        }
    }

    /// Whether a statement that puts rows into that table goes on with what came before.
    pub fn are_of(&self, table: Option<&[u8]>) -> bool {
        self.table == table.unwrap_or_default()
    }

    /// The rows of a table have ended.
    pub fn forget(&mut self) {
        self.table.clear();
        self.bytes = 0;
    }

    /// A statement that puts rows into that table runs next; what was taken from the table for it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Server`]: the server is gone.
    pub fn rows(
        &mut self,
        connection: &mut Connection,
        table: Option<&[u8]>,
        bytes: usize,
    ) -> Result<Option<Taken>, Error> {
        let (Some(from_bytes), Some(table)) = (self.from_bytes, table) else {
            return Ok(None);
        };
        self.table = table.to_vec();
        let before = self.bytes;
        self.bytes += bytes;
        if before >= from_bytes || self.bytes < from_bytes {
            return Ok(None);
        }
        let Ok(name) = std::str::from_utf8(table) else {
            return Ok(None);
        };
        match taken(connection, name) {
            Err(error) if error.errno.is_some() => Ok(None), // it keeps them
            outcome => outcome,
        }
    }
}

fn taken(connection: &mut Connection, table: &str) -> Result<Option<Taken>, Error> {
    let shown = connection.rows(&format!("SHOW CREATE TABLE {table}"))?;
    let definition = shown.first().and_then(|row| row.get(1)?.as_deref());
    let Some(parts) = definition.and_then(Parts::of) else {
        return Ok(None);
    };
    let bare = table.trim_matches('`');
    let state = connection.rows(&STATE.replace("{table}", &format!("'{bare}'")))?;
    let Some([Some(hidden), Some(checks), Some(any_order), Some(database)]) =
        state.first().map(|row| &row[..])
    else {
        return Ok(None);
    };
    let free = checks == "0" || !parts.foreign();
    if hidden != "0" || !free || !database.is_ascii() {
        return Ok(None);
    }
    let status = connection.query("DO 0")?.status;
    let commits = status & (AUTOCOMMIT | IN_TRANSACTION) == AUTOCOMMIT;
    let has_keys = !parts.keys.is_empty();
    let columns = parts
        .columns
        .filter(|_| any_order == "1" && (commits || has_keys));
    if !has_keys && columns.is_none() {
        return Ok(None);
    }
    // Foreign keys of this table may need its indexes. A lock would ask for one of the tables that they refer to.
    connection.query("UNLOCK TABLES")?;
    let name = format!("`{}`.{table}", database.replace('`', "``"));
    let alter =
        |parts: &[String]| (!parts.is_empty()).then(|| format!("ALTER TABLE {name} {}", parts.join(", ")));
    if has_keys {
        connection.query(&alter(&parts.drop).unwrap_or_default())?;
    }
    let autocommit_off = has_keys && status & AUTOCOMMIT == 0;
    if autocommit_off {
        connection.query("SET autocommit=1")?;
    }
    Ok(Some(Taken {
        table: table.as_bytes().to_vec(),
        name: format!("{database}.{bare}"),
        foreign: alter(&parts.foreign).filter(|_| has_keys),
        keys: alter(&parts.keys),
        may_wait: has_keys && !autocommit_off && checks == "0",
        autocommit_off,
        columns,
    }))
}

/// What follows ALTER TABLE to take away the indexes that can wait for a table's rows, and to give them back, by its SHOW
/// CREATE TABLE: UNIQUE too, for whom a duplicate that is found at the end is soon enough, where a PRIMARY KEY orders
/// the rows. None if it has no such index, or anything out of the ordinary, or a foreign key that may need one.
pub fn late_parts(definition: &str) -> Option<(String, String)> {
    let mut parts = Parts::of(definition)?;
    if definition.contains("\n  PRIMARY KEY (") {
        for (name, add) in &parts.unique {
            parts.drop.push(format!("DROP KEY `{name}`"));
            parts.keys.push(add.clone());
        }
    }
    let waits = !parts.keys.is_empty() && !parts.foreign();
    waits.then(|| (parts.drop.join(", "), parts.keys.join(", ")))
}

/// What a definition has of indexes that can wait, and of foreign keys.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    /// Both.
    drop: Vec<String>,
    keys: Vec<String>,
    foreign: Vec<String>,
    /// Names and how they are added.
    unique: Vec<(String, String)>,
    /// If its rows are ordered by what is in them.
    columns: Option<Columns>,
}

impl Parts {
    fn foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    fn of(definition: &str) -> Option<Self> {
        if !definition.contains("ENGINE=InnoDB")
            || OUT_OF_THE_ORDINARY.iter().any(|it| definition.contains(it))
        {
            return None;
        }
        let mut parts = Self {
            drop: Vec::new(),
            keys: Vec::new(),
            foreign: Vec::new(),
            unique: Vec::new(),
            columns: None,
        };
        let mut columns = Columns::default();
        for line in definition.lines() {
            if let Some(rest) = line.strip_prefix("  `") {
                let name = rest.split('`').next()?.to_owned();
                if line.contains(" AUTO_INCREMENT") {
                    columns.numbered.push(name.clone());
                }
                columns.names.push(name);
            }
            let line = line.strip_prefix("  ").unwrap_or_default();
            let (what, rest) = match line.split_once(" `") {
                Some((what @ ("KEY" | "UNIQUE KEY"), rest)) => (what, rest),
                Some(("CONSTRAINT", rest)) if rest.contains(" FOREIGN KEY ") => ("FOREIGN KEY", rest),
                _ => continue,
            };
            let (name, of) = rest.split_once('`')?;
            // The answer comes in the character set of results, and goes back in the client's.
            if !line.is_ascii() || line.contains("``") {
                if what == "UNIQUE KEY" {
                    continue; // it stays
                }
                return None;
            }
            // A column that numbers rows has to be the first one of some index.
            let numbers = |column: &String| {
                of.starts_with(&format!(" (`{column}`"))
                    && !definition.contains(&format!("\n  PRIMARY KEY (`{column}`"))
            };
            if columns.numbered.iter().any(numbers) {
                continue;
            }
            let add = format!("ADD {}", line.trim_end_matches(','));
            match what {
                "UNIQUE KEY" => {
                    parts.unique.push((name.to_owned(), add));
                    continue;
                }
                "KEY" => parts.keys.push(add),
                _ => parts.foreign.push(add),
            }
            parts.drop.push(format!("DROP {what} `{name}`"));
        }
        let ordered = definition.starts_with("CREATE TABLE") && definition.contains("\n  PRIMARY KEY (");
        if ordered && !definition.contains("INVISIBLE") {
            parts.columns = Some(columns);
        }
        Some(parts)
    }
}

/// The table, in its quotes, that a statement of a dump puts rows into; of the current database.
pub(crate) fn rows_of(sql: &[u8]) -> Option<&[u8]> {
    const LONGEST_VERB: usize = 40;
    let quote = sql.iter().take(LONGEST_VERB).position(|&byte| byte == b'`')?;
    let verb = std::str::from_utf8(&sql[..quote]).ok()?.to_ascii_uppercase();
    let mut words = verb.split_ascii_whitespace();
    let first = words.next()?;
    if !matches!(first, "INSERT" | "REPLACE") || words.next_back()? != "INTO" {
        return None;
    }
    let rest = &sql[quote + 1..];
    let end = rest.iter().position(|&byte| byte == b'`')?;
    let plain = !rest[..end].iter().any(|byte| b"'\\".contains(byte));
    let ends = rest.get(end + 1).is_some_and(|byte| b" (".contains(byte));
    (plain && ends).then(|| &sql[quote..quote + end + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str =
        "CREATE TABLE `item` (\n  `id` int NOT NULL,\n  `of` int DEFAULT NULL,\n  PRIMARY KEY (`id`),\n\
        \x20 UNIQUE KEY `u` (`of`,`id`),\n  KEY `of` (`of`),\n  KEY `long` (`of` DESC,`id`) COMMENT 'a, b',\n\
        \x20 CONSTRAINT `f` FOREIGN KEY (`of`) REFERENCES `of` (`id`) ON DELETE CASCADE,\n\
        \x20 CONSTRAINT `c` CHECK (`of` > 1)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4";

    #[test]
    fn plain_indexes_and_foreign_keys_are_given_back_word_for_word() {
        let parts = Parts::of(SHOP).unwrap();
        assert_eq!(
            parts.drop,
            ["DROP KEY `of`", "DROP KEY `long`", "DROP FOREIGN KEY `f`"]
        );
        assert_eq!(
            parts.keys,
            [
                "ADD KEY `of` (`of`)",
                "ADD KEY `long` (`of` DESC,`id`) COMMENT 'a, b'"
            ]
        );
        assert_eq!(
            parts.foreign,
            ["ADD CONSTRAINT `f` FOREIGN KEY (`of`) REFERENCES `of` (`id`) ON DELETE CASCADE"]
        );
    }

    #[test]
    fn unique_indexes_wait_too_where_a_primary_key_orders_the_rows() {
        let alone = SHOP.replace("  CONSTRAINT `f` FOREIGN KEY", "  CONSTRAINT `f` CHECK");
        let (drop, add) = late_parts(&alone).unwrap();
        assert_eq!(drop, "DROP KEY `of`, DROP KEY `long`, DROP KEY `u`");
        assert!(add.ends_with(", ADD UNIQUE KEY `u` (`of`,`id`)"), "{add}");
        let (drop, _) = late_parts(&alone.replace("  PRIMARY KEY (`id`),\n", "")).unwrap();
        assert_eq!(drop, "DROP KEY `of`, DROP KEY `long`");
        assert_eq!(late_parts(SHOP), None, "a foreign key may need them");
    }

    #[test]
    fn the_index_of_a_column_that_numbers_rows_stays() {
        let numbered = SHOP.replace("`of` int DEFAULT NULL", "`of` int NOT NULL AUTO_INCREMENT");
        let parts = Parts::of(&numbered).unwrap();
        assert_eq!(parts.drop, ["DROP FOREIGN KEY `f`"]);
        assert_eq!((parts.keys, parts.unique), (vec![], vec![]));
    }

    #[test]
    fn a_table_out_of_the_ordinary_keeps_its_indexes() {
        for (from, to) in [
            ("InnoDB", "MyISAM"),
            ("UNIQUE KEY", "FULLTEXT KEY"),
            ("  KEY `long` (`of` DESC", "  KEY `long` ((`of` + 1)"),
            ("a, b", "größer"),
            ("`long`", "`lo``ng`"),
            ("DEFAULT NULL", "GENERATED ALWAYS AS (1)"),
        ] {
            let changed = SHOP.replace(from, to);
            assert_ne!(changed, SHOP);
            assert_eq!(Parts::of(&changed), None, "{to}");
        }
    }

    #[test]
    fn rows_may_come_in_any_order_where_a_primary_key_orders_them() {
        let numbered = SHOP.replace("`id` int NOT NULL", "`id` int NOT NULL AUTO_INCREMENT");
        let columns = Columns {
            names: vec!["id".into(), "of".into()],
            numbered: vec!["id".into()],
        };
        assert_eq!(Parts::of(&numbered).unwrap().columns, Some(columns));
        for (from, to) in [
            ("  PRIMARY KEY (`id`),\n", ""),
            ("CREATE TABLE", "CREATE TEMPORARY TABLE"),
            ("DEFAULT NULL", "DEFAULT NULL /*!80023 INVISIBLE */"),
        ] {
            let changed = SHOP.replace(from, to);
            assert_ne!(changed, SHOP);
            assert_eq!(Parts::of(&changed).unwrap().columns, None, "{to}");
        }
    }

    #[test]
    fn rows_are_those_of_a_quoted_table_of_the_current_database() {
        for sql in [
            "INSERT INTO `a b` VALUES (1)",
            "insert  ignore into `a b` (`x`) values (1)",
            "REPLACE INTO `a b` VALUES (1)",
        ] {
            assert_eq!(rows_of(sql.as_bytes()), Some(b"`a b`".as_slice()), "{sql}");
        }
        for sql in [
            "INSERT INTO a VALUES ('`')",
            "INSERT INTO `d`.`a` VALUES (1)",
            "INSERT INTO `a``b` VALUES (1)",
            "INSERT INTO `it's` VALUES (1)",
            "INSERT INTO `a",
            "UPDATE `a` SET x = 1",
            "INSERT `a` VALUES (1)",
            "",
        ] {
            assert_eq!(rows_of(sql.as_bytes()), None, "{sql}");
        }
    }
}
