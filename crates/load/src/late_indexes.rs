//! Indexes of a large table that wait until its rows are there: building one by sorting costs a fraction of keeping
//! it in order row by row.
//!
//! Sits between [`crate::ScriptStream`] and its connection. What is taken away and given back is what the server
//! itself says in SHOW CREATE TABLE, word for word and in its order, so that the table ends as the script has it.
//! A table with anything out of the ordinary keeps its indexes, and so does one whose indexes the server does not
//! let go; PRIMARY and UNIQUE always stay, for what they refuse.

use crate::connection::Connection;
use crate::script::excerpt;
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

/// Whether definitions are shown in part, and whether foreign keys are checked; nothing if another table refers to
/// this one by what may be one of the indexes.
const STATE: &str = "SELECT @@sql_mode LIKE '%\\_OPTIONS%', @@foreign_key_checks FROM DUAL WHERE NOT EXISTS \
    (SELECT 1 FROM information_schema.referential_constraints WHERE unique_constraint_schema = DATABASE() \
    AND COALESCE(unique_constraint_name, '') <> 'PRIMARY' AND referenced_table_name = ";

/// The indexes of the table that rows are coming for.
#[derive(Debug)]
pub(crate) struct LateIndexes {
    /// Of a table's rows, before its indexes are taken away; never without.
    from_bytes: Option<usize>,
    /// In its quotes; empty between tables.
    table: Vec<u8>,
    bytes: usize,
    /// What gives them back.
    add: Option<String>,
}

impl LateIndexes {
    pub fn new(from_bytes: Option<usize>) -> Self {
        Self {
            from_bytes,
            table: Vec::new(),
            bytes: 0,
            add: None,
        }
    }

    /// That statement runs next.
    ///
    /// # Errors
    /// As [`LateIndexes::give_back`].
    pub fn before(&mut self, connection: &mut Connection, sql: &[u8]) -> Result<(), Error> {
        let Some(from_bytes) = self.from_bytes else {
            return Ok(());
        };
        let table = rows_of(sql).unwrap_or_default();
        if table != self.table {
            self.give_back(connection)?;
            self.table = table.to_vec();
            self.bytes = 0;
        }
        if self.table.is_empty() {
            return Ok(());
        }
        let before = self.bytes;
        self.bytes += sql.len();
        if before < from_bytes && self.bytes >= from_bytes {
            self.add = self.take_away(connection)?;
        }
        Ok(())
    }

    /// All rows are there.
    ///
    /// # Errors
    /// [`crate::Kind::Server`]: the indexes cannot be built, or the server is gone.
    pub fn give_back(&mut self, connection: &mut Connection) -> Result<(), Error> {
        match self.add.take() {
            Some(sql) => connection.query(&sql).map(drop).map_err(|mut error| {
                error.message.push_str(", at ");
                error.message.push_str(&excerpt(sql.as_bytes()));
                error
            }),
            None => Ok(()),
        }
    }

    /// Takes the indexes away if it may; what gives them back.
    fn take_away(&self, connection: &mut Connection) -> Result<Option<String>, Error> {
        let Ok(table) = std::str::from_utf8(&self.table) else {
            return Ok(None);
        };
        match taken(connection, table) {
            Err(error) if error.errno.is_some() => Ok(None), // it keeps them
            outcome => outcome,
        }
    }
}

fn taken(connection: &mut Connection, table: &str) -> Result<Option<String>, Error> {
    let shown = connection.rows(&format!("SHOW CREATE TABLE {table}"))?;
    let definition = shown.first().and_then(|row| row.get(1)?.as_deref());
    let Some(parts) = definition.and_then(Parts::of) else {
        return Ok(None);
    };
    let name = table.trim_matches('`');
    let state = connection.rows(&format!("{STATE}'{name}')"))?;
    let state: Vec<&str> = state.iter().flatten().flatten().map(String::as_str).collect();
    if state != ["0", "0"] && (state != ["0", "1"] || parts.foreign) {
        return Ok(None);
    }
    // Foreign keys of this table may need its indexes. A lock would ask for one of the tables that they refer to.
    connection.query("UNLOCK TABLES")?;
    connection.query(&format!("ALTER TABLE {table} {}", parts.drop.join(", ")))?;
    Ok(Some(format!("ALTER TABLE {table} {}", parts.add.join(", "))))
}

/// What a definition has of indexes that can wait, and of foreign keys.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    drop: Vec<String>,
    add: Vec<String>,
    foreign: bool,
}

impl Parts {
    fn of(definition: &str) -> Option<Self> {
        if !definition.contains("ENGINE=InnoDB")
            || OUT_OF_THE_ORDINARY.iter().any(|it| definition.contains(it))
        {
            return None;
        }
        let mut parts = Self {
            drop: Vec::new(),
            add: Vec::new(),
            foreign: false,
        };
        let mut indexes = false;
        for line in definition.lines() {
            let (what, rest) = match (line.strip_prefix("  KEY "), line.strip_prefix("  CONSTRAINT ")) {
                (Some(rest), _) => ("KEY", rest),
                (_, Some(rest)) if rest.contains(" FOREIGN KEY ") => ("FOREIGN KEY", rest),
                _ => continue,
            };
            let name = rest.strip_prefix('`')?.split('`').next()?;
            // The answer comes in the character set of results, and goes back in the client's.
            if !line.is_ascii() || line.contains("``") {
                return None;
            }
            indexes |= what == "KEY";
            parts.foreign |= what == "FOREIGN KEY";
            parts.drop.push(format!("DROP {what} `{name}`"));
            parts
                .add
                .push(format!("ADD {}", line.trim().trim_end_matches(',')));
        }
        indexes.then_some(parts)
    }
}

/// The table, in its quotes, that a statement of a dump puts rows into; of the current database.
fn rows_of(sql: &[u8]) -> Option<&[u8]> {
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
            parts.add,
            [
                "ADD KEY `of` (`of`)",
                "ADD KEY `long` (`of` DESC,`id`) COMMENT 'a, b'",
                "ADD CONSTRAINT `f` FOREIGN KEY (`of`) REFERENCES `of` (`id`) ON DELETE CASCADE",
            ]
        );
        assert!(parts.foreign);
    }

    #[test]
    fn a_table_out_of_the_ordinary_keeps_its_indexes() {
        for (from, to) in [
            ("InnoDB", "MyISAM"),
            ("UNIQUE KEY", "FULLTEXT KEY"),
            ("  KEY `long` (`of` DESC", "  KEY `long` ((`of` + 1)"),
            ("a, b", "größer"),
            ("`long`", "`lo``ng`"),
            ("  KEY", "  UNIQUE KEY"),
            ("DEFAULT NULL", "GENERATED ALWAYS AS (1)"),
        ] {
            let changed = SHOP.replace(from, to);
            assert_ne!(changed, SHOP);
            assert_eq!(Parts::of(&changed), None, "{to}");
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
