//! What of a dump is left out; what that is, is the caller's to say.
//!
//! Pure.

use crate::script::{tokens, Token};

/// The kinds of variables that are the server's and not the session's, as they stand in a SET.
const OF_THE_SERVER: [&str; 3] = ["GLOBAL", "PERSIST", "PERSIST_ONLY"];
const OF_THE_SESSION: [&str; 2] = ["SESSION", "LOCAL"];

/// Verbs of statements that change what they name.
const CHANGING: [&str; 12] = [
    "INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "LOAD", "LOCK",
    "CALL",
];

/// What follows is read, or run later, or is the rows.
const CHANGES_NO_MORE: [&str; 13] = [
    "(", "SELECT", "SET", "VALUES", "VALUE", "AS", "LIKE", "WHERE", "USING", "BEGIN", "DO", "FOR", "WITH",
];

/// Words at a statement's beginning that rules look at.
const RULE_WORDS: usize = 4;

/// Which statements are not run, or not as they stand.
#[derive(Debug)]
pub(crate) struct Rules {
    leave_out: Vec<(String, Vec<String>)>,
    databases: Vec<String>,
    modes: Vec<String>,
    /// The current database is one of which nothing is run.
    outside: bool,
}

/// What becomes of a statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What runs in its place.
    pub instead: Option<Vec<u8>>,
    /// The rules that leave all of it out, or what is missing in its place.
    pub left_out: Vec<String>,
}

impl Verdict {
    const RUNS: Self = Self {
        instead: None,
        left_out: Vec::new(),
    };

    fn left_out(rule: impl Into<String>) -> Self {
        Self {
            instead: None,
            left_out: vec![rule.into()],
        }
    }

    /// Whether nothing of it is run.
    pub fn is_nothing(&self) -> bool {
        self.instead.is_none() && !self.left_out.is_empty()
    }
}

/// Words at a statement's beginning, in capitals; of rows the verb alone.
pub(crate) fn beginning(sql: &[u8]) -> Vec<String> {
    let mut words = crate::script::words(sql);
    let mut found: Vec<String> = words.by_ref().take(1).collect();
    if !found.iter().any(|verb| verb == "INSERT" || verb == "REPLACE") {
        found.extend(words.take(RULE_WORDS - 1));
    }
    found
}

impl Rules {
    pub fn new(leave_out: &[String], databases: Vec<String>, modes: Vec<String>) -> Self {
        let words = |rule: &String| rule.split(' ').map(str::to_owned).collect();
        Self {
            leave_out: leave_out.iter().map(|rule| (rule.clone(), words(rule))).collect(),
            databases,
            modes,
            outside: false,
        }
    }

    /// Decides on the next statement of a dump, which begins with these words.
    pub fn judge(&mut self, sql: &[u8], beginning: &[String]) -> Verdict {
        let word = |at: usize| beginning.get(at).map_or("", String::as_str);
        if word(0) == "SET" {
            let verdict = self.judge_set(sql);
            return match self.leaves_out(beginning) {
                Some(rule) if !verdict.is_nothing() => Verdict::left_out(rule),
                _ => verdict,
            };
        }
        if let Some(rule) = self.leaves_out(beginning) {
            return Verdict::left_out(rule);
        }
        let found = match (word(0), word(1)) {
            ("USE", _) => {
                self.outside = self.outside(sql).is_some();
                self.outside(sql)
            }
            (_, "DATABASE" | "SCHEMA") => self.outside(sql),
            _ if self.outside => return Verdict::left_out("statements in them"),
            (verb, _) if CHANGING.contains(&verb) => self.qualified(sql),
            _ => None,
        };
        found.map_or(Verdict::RUNS, |name| {
            Verdict::left_out(format!("database {name}"))
        })
    }

    /// The rule whose words it begins with. `SET GLOBAL` and the like are looked for in all of a SET.
    fn leaves_out(&self, beginning: &[String]) -> Option<String> {
        let found = self.leave_out.iter().find(|(_, words)| {
            let within = words.len() == 2 && words[0] == "SET" && OF_THE_SERVER.contains(&words[1].as_str());
            beginning.starts_with(words) && !within
        });
        found.map(|(rule, _)| rule.clone())
    }

    /// A SET without the modes and the variables of the server that are left out.
    fn judge_set(&self, sql: &[u8]) -> Verdict {
        let mut verdict = self.without_server_variables(sql);
        if !verdict.is_nothing() {
            if let Some(changed) = self.without_modes(verdict.instead.as_deref().unwrap_or(sql)) {
                verdict.instead = Some(changed);
                verdict.left_out.push("sql_mode".to_owned());
            }
        }
        verdict
    }

    /// A SET without its assignments to variables of the server.
    fn without_server_variables(&self, sql: &[u8]) -> Verdict {
        let assignments = assignments(sql);
        let mut verdict = Verdict::RUNS;
        let mut kept: Vec<&[u8]> = Vec::new();
        for (text, kind) in &assignments {
            let rule = kind.as_ref().map(|kind| format!("SET {kind}"));
            match rule.filter(|rule| self.leave_out.iter().any(|(known, _)| known == rule)) {
                Some(rule) => verdict.left_out.push(rule),
                None => kept.push(text),
            }
        }
        if let (false, false, [(first, _), ..]) =
            (verdict.left_out.is_empty(), kept.is_empty(), &assignments[..])
        {
            let last = assignments[assignments.len() - 1].0;
            let begins = first.as_ptr() as usize - sql.as_ptr() as usize;
            let ends = last.as_ptr() as usize - sql.as_ptr() as usize + last.len();
            let conditional = sql[begins..ends]
                .windows(2)
                .any(|two| two == b"/*" || two == b"*/");
            if !conditional {
                verdict.instead = Some([&sql[..begins], &kept.join(&b", "[..]), &sql[ends..]].concat());
            }
        }
        verdict.left_out.dedup();
        verdict
    }

    /// The database that a USE or CREATE DATABASE names, if nothing of it is run.
    fn outside(&self, sql: &[u8]) -> Option<&str> {
        const WORDS: [&str; 9] = [
            "USE", "CREATE", "ALTER", "DROP", "DATABASE", "SCHEMA", "IF", "NOT", "EXISTS",
        ];
        let text = String::from_utf8_lossy(sql);
        let quoted = text.split('`').nth(1);
        let name = quoted.or_else(|| {
            let mut words = text.split(|byte: char| !(byte.is_alphanumeric() || "_-$!".contains(byte)));
            words.find(|word| {
                let known = WORDS.iter().any(|known| known.eq_ignore_ascii_case(word));
                !known && !word.is_empty() && !word.starts_with('!')
            })
        })?;
        self.known(name.as_bytes())
    }

    /// The database of which nothing is run, if the statement changes something that it names with it.
    fn qualified(&self, sql: &[u8]) -> Option<&str> {
        let mut last: [Option<Token>; 3] = [None; 3];
        for token in tokens(sql).skip(1) {
            if let [before, Some(name), Some(dot)] = last {
                let apart = before.is_none_or(|before| !before.is(".") && !before.is("@"));
                if apart && dot.is(".") {
                    if let Some(found) = self.known(unquoted(name.text)) {
                        return Some(found);
                    }
                }
            }
            if CHANGES_NO_MORE.iter().any(|word| token.is(word)) {
                return None;
            }
            last = [last[1], last[2], Some(token)];
        }
        None
    }

    fn known(&self, name: &[u8]) -> Option<&str> {
        let mut databases = self.databases.iter();
        let found = databases.find(|known| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(String::as_str)
    }

    /// A statement that sets `sql_mode` without the modes to leave out, if it has one.
    fn without_modes(&self, sql: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(sql).ok()?;
        if self.modes.is_empty() || !text.to_ascii_lowercase().contains("sql_mode") {
            return None;
        }
        let pieces = text.split_inclusive([',', '\'', '"']);
        let mut kept = String::new();
        let mut changed = false;
        for piece in pieces {
            let bare = piece.trim_end_matches([',', '\'', '"']);
            if self.modes.iter().any(|mode| mode == bare) {
                changed = true;
                if !piece.ends_with(',') {
                    kept.truncate(kept.trim_end_matches(',').len());
                    kept.push_str(&piece[bare.len()..]);
                }
            } else {
                kept.push_str(piece);
            }
        }
        changed.then(|| kept.into_bytes())
    }
}

/// The assignments of a SET, each with the kind of the server's variable that it sets. GLOBAL and SESSION hold for what
/// follows them.
fn assignments(sql: &[u8]) -> Vec<(&[u8], Option<String>)> {
    let all: Vec<Token> = tokens(sql).skip(1).collect();
    let mut depth = 0;
    let mut holds = None;
    let parts = all.split(|token| {
        match token.text {
            b"(" => depth += 1,
            b")" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.is(",")
    });
    let one = |part: &[Token]| {
        let (first, last) = (part.first()?, part.last()?);
        let word = |at: usize| part.get(at).map(Token::capitals).unwrap_or_default();
        let known = |word: &String| OF_THE_SERVER.contains(&word.as_str());
        let kind = match first.text {
            b"@" => Some(word(2)).filter(|kind| word(1) == "@" && known(kind)),
            _ => {
                let names = matches!(part.get(1).map(|next| next.text), None | Some(b"=" | b":"));
                if !names && known(&word(0)) {
                    holds = Some(word(0));
                } else if !names && OF_THE_SESSION.contains(&word(0).as_str()) {
                    holds = None;
                }
                holds.clone()
            }
        };
        Some((&sql[first.at..last.end()], kind))
    };
    parts.filter_map(one).collect()
}

fn unquoted(name: &[u8]) -> &[u8] {
    match name {
        [b'`' | b'"', inside @ .., b'`' | b'"'] => inside,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let leave_out = ["SET GLOBAL", "SET PERSIST", "SET PASSWORD", "GRANT"].map(str::to_owned);
        let modes = ["NO_AUTO_CREATE_USER", "ORACLE"].map(str::to_owned);
        Rules::new(&leave_out, vec!["mysql".into(), "sys".into()], modes.into())
    }

    fn judged(sql: &str) -> Verdict {
        rules().judge(sql.as_bytes(), &beginning(sql.as_bytes()))
    }

    fn instead(sql: &str) -> Option<String> {
        judged(sql).instead.map(|sql| String::from_utf8(sql).unwrap())
    }

    #[test]
    fn modes_that_the_server_lacks_are_taken_out_wherever_they_stand() {
        for (sql, kept) in [
            ("SET sql_mode = 'A,NO_AUTO_CREATE_USER,B'", "SET sql_mode = 'A,B'"),
            ("SET sql_mode = 'A,NO_AUTO_CREATE_USER'", "SET sql_mode = 'A'"),
            ("SET SQL_MODE='NO_AUTO_CREATE_USER'", "SET SQL_MODE=''"),
            ("SET sql_mode='ORACLE,NO_AUTO_CREATE_USER'", "SET sql_mode=''"),
        ] {
            assert_eq!(instead(sql).unwrap(), kept);
            assert_eq!(judged(sql).left_out, ["sql_mode"]);
        }
        assert_eq!(judged("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"), Verdict::RUNS);
        assert_eq!(judged("SET NAMES 'ORACLE'"), Verdict::RUNS);
    }

    #[test]
    fn rules_hold_for_the_first_words_in_whatever_comment_they_stand() {
        for (sql, rule) in [
            ("SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'x:1-5'", "SET GLOBAL"),
            ("/*!50700 SET global general_log = 1 */", "SET GLOBAL"),
            ("-- so\nset GLOBAL a=1", "SET GLOBAL"),
            ("SET PASSWORD = 'x'", "SET PASSWORD"),
            ("grant all on *.* to a", "GRANT"),
        ] {
            assert_eq!(judged(sql), Verdict::left_out(rule), "{sql}");
        }
        for sql in [
            "SET @OLD = @@GLOBAL.sql_mode",
            "SET @global = 1, @@session.a = 2, local b = 3",
            "SET a = 'x, GLOBAL b = 1'",
            "INSERT INTO a VALUES ('SET GLOBAL')",
        ] {
            assert_eq!(judged(sql), Verdict::RUNS, "{sql}");
        }
    }

    #[test]
    fn a_set_keeps_what_it_says_of_the_session() {
        for (sql, kept) in [
            ("SET a=1, GLOBAL b=2", "SET a=1"),
            ("SET GLOBAL a=1, b=2, SESSION c=3, d=4", "SET SESSION c=3, d=4"),
            (
                "SET @@persist.a=1, b=(SELECT f(1,2)) , @c := ','",
                "SET b=(SELECT f(1,2)), @c := ','",
            ),
            (
                "/*!40101 SET NAMES utf8, @@Global.x = ',' */",
                "/*!40101 SET NAMES utf8 */",
            ),
        ] {
            assert_eq!(instead(sql).as_deref(), Some(kept), "{sql}");
            assert!(judged(sql).left_out[0].starts_with("SET "), "{sql}");
        }
        for sql in ["SET GLOBAL a=1, b=2", "SET a=1 /*!50000 , GLOBAL b=2 */"] {
            assert_eq!(judged(sql), Verdict::left_out("SET GLOBAL"), "{sql}");
        }
    }

    #[test]
    fn statements_that_change_what_a_left_out_database_has_are_left_out() {
        for sql in [
            "INSERT INTO mysql.user VALUES (1)",
            "insert ignore into `mysql` . `user` (a) values (1)",
            "REPLACE mysql.user SET a=1",
            "UPDATE shop.a, mysql.user SET x = 1",
            "DELETE FROM \"mysql\".user WHERE 1",
            "CREATE TABLE IF NOT EXISTS MySQL.x (a int)",
            "ALTER TABLE mysql.user ADD x int",
            "DROP TABLE IF EXISTS a, mysql.user",
            "TRUNCATE mysql.user",
            "/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER t BEFORE INSERT ON mysql.user FOR EACH ROW x*/",
            "RENAME TABLE shop.a TO mysql.b",
            "CALL mysql.rds_set(1)",
        ] {
            assert_eq!(judged(sql), Verdict::left_out("database mysql"), "{sql}");
        }
        for sql in [
            "INSERT INTO shop.a SELECT * FROM mysql.user",
            "INSERT INTO `a` VALUES ('mysql.user')",
            "CREATE VIEW v AS SELECT * FROM mysql.user",
            "CREATE DEFINER=a@sys.example PROCEDURE p() DELETE FROM mysql.user",
            "CREATE TABLE shop.mysql (a int)",
            "CREATE TABLE a.mysql.b (a int)",
            "SELECT * FROM mysql.user",
        ] {
            assert_eq!(judged(sql), Verdict::RUNS, "{sql}");
        }
    }

    #[test]
    fn databases_are_found_by_their_whole_names() {
        for sql in [
            "USE `mysql`",
            "use mysql",
            "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `mysql` /*!40100 x */",
            "/*!40000 DROP DATABASE IF EXISTS mysql*/",
        ] {
            assert_eq!(judged(sql), Verdict::left_out("database mysql"), "{sql}");
        }
        for sql in [
            "USE `mysql_shop`",
            "USE mysql2",
            "USE `my mysql`",
            "CREATE DATABASE shop COMMENT 'was mysql'",
        ] {
            assert_eq!(judged(sql), Verdict::RUNS, "{sql}");
        }
    }

    #[test]
    fn nothing_is_run_in_a_database_that_is_left_out_but_what_sets_the_session() {
        let mut rules = rules();
        let mut judged = |sql: &str| rules.judge(sql.as_bytes(), &beginning(sql.as_bytes()));
        judged("USE mysql");
        assert_eq!(judged("DROP TABLE user"), Verdict::left_out("statements in them"));
        assert_eq!(judged("SET a = 1"), Verdict::RUNS);
        assert_eq!(judged("USE shop"), Verdict::RUNS);
        assert_eq!(judged("DROP TABLE user"), Verdict::RUNS);
    }
}
