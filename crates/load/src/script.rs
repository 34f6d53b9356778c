//! SQL scripts: split into statements as the servers' command-line clients split them.

use crate::Error;

/// Longest part of a statement that messages quote.
const EXCERPT: usize = 60;

/// One statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Where it begins, from 1.
    pub line: u32,
    /// Without its delimiter.
    pub sql: &'a [u8],
}

/// Splits a script at its delimiters.
///
/// A delimiter in a string, a quoted identifier or a comment is none; in a conditional comment
/// (`/*! … */`, `/*M! … */`) neither. `DELIMITER` is obeyed at the beginning of a line that begins a
/// statement. What holds nothing but comments is left out, unless they are conditional. A backslash
/// escapes in strings, as without NO_BACKSLASH_ESCAPES.
///
/// # Errors
/// [`crate::Kind::Usage`]: a string, identifier or comment that does not end, or a DELIMITER without one.
pub fn split(script: &[u8]) -> Result<Vec<Statement<'_>>, Error> {
    let script = script.strip_prefix(b"\xef\xbb\xbf").unwrap_or(script);
    let mut scanner = Scanner {
        script,
        at: 0,
        line: 1,
    };
    let mut delimiter: &[u8] = b";";
    let mut statements = Vec::new();
    let mut begun: Option<(usize, u32)> = None;
    let mut conditional: Option<u32> = None;
    while scanner.at < script.len() {
        let (at, line) = (scanner.at, scanner.line);
        if begun.is_none() {
            if let Some(word) = scanner.delimiter_command()? {
                delimiter = word;
                continue;
            }
        }
        if conditional.is_none() && script[at..].starts_with(delimiter) {
            if let Some((start, line)) = begun.take() {
                statements.push(Statement {
                    line,
                    sql: script[start..at].trim_ascii_end(),
                });
            }
            scanner.advance(delimiter.len());
            continue;
        }
        match scanner.next()? {
            Piece::Blank => {}
            Piece::Code => {
                begun.get_or_insert((at, line));
            }
            Piece::OpensConditional => {
                conditional.get_or_insert(line);
                begun.get_or_insert((at, line));
            }
            Piece::ClosesConditional => conditional = None,
        }
    }
    if let Some(line) = conditional {
        return Err(unended("comment", line));
    }
    if let Some((start, line)) = begun {
        statements.push(Statement {
            line,
            sql: script[start..].trim_ascii_end(),
        });
    }
    Ok(statements)
}

/// What the next bytes are.
enum Piece {
    /// Space or a comment.
    Blank,
    /// A string, an identifier or a byte of anything else.
    Code,
    /// `/*!` or `/*M!`.
    OpensConditional,
    /// `*/` outside of an ordinary comment.
    ClosesConditional,
}

struct Scanner<'a> {
    script: &'a [u8],
    at: usize,
    line: u32,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.script[self.at..]
    }

    fn advance(&mut self, count: usize) {
        let passed = &self.rest()[..count];
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count() as u32;
        self.at += count;
    }

    fn next(&mut self) -> Result<Piece, Error> {
        let rest = self.rest();
        match rest {
            [b'\'' | b'"' | b'`', ..] => self.quoted()?,
            [b'#', ..] => return Ok(self.rest_of_line()),
            // "-- " needs the space, or "1--1" would begin a comment.
            [b'-', b'-'] => return Ok(self.rest_of_line()),
            [b'-', b'-', after, ..] if after.is_ascii_whitespace() || after.is_ascii_control() => {
                return Ok(self.rest_of_line())
            }
            [b'/', b'*', b'!', ..] => {
                self.advance(3);
                return Ok(Piece::OpensConditional);
            }
            [b'/', b'*', b'M', b'!', ..] => {
                self.advance(4);
                return Ok(Piece::OpensConditional);
            }
            [b'/', b'*', inside @ ..] => {
                let Some(end) = position(inside, b"*/") else {
                    return Err(unended("comment", self.line));
                };
                self.advance(2 + end + 2);
                return Ok(Piece::Blank);
            }
            [b'*', b'/', ..] => {
                self.advance(2);
                return Ok(Piece::ClosesConditional);
            }
            [byte, ..] if byte.is_ascii_whitespace() => {
                self.advance(1);
                return Ok(Piece::Blank);
            }
            _ => self.advance(1),
        }
        Ok(Piece::Code)
    }

    /// Passes a string or a quoted identifier. Doubled quotes look like two of them, side by side.
    fn quoted(&mut self) -> Result<(), Error> {
        let rest = self.rest();
        let quote = rest[0];
        let mut at = 1;
        while let Some(&byte) = rest.get(at) {
            at += 1;
            if byte == quote {
                self.advance(at);
                return Ok(());
            }
            if byte == b'\\' && quote != b'`' {
                at += 1;
            }
        }
        let what = if quote == b'`' {
            "quoted identifier"
        } else {
            "string"
        };
        Err(unended(what, self.line))
    }

    fn rest_of_line(&mut self) -> Piece {
        let rest = self.rest();
        let count = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        self.advance(count);
        Piece::Blank
    }

    /// Passes `DELIMITER word` at the beginning of a line; the word.
    fn delimiter_command(&mut self) -> Result<Option<&'a [u8]>, Error> {
        const COMMAND: &[u8] = b"delimiter";
        let line_begins = self.script[..self.at]
            .iter()
            .rev()
            .take_while(|&&byte| byte != b'\n')
            .all(u8::is_ascii_whitespace);
        let rest = self.rest();
        if !line_begins || rest.len() < COMMAND.len() || !rest[..COMMAND.len()].eq_ignore_ascii_case(COMMAND)
        {
            return Ok(None);
        }
        let after = &rest[COMMAND.len()..];
        let end = after
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(after.len());
        let after = &after[..end];
        if after.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return Ok(None);
        }
        let word = after.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
        let Some(word) = word else {
            return Err(Error::usage(format!(
                "line {}: DELIMITER names no delimiter",
                self.line
            )));
        };
        self.advance(COMMAND.len() + end);
        Ok(Some(word))
    }
}

fn unended(what: &str, line: u32) -> Error {
    Error::usage(format!("line {line}: the {what} that begins here does not end"))
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// What follows CREATE, ALTER, DROP and the like, somewhere among modifiers.
const OBJECTS: [&str; 17] = [
    "TABLE",
    "TABLES",
    "INDEX",
    "VIEW",
    "TRIGGER",
    "PROCEDURE",
    "FUNCTION",
    "EVENT",
    "DATABASE",
    "SCHEMA",
    "USER",
    "ROLE",
    "SEQUENCE",
    "SERVER",
    "TABLESPACE",
    "INSTANCE",
    "PACKAGE",
];

/// Words that may stand between such a verb and its object: none of them is an object.
const MODIFIER_WORDS: usize = 12;

/// What a statement does: its verb, with the kind of its object where the verb alone says little.
pub fn kind(sql: &[u8]) -> String {
    let mut words = Words(sql);
    let Some(verb) = words.next() else {
        return "other".to_owned();
    };
    match verb.as_str() {
        "CREATE" | "ALTER" | "DROP" | "RENAME" | "LOCK" | "UNLOCK" | "ANALYZE" | "OPTIMIZE" | "REPAIR"
        | "CHECK" => match words
            .take(MODIFIER_WORDS)
            .find(|word| OBJECTS.contains(&word.as_str()))
        {
            Some(object) => format!("{verb} {object}"),
            None => verb,
        },
        "TRUNCATE" => "TRUNCATE TABLE".to_owned(),
        "START" => "START TRANSACTION".to_owned(),
        "LOAD" => match words.next() {
            Some(object) => format!("LOAD {object}"),
            None => verb,
        },
        _ => verb,
    }
}

/// The words of a statement in capitals; comments, strings and identifiers in quotes are passed over,
/// what stands in conditional comments is not.
struct Words<'a>(&'a [u8]);

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut scanner = Scanner {
            script: self.0,
            at: 0,
            line: 1,
        };
        while scanner.at < self.0.len() {
            let at = scanner.at;
            let word = self.0[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_')
                .count();
            if word > 0 {
                let (word, rest) = self.0[at..].split_at(word);
                self.0 = rest;
                return Some(String::from_utf8_lossy(word).to_ascii_uppercase());
            }
            if scanner.next().is_err() {
                break; // split() has refused such a script already
            }
        }
        self.0 = &[];
        None
    }
}

/// A statement's beginning for messages; those that carry passwords only by their kind.
pub(crate) fn excerpt(sql: &[u8]) -> String {
    let kind = kind(sql);
    let text = String::from_utf8_lossy(sql);
    let lower = text.to_lowercase();
    if lower.contains("identified") || lower.contains("password") {
        return kind;
    }
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = words.char_indices().nth(EXCERPT) {
        words.truncate(cut);
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn texts(script: &str) -> Vec<(u32, String)> {
        split(script.as_bytes())
            .unwrap()
            .into_iter()
            .map(|statement| (statement.line, String::from_utf8(statement.sql.to_vec()).unwrap()))
            .collect()
    }

    fn only(script: &str) -> Vec<String> {
        texts(script).into_iter().map(|(_, text)| text).collect()
    }

    fn refusal(script: &str) -> String {
        let error = split(script.as_bytes()).unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
        error.message
    }

    #[test]
    fn statements_end_at_delimiters_and_know_their_line() {
        let script = "CREATE TABLE a (x INT);\n\n  INSERT INTO a\n  VALUES (1) ;SELECT 1\n;;\nSELECT 2";
        assert_eq!(
            texts(script),
            [
                (1, "CREATE TABLE a (x INT)".into()),
                (3, "INSERT INTO a\n  VALUES (1)".into()),
                (4, "SELECT 1".into()),
                (6, "SELECT 2".into()),
            ]
        );
    }

    #[test]
    fn a_delimiter_in_a_string_or_an_identifier_is_none() {
        assert_eq!(
            only(r#"SELECT 'a;b', "c;""d", `e;``f`, 'it''s;', 'back\';slash', "\\";SELECT 2"#),
            [
                r#"SELECT 'a;b', "c;""d", `e;``f`, 'it''s;', 'back\';slash', "\\""#,
                "SELECT 2"
            ]
        );
        assert_eq!(only(r"SELECT `a\`;SELECT 2"), [r"SELECT `a\`", "SELECT 2"]);
    }

    #[test]
    fn comments_hide_delimiters_and_quotes() {
        assert_eq!(
            only("-- it's; not code\n# nor \"this;\n/* or; 'that */ SELECT 1 -- ;\n + 1; SELECT 2 /* ; */"),
            ["SELECT 1 -- ;\n + 1", "SELECT 2 /* ; */"]
        );
        assert_eq!(only("SELECT 1--1; SELECT 2"), ["SELECT 1--1", "SELECT 2"]);
        assert_eq!(only("SELECT 1 --"), ["SELECT 1 --"]);
    }

    #[test]
    fn comments_alone_are_no_statement() {
        assert_eq!(only("-- one\n;/* two */;\n# three\n"), Vec::<String>::new());
        assert_eq!(only(""), Vec::<String>::new());
    }

    #[test]
    fn conditional_comments_are_code_and_keep_their_delimiters() {
        assert_eq!(
            only("/*!40101 SET NAMES utf8mb4 */;\n/*M!100100 SET x='*/;' */;"),
            ["/*!40101 SET NAMES utf8mb4 */", "/*M!100100 SET x='*/;' */"]
        );
        assert_eq!(
            only("/*!50003 CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END */; SELECT 3"),
            [
                "/*!50003 CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END */",
                "SELECT 3"
            ]
        );
        assert_eq!(
            only("SELECT /*+ MAX_EXECUTION_TIME(1); */ 1"),
            ["SELECT /*+ MAX_EXECUTION_TIME(1); */ 1"]
        );
    }

    #[test]
    fn delimiter_changes_where_statements_end() {
        let script =
            "SELECT 1;\nDELIMITER //\nCREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN\n  SET @x=1;\n\
                      END//\n  delimiter ;\nSELECT 2;";
        assert_eq!(
            texts(script),
            [
                (1, "SELECT 1".into()),
                (
                    3,
                    "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN\n  SET @x=1;\nEND".into()
                ),
                (7, "SELECT 2".into()),
            ]
        );
        assert_eq!(
            only("SELECT 1\nDELIMITER ;"),
            ["SELECT 1\nDELIMITER"],
            "within a statement it is none"
        );
        assert_eq!(only("delimiters;"), ["delimiters"]);
        assert_eq!(only("DELIMITER $$\r\nSELECT 1;$$\r\n"), ["SELECT 1;"]);
    }

    #[test]
    fn what_does_not_end_names_its_line() {
        assert_eq!(
            refusal("SELECT 1;\nSELECT 'a\nb"),
            "line 2: the string that begins here does not end"
        );
        assert_eq!(
            refusal("SELECT `a"),
            "line 1: the quoted identifier that begins here does not end"
        );
        assert_eq!(
            refusal("\n\n/* never"),
            "line 3: the comment that begins here does not end"
        );
        assert_eq!(
            refusal("/*!40101 SET x=1;\nSELECT 1"),
            "line 1: the comment that begins here does not end"
        );
        assert_eq!(
            refusal("SELECT 'a\\'"),
            "line 1: the string that begins here does not end"
        );
        assert_eq!(
            refusal("DELIMITER  \nSELECT 1"),
            "line 1: DELIMITER names no delimiter"
        );
    }

    #[test]
    fn a_byte_order_mark_and_bytes_that_are_no_text_pass() {
        let statements = split(b"\xef\xbb\xbfSELECT '\xff\xfe';").unwrap();
        assert_eq!(statements[0].sql, b"SELECT '\xff\xfe'");
    }

    #[test]
    fn every_byte_of_code_is_in_one_statement() {
        let script = "a b;c 'x;' d;e";
        let total: usize = only(script).iter().map(String::len).sum();
        assert_eq!(total, script.len() - 2);
    }

    #[test]
    fn a_kind_is_the_verb_and_its_object() {
        for (sql, due) in [
            ("create table if not exists `index` (x int)", "CREATE TABLE"),
            ("CREATE OR REPLACE TEMPORARY TABLE t (x INT)", "CREATE TABLE"),
            ("CREATE UNIQUE INDEX i ON t (x)", "CREATE INDEX"),
            (
                "CREATE DEFINER=`root`@`localhost` TRIGGER t BEFORE INSERT ON x",
                "CREATE TRIGGER",
            ),
            (
                "/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER t */",
                "CREATE TRIGGER",
            ),
            (
                "CREATE ALGORITHM=MERGE SQL SECURITY DEFINER VIEW v AS SELECT 1",
                "CREATE VIEW",
            ),
            ("ALTER ONLINE TABLE t ADD INDEX (x)", "ALTER TABLE"),
            ("DROP TABLE t", "DROP TABLE"),
            ("insert into t values (1)", "INSERT"),
            ("-- why\nREPLACE t VALUES (1)", "REPLACE"),
            ("(SELECT 1) UNION (SELECT 2)", "SELECT"),
            ("/*!40101 SET NAMES utf8mb4 */", "SET"),
            ("load data infile 'x' into table t", "LOAD DATA"),
            ("TRUNCATE t", "TRUNCATE TABLE"),
            ("START TRANSACTION", "START TRANSACTION"),
            ("LOCK TABLES t WRITE", "LOCK TABLES"),
            ("commit", "COMMIT"),
            ("@@", "other"),
        ] {
            assert_eq!(kind(sql.as_bytes()), due, "{sql}");
        }
    }

    #[test]
    fn an_excerpt_is_short_and_keeps_passwords_to_itself() {
        assert_eq!(excerpt(b"SELECT\n   1"), "SELECT 1");
        assert_eq!(excerpt("é".repeat(100).as_bytes()).chars().count(), EXCERPT + 1);
        assert_eq!(excerpt(b"CREATE USER a IDENTIFIED BY 'hunter2'"), "CREATE USER");
        assert_eq!(excerpt(b"SET PASSWORD = 'hunter2'"), "SET");
    }
}
