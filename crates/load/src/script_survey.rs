//! What is in a script that comes in pieces, found without a server.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::script::{kind, tokens, Source, Splitter};
use crate::script_stream::Pieces;
use crate::Error;

/// Statements that need a database to stand in.
const WITHIN: [&str; 5] = ["CREATE TABLE", "CREATE VIEW", "INSERT", "REPLACE", "DROP TABLE"];

/// A database that a script names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    pub database: String,
    /// By CREATE DATABASE, not by USE.
    pub created: bool,
}

/// What has been found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Of its statements.
    pub kinds: BTreeSet<String>,
    /// In their order.
    pub databases: Vec<Named>,
    /// Tables or rows come before it names any.
    pub begins_within: bool,
}

/// A look through a script.
#[derive(Debug)]
pub struct ScriptSurvey {
    script: Pieces,
    findings: Findings,
}

impl Default for ScriptSurvey {
    fn default() -> Self {
        Self {
            script: Pieces::new(Splitter::of_client(b";")),
            findings: Findings::default(),
        }
    }
}

impl ScriptSurvey {
    /// Takes the next piece, perhaps the last; the files that are to be read.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Usage`]: something does not end, or is a command of the client that a load does not take.
    pub fn feed(&mut self, piece: &[u8], last: bool) -> Result<Vec<Source>, Error> {
        let findings = &mut self.findings;
        let mut sources = Vec::new();
        let mut source = self.script.feed(piece, last, |_, sql| findings.add(sql))?;
        while let Some(found) = source {
            sources.push(found);
            source = self.script.feed(b"", last, |_, sql| findings.add(sql))?;
        }
        Ok(sources)
    }

    /// So far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }
}

impl Findings {
    fn add(&mut self, sql: &[u8]) {
        let kind = kind(sql);
        let created = matches!(&kind[..], "CREATE DATABASE" | "CREATE SCHEMA");
        if created || kind == "USE" {
            if let Some(database) = database(sql) {
                let named = Named { database, created };
                if !self.databases.contains(&named) {
                    self.databases.push(named);
                }
            }
        } else if self.databases.is_empty() && WITHIN.contains(&&kind[..]) {
            self.begins_within = true;
        }
        if !self.kinds.contains(&kind) {
            self.kinds.insert(kind);
        }
    }
}

/// What stands behind USE or CREATE DATABASE.
fn database(sql: &[u8]) -> Option<String> {
    let mut tokens =
        tokens(sql).skip_while(|token| !["USE", "DATABASE", "SCHEMA"].iter().any(|word| token.is(word)));
    tokens.next()?;
    let name = tokens.find(|token| !["IF", "NOT", "EXISTS"].iter().any(|word| token.is(word)))?;
    let rest = &sql[name.at..];
    let bytes = match rest.strip_prefix(b"`") {
        Some(inside) => {
            let mut ends = inside.split(|&byte| byte == b'`');
            let mut bytes = ends.next()?.to_vec();
            // a doubled quote is one of the name: nothing stands between its two halves
            while let (Some([]), Some(more)) = (ends.next(), ends.next()) {
                bytes.push(b'`');
                bytes.extend_from_slice(more);
            }
            bytes
        }
        None => {
            let within = |byte: &&u8| {
                byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'$') || !byte.is_ascii()
            };
            rest.iter().copied().take_while(|byte| within(&byte)).collect()
        }
    };
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(script: &str) -> (Findings, Vec<(u32, String)>) {
        let mut survey = ScriptSurvey::default();
        let sources = survey.feed(script.as_bytes(), true).unwrap();
        let sources = sources.into_iter().map(|Source { line, name }| (line, name));
        (survey.findings().clone(), sources.collect())
    }

    #[test]
    fn databases_are_named_by_use_and_create_wherever_they_stand() {
        let script = "create schema if not exists Shop; USE `a``b`;\nCREATE DATABASE /*!32312 IF NOT EXISTS*/ `stock` \
                      /*!40100 DEFAULT CHARACTER SET utf8mb4 */; use x$1\nSELECT 'USE y;'; /* USE z; */";
        let (findings, _) = look(script);
        let named: Vec<_> = findings
            .databases
            .iter()
            .map(|one| (&one.database[..], one.created))
            .collect();
        assert_eq!(
            named,
            [("Shop", true), ("a`b", false), ("stock", true), ("x$1", false)]
        );
        assert!(!findings.begins_within);
        assert!(look("DROP TABLE IF EXISTS t; USE a;").0.begins_within);
    }

    #[test]
    fn files_to_read_are_found_in_their_order_and_not_in_bodies_or_strings() {
        let script = "SELECT 1; source a.sql\nSOURCE b dump.sql ;\n\\. c.sql\n/*\nsource no\n*/\nSELECT '\nsource no\n';\n\
                      DELIMITER //\nCREATE PROCEDURE p() BEGIN\nsource no;\nEND//\nsource d.sql//\n";
        let due = [(1, "a.sql"), (2, "b dump.sql"), (3, "c.sql"), (14, "d.sql")];
        let (findings, sources) = look(script);
        assert_eq!(sources, due.map(|(line, name)| (line, name.to_owned())));
        assert_eq!(
            findings.kinds.into_iter().collect::<Vec<_>>(),
            ["CREATE PROCEDURE", "SELECT"]
        );
    }
}
