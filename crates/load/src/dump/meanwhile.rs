//! What of a dump may run while indexes of its earlier tables are being built on other connections.
//!
//! Pure. When in doubt a statement waits. It must neither need such a table nor lock it, nor hold a lock that the end
//! of the building might wait for: sessions that build commit every statement and check no foreign keys.

use super::literals::only_literals;

/// What becomes of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    Runs,
    Waits,
    /// It would do nothing but lock, or be ignored by the storage engine.
    Skipped,
}

/// Decides.
///
/// # Arguments
/// * `sql`, `words`: a statement, and its first words in capitals.
/// * `tables`: in their quotes, those whose indexes are being built; InnoDB all of them.
/// * `rows_of`: the table, in its quotes, that it puts rows into.
pub(crate) fn meanwhile(sql: &[u8], words: &[String], tables: &[&[u8]], rows_of: Option<&[u8]>) -> Meanwhile {
    if let Some(table) = rows_of {
        let elsewhere = !tables.contains(&table);
        return match elsewhere && only_literals(sql, None) {
            true => Meanwhile::Runs,
            false => Meanwhile::Waits,
        };
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let names = |table: &&[u8]| mentions(sql, &table[1..table.len() - 1]);
    match words[..] {
        ["LOCK", "TABLES" | "TABLE", ..] => Meanwhile::Skipped,
        ["ALTER", "TABLE", "ENABLE" | "DISABLE", "KEYS"]
            if tables.iter().any(|table| mentions(sql, table)) =>
        {
            Meanwhile::Skipped
        }
        ["UNLOCK", ..] | ["COMMIT"] => Meanwhile::Runs,
        ["SET", ..] if mentions(sql, b"foreign_key_checks") || mentions(sql, b"autocommit") => {
            Meanwhile::Waits
        }
        ["SET", ..]
        | ["USE", ..]
        | ["DROP" | "CREATE", "TABLE" | "VIEW", ..]
        | ["ALTER", "TABLE", "ENABLE" | "DISABLE", "KEYS"]
            if !tables.iter().any(names) =>
        {
            Meanwhile::Runs
        }
        _ => Meanwhile::Waits,
    }
}

fn mentions(sql: &[u8], name: &[u8]) -> bool {
    let mut windows = sql.windows(name.len());
    windows.any(|window| window.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::words;

    fn decided(sql: &str) -> Meanwhile {
        let beginning: Vec<String> = words(sql.as_bytes()).take(4).collect();
        let rows = super::super::late_indexes::rows_of(sql.as_bytes());
        meanwhile(sql.as_bytes(), &beginning, &[b"`item`"], rows)
    }

    #[test]
    fn what_comes_between_two_tables_of_a_dump_does_not_wait() {
        for sql in [
            "DROP TABLE IF EXISTS `order`",
            "/*!40101 SET @saved_cs_client     = @@character_set_client */",
            "/*!50503 SET character_set_client = utf8mb4 */",
            "CREATE TABLE `order` (\n  `id` int NOT NULL\n) ENGINE=InnoDB",
            "/*!40000 ALTER TABLE `order` DISABLE KEYS */",
            "UNLOCK TABLES",
            "USE `other`",
            "INSERT INTO `order` VALUES (1,'item')",
        ] {
            assert_eq!(decided(sql), Meanwhile::Runs, "{sql}");
        }
    }

    #[test]
    fn what_only_locks_or_does_nothing_to_the_engine_is_skipped() {
        for sql in [
            "LOCK TABLES `order` WRITE",
            "LOCK TABLES `item` WRITE",
            "/*!40000 ALTER TABLE `item` ENABLE KEYS */",
        ] {
            assert_eq!(decided(sql), Meanwhile::Skipped, "{sql}");
        }
    }

    #[test]
    fn what_may_need_the_indexes_or_nobody_knows_of_waits() {
        for sql in [
            "CREATE TABLE `line` (`of` int, FOREIGN KEY (`of`) REFERENCES `ITEM` (`id`))",
            "DROP TABLE IF EXISTS item",
            "ALTER TABLE `item` ADD KEY (`a`)",
            "ALTER TABLE `order` ADD KEY (`a`)",
            "CREATE TRIGGER `t` BEFORE INSERT ON `order` FOR EACH ROW SET @a = 1",
            "CREATE UNIQUE INDEX `i` ON `order` (`a`)",
            "/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */",
            "SET autocommit=0",
            "START TRANSACTION",
            "BEGIN",
            "INSERT INTO `item` VALUES (1)",
            "INSERT INTO `order` SELECT * FROM `x`",
            "REPLACE INTO `order` VALUES (1)",
            "INSERT INTO order VALUES (1)",
            "UPDATE `order` SET a = 1",
            "SELECT 1",
            "ANALYZE TABLE `order`",
            "DROP DATABASE other",
            "CREATE DATABASE other",
            "FLUSH TABLES",
            "CALL p()",
        ] {
            assert_eq!(decided(sql), Meanwhile::Waits, "{sql}");
        }
    }
}
