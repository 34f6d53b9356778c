//! The inverse of what a log says was committed: row events that take it back.
//!
//! Inserted rows are deleted, deleted ones are inserted, updated ones get their earlier image back; the last
//! change comes first. A server applies such events by `BINLOG '…'` without triggers, and without checks of
//! foreign keys where they ask for it, as these do. Format: MySQL, `libs/mysql/binlog/event/rows_event.h`;
//! MariaDB, `sql/log_event.h`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read, Seek};

use base64::prelude::{Engine, BASE64_STANDARD};

use crate::body::Change;
use crate::bytes::{Malformed, Put};
use crate::event::{put_event, EventType, Header, FLAG_IN_USE};
use crate::payload::uncompressed_rows;
use crate::read::{read_events_from, Event};
use crate::rows::{Rows, DUMMY_TABLE_ID, STATEMENT_END};
use crate::table::TableMap;
use crate::transaction::{Description, Query};

/// A row event's flag: foreign keys are not checked, and their actions not taken.
const NO_FOREIGN_KEY_CHECKS: u16 = 0x02;

/// Bytes of events in one statement, about: far below `max_allowed_packet`, whose least default is 4 MiB.
const STATEMENT_SIZE: usize = 256 << 10;

/// What takes back a stretch of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Inverse {
    /// Where the last event that was read ends.
    pub end: u64,
    /// The file's description, in base64: a session needs it once, before the first statement.
    pub description: String,
    /// Events in base64, for `BINLOG '…'`, in the order in which they are to be applied.
    pub statements: Vec<String>,
    /// The tables whose rows were changed.
    pub tables: Vec<Changed>,
    /// The tables that a statement emptied: `statements` are without them.
    pub emptied: Vec<TableName>,
    /// Statements that emptied a table.
    pub truncations: u64,
    /// Transactions that changed rows.
    pub transactions: u64,
    /// The first statement that may have made or removed a table or a database, or nothing (`DROP TABLE IF EXISTS`):
    /// only the server can tell.
    pub conditional: Option<String>,
    /// The first event that cannot be taken back, in the words of SQL where it is a statement; nothing is to be
    /// applied then.
    pub barrier: Option<String>,
}

/// A table's schema and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TableName {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
}

impl TableName {
    /// The table of a schema, both as a log has them.
    pub fn new(schema: &[u8], name: &[u8]) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self {
            schema: text(schema),
            name: text(name),
        }
    }
}

/// A table, and how many of its rows were changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Changed {
    /// The table.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub table: TableName,
    /// Rows that were inserted.
    pub inserted: u64,
    /// Rows that were updated.
    pub updated: u64,
    /// Rows that were deleted.
    pub deleted: u64,
    /// Columns, from 0, that some image lacks: generated ones, or the rows are not logged in full.
    pub missing: BTreeSet<usize>,
}

/// Reads a file from `start`, which is 0 or the end of an event, and turns around what it committed; at most
/// `most_bytes`, and nothing of the tables in `without`.
///
/// # Errors
/// The file cannot be read.
pub fn invert(
    file: impl Read + Seek,
    start: u64,
    most_bytes: u64,
    without: &[TableName],
) -> io::Result<Inverse> {
    let mut open = Open {
        left: most_bytes,
        ..Open::default()
    };
    let reached = read_events_from(file, start, |event| open.take(event))?;
    let barrier = match reached.unreadable {
        None if reached.torn || open.is_inside => Some("a transaction that is being written".to_owned()),
        reason => reason,
    };
    let statements = match barrier {
        None => open.statements(without),
        Some(_) => Vec::new(),
    };
    Ok(Inverse {
        end: reached.end,
        description: BASE64_STANDARD.encode(&open.description),
        statements,
        tables: open.changed.into_values().collect(),
        emptied: open.emptied.into_iter().collect(),
        truncations: open.truncations,
        transactions: open.transactions,
        conditional: open.conditional,
        barrier,
    })
}

/// A table that row events refer to.
struct Mapped {
    body: Vec<u8>,
    map: TableMap,
}

/// What was read so far.
#[derive(Default)]
struct Open {
    description: Vec<u8>,
    checksums: bool,
    tables: HashMap<u64, Mapped>,
    /// Pairs of TABLE_MAP and rows, in the log's order.
    pairs: Vec<(TableName, Vec<u8>)>,
    changed: BTreeMap<TableName, Changed>,
    emptied: BTreeSet<TableName>,
    truncations: u64,
    transactions: u64,
    conditional: Option<String>,
    is_inside: bool,
    has_rows: bool,
    left: u64,
}

fn barrier(what: impl Into<String>) -> Malformed {
    Malformed::unknown(what)
}

impl Open {
    /// The pairs from the last to the first, several in a statement.
    fn statements(&self, without: &[TableName]) -> Vec<String> {
        let mut statements = Vec::new();
        let mut bytes = Vec::new();
        let is_wanted = |table| !without.contains(table) && !self.emptied.contains(table);
        for (_, pair) in self.pairs.iter().rev().filter(|(table, _)| is_wanted(table)) {
            if !bytes.is_empty() && bytes.len() + pair.len() > STATEMENT_SIZE {
                statements.push(BASE64_STANDARD.encode(&bytes));
                bytes.clear();
            }
            bytes.extend_from_slice(pair);
        }
        if !bytes.is_empty() {
            statements.push(BASE64_STANDARD.encode(&bytes));
        }
        statements
    }

    fn take(&mut self, event: &Event<'_>) -> Result<(), Malformed> {
        let event_type = event.header.event_type;
        match event_type {
            EventType::FORMAT_DESCRIPTION => self.describe(event)?,
            EventType::TABLE_MAP => {
                let map = TableMap::parse(event.body)?;
                let body = event.body.to_vec();
                self.tables.insert(map.id, Mapped { body, map });
            }
            EventType::QUERY | EventType::QUERY_COMPRESSED => {
                self.query(&Query::parse(event_type, event.body)?)?;
            }
            EventType::XID => self.end(),
            EventType::GTID
            | EventType::GTID_TAGGED
            | EventType::ANONYMOUS_GTID
            | EventType::PREVIOUS_GTIDS
            | EventType::GTID_LIST
            | EventType::BINLOG_CHECKPOINT
            | EventType::ROWS_QUERY
            | EventType::ANNOTATE_ROWS
            | EventType::TRANSACTION_PAYLOAD => {}
            EventType::MARIADB_GTID => self.is_inside = true,
            EventType::ROTATE | EventType::STOP => {
                return Err(barrier("a binary log that goes on in another file"))
            }
            EventType::XA_PREPARE => return Err(barrier("XA PREPARE")),
            EventType::PARTIAL_UPDATE_ROWS => return Err(barrier("partial updates of JSON documents")),
            _ if Rows::is_compressed(event_type) || Rows::change_of(event_type).is_some() => {
                let (plain, body) = uncompressed_rows(event_type, event.body)?;
                self.rows(&event.header, plain, &body)?;
            }
            other => return Err(barrier(format!("an event of the type {other}"))),
        }
        Ok(())
    }

    /// Keeps the description as it was before the file was in use.
    fn describe(&mut self, event: &Event<'_>) -> Result<(), Malformed> {
        self.checksums = Description::parse(event.body)?.checksums;
        let mut header = event.header;
        header.flags &= !FLAG_IN_USE;
        header.put(&mut self.description);
        self.description.extend_from_slice(event.body);
        Ok(())
    }

    fn query(&mut self, query: &Query<'_>) -> Result<(), Malformed> {
        if let Some(table) = truncated(query.text(), query.schema) {
            self.emptied.insert(table);
            self.truncations += 1;
            self.is_inside = false;
            return Ok(());
        }
        let words = first_words(query.text(), 2);
        match words.as_str() {
            "BEGIN" => self.is_inside = true,
            "COMMIT" => self.end(),
            "SAVEPOINT" => {}
            // Nothing of what these do is in a table of the user's, or lives longer than its session.
            "FLUSH TABLES" | "DROP TEMPORARY" => self.is_inside = false,
            "CREATE TABLE" | "DROP TABLE" | "CREATE DATABASE" | "CREATE SCHEMA" | "DROP DATABASE"
            | "DROP SCHEMA"
                if first_words(query.text(), 3).ends_with(" IF") =>
            {
                self.is_inside = false;
                self.conditional.get_or_insert(words);
            }
            _ => return Err(barrier(words)),
        }
        Ok(())
    }

    fn end(&mut self) {
        self.is_inside = false;
        self.transactions += u64::from(std::mem::take(&mut self.has_rows));
    }

    fn rows(&mut self, header: &Header, event_type: EventType, body: &[u8]) -> Result<(), Malformed> {
        let mut rows = Rows::parse(event_type, body)?;
        if rows.table_id == DUMMY_TABLE_ID && rows.is_empty() {
            return Ok(());
        }
        let mapped = self
            .tables
            .get(&rows.table_id)
            .ok_or_else(|| Malformed::new("rows of a table that is not described"))?;
        let table = TableName::new(&mapped.map.schema, &mapped.map.name);
        let mut read = Vec::new();
        while !rows.is_empty() {
            read.push(rows.images(&mapped.map.columns)?);
        }
        let changed = self.changed.entry(table.clone()).or_insert_with(|| Changed {
            table: table.clone(),
            inserted: 0,
            updated: 0,
            deleted: 0,
            missing: BTreeSet::new(),
        });
        changed.missing.extend(missing(rows.present, rows.columns));
        if rows.change == Change::Update {
            changed.missing.extend(missing(rows.present_after, rows.columns));
        }
        *match rows.change {
            Change::Write => &mut changed.inserted,
            Change::Update => &mut changed.updated,
            Change::Delete => &mut changed.deleted,
        } += read.len() as u64;

        let mut pair = Vec::with_capacity(mapped.body.len() + body.len() + 64);
        let like = |event_type| Header {
            event_type,
            flags: 0,
            ..*header
        };
        put_event(&mut pair, 0, like(EventType::TABLE_MAP), self.checksums, |out| {
            out.extend_from_slice(&mapped.body);
        });
        let taken_back = opposite(event_type);
        put_event(&mut pair, 0, like(taken_back), self.checksums, |out| {
            out.put_uint(rows.table_id, 6);
            out.put_u16(STATEMENT_END | NO_FOREIGN_KEY_CHECKS);
            if event_type >= EventType::WRITE_ROWS {
                out.put_u16(2); // no extra data: the partition may be another
            }
            out.put_lenenc(rows.columns as u64);
            out.put(rows.present_after);
            out.put(rows.present);
            for [before, after] in read.iter().rev() {
                out.put(after);
                out.put(before);
            }
        });
        self.left = self
            .left
            .checked_sub(pair.len() as u64)
            .ok_or_else(|| barrier("more than is taken back row by row"))?;
        self.pairs.push((table, pair));
        self.has_rows = true;
        Ok(())
    }
}

/// The columns whose bits are not set.
fn missing(bits: &[u8], columns: usize) -> impl Iterator<Item = usize> + '_ {
    (0..columns).filter(|index| bits[index / 8] >> (index % 8) & 1 == 0)
}

fn opposite(event_type: EventType) -> EventType {
    match event_type {
        EventType::WRITE_ROWS => EventType::DELETE_ROWS,
        EventType::DELETE_ROWS => EventType::WRITE_ROWS,
        EventType::WRITE_ROWS_V1 => EventType::DELETE_ROWS_V1,
        EventType::DELETE_ROWS_V1 => EventType::WRITE_ROWS_V1,
        update => update,
    }
}

/// The table that a statement empties; `None` for other statements, and for what is not understood.
fn truncated(text: &[u8], schema: &[u8]) -> Option<TableName> {
    let text = std::str::from_utf8(text).ok()?;
    let rest = keyword(text.trim_start(), "TRUNCATE")?;
    let rest = keyword(rest, "TABLE").unwrap_or(rest);
    let (first, rest) = identifier(rest)?;
    let (schema, name, rest) = match rest.trim_start().strip_prefix('.') {
        Some(rest) => {
            let (name, rest) = identifier(rest.trim_start())?;
            (first, name, rest)
        }
        None => (std::str::from_utf8(schema).ok()?.to_owned(), first, rest),
    };
    let rest = rest.trim_start().trim_start_matches(';').trim();
    let is_comment = rest.starts_with("/*") && rest.find("*/") == Some(rest.len() - 2);
    (rest.is_empty() || is_comment).then_some(TableName { schema, name })
}

/// What follows a word and at least one space.
fn keyword<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    let is_word = start.eq_ignore_ascii_case(word) && rest.starts_with(|one: char| one.is_whitespace());
    is_word.then(|| rest.trim_start())
}

/// A name at the front of a text, in backticks or not, and what follows.
fn identifier(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('`') else {
        let is_plain = |one: char| one.is_alphanumeric() || one == '_' || one == '$';
        let end = text.find(|one| !is_plain(one)).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (part, behind) = rest.split_once('`')?;
        name.push_str(part);
        match behind.strip_prefix('`') {
            Some(more) => {
                name.push('`');
                rest = more;
            }
            None => return Some((name, behind)),
        }
    }
}

/// The words that say what kind of statement it is, so many at most and in capitals, without comments; the words
/// behind them may be a password's.
fn first_words(text: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(text);
    let mut rest = text.trim_start();
    let mut words: Vec<String> = Vec::new();
    while words.len() < most {
        if let Some(comment) = rest.strip_prefix("/*") {
            // What stands in a comment for one server is a word for it: DROP /*!40005 TEMPORARY */ TABLE.
            rest = match comment.strip_prefix('!') {
                Some(inner) => inner
                    .trim_start_matches(|one: char| one.is_ascii_digit())
                    .trim_start(),
                None => comment
                    .split_once("*/")
                    .map_or("", |(_, behind)| behind)
                    .trim_start(),
            };
            continue;
        }
        let end = rest
            .find(|one: char| !one.is_ascii_alphabetic() && one != '_')
            .unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        words.push(rest[..end].to_ascii_uppercase());
        rest = rest[end..].trim_start();
    }
    match words.first().map(String::as_str) {
        None => "a statement".to_owned(),
        Some("SAVEPOINT") => words.swap_remove(0),
        Some(_) => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::{first_words, truncated};

    #[test]
    fn the_table_that_a_statement_empties_is_found() {
        let found =
            |text: &str| truncated(text.as_bytes(), b"app").map(|one| format!("{}|{}", one.schema, one.name));
        for (text, expected) in [
            ("TRUNCATE TABLE t", "app|t"),
            ("truncate  t ;", "app|t"),
            ("TRUNCATE other.`a ``b.c`", "other|a `b.c"),
            ("TRUNCATE TABLE `x` . y /* of a test */", "x|y"),
            ("  TRUNCATE größe", "app|größe"),
            ("TRUNCATE table_a", "app|table_a"),
        ] {
            assert_eq!(found(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "TRUNCATE TABLE t, u",
            "TRUNCATE TABLE t WAIT 5",
            "TRUNCATE TABLE `t",
            "TRUNCATE TABLE t; DROP TABLE u",
            "TRUNCATE /* */ t /* */ x */",
            "DROP TABLE t",
            "TRUNCATETABLE t",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn a_statement_is_told_by_its_kind_alone() {
        for (text, expected) in [
            ("CREATE USER u IDENTIFIED BY 'secret'", "CREATE USER"),
            ("/* comment */ drop  table t", "DROP TABLE"),
            ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`", "DROP TEMPORARY"),
            ("SAVEPOINT `a`", "SAVEPOINT"),
            ("ROLLBACK TO a", "ROLLBACK TO"),
            ("BEGIN", "BEGIN"),
            ("# hm", "a statement"),
            ("", "a statement"),
        ] {
            assert_eq!(first_words(text.as_bytes(), 2), expected, "{text}");
        }
    }

    #[test]
    fn a_condition_is_the_third_word() {
        for (text, expected) in [
            ("DROP TABLE IF EXISTS `t` /* generated by server */", true),
            ("create table if not exists t (id INT)", true),
            ("DROP TABLE /* if */ t", false),
            ("CREATE TABLE `if` (id INT)", false),
            ("CREATE TABLE ifs (id INT)", false),
        ] {
            assert_eq!(
                first_words(text.as_bytes(), 3).ends_with(" IF"),
                expected,
                "{text}"
            );
        }
    }
}
