//! SQL scripts: split into statements as the servers' command-line clients split them.

use std::collections::BTreeMap;

use crate::client_command::{self, Command};
use crate::Error;

/// Longest part of a statement that messages quote.
const EXCERPT: usize = 80;

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
/// escapes in strings, unless the script has set NO_BACKSLASH_ESCAPES.
///
/// # Errors
/// [`crate::ErrorKind::Usage`]: a string, identifier or comment that does not end, or a DELIMITER without one.
pub fn split(script: &[u8]) -> Result<Vec<Statement<'_>>, Error> {
    let mut statements = Vec::new();
    let mut splitter = Splitter::new();
    splitter.scan(script, true, |line, from, to| {
        statements.push(Statement {
            line,
            sql: script[from..to].trim_ascii_end(),
        });
    })?;
    Ok(statements)
}

/// Splits a script that comes in pieces. Where it stands in the piece at hand, and in what.
#[derive(Debug)]
pub(crate) struct Splitter {
    /// What the next bytes are scanned from.
    at: usize,
    line: u32,
    delimiter: Vec<u8>,
    /// Bytes that end a run of code: the beginnings of everything else.
    stops: [bool; 256],
    begun: Option<(usize, u32)>,
    conditional: Option<u32>,
    /// Nothing but blanks stood before the piece in its first line.
    line_begins: bool,
    first: bool,
    /// Commands of the client are carried out, not passed on.
    commands: bool,
    /// Nothing of the script counts any more.
    quit: bool,
    pub modes: Modes,
    /// Commands of the client that were left out.
    pub left_out: Vec<String>,
}

/// Longest statement that is looked at for `sql_mode`.
const SETS_MODE_BYTES: usize = 4096;

/// NO_BACKSLASH_ESCAPES, by its name and as a bit of `sql_mode`.
const NO_BACKSLASH: &[u8] = b"no_backslash_escapes";
const NO_BACKSLASH_BIT: u64 = 1 << 20;

/// Whether a backslash escapes in strings, as a script's own statements change it: dumps set `sql_mode`, and give it
/// back from a variable.
#[derive(Debug, Clone)]
pub(crate) struct Modes {
    pub escapes: bool,
    /// As the session began.
    at_first: bool,
    /// What user variables keep.
    kept: BTreeMap<String, bool>,
}

impl Modes {
    /// As a session begins.
    pub fn new(escapes: bool) -> Self {
        Self {
            escapes,
            at_first: escapes,
            kept: BTreeMap::new(),
        }
    }

    /// Takes a statement of the script.
    fn follow(&mut self, sql: &[u8]) {
        let first = |byte: u8| matches!(byte.to_ascii_lowercase(), b's' | b'/');
        if sql.len() > SETS_MODE_BYTES || !sql.first().is_some_and(|&byte| first(byte)) {
            return;
        }
        let tokens: Vec<Token<'_>> = tokens(sql).collect();
        if !tokens.first().is_some_and(|token| token.is("SET")) {
            return;
        }
        let mut depth = 0_i32;
        let assignments = tokens[1..].split(|token| {
            depth += i32::from(token.is("(")) - i32::from(token.is(")"));
            depth == 0 && token.is(",")
        });
        for assignment in assignments {
            let Some(sign) = assignment.iter().position(|token| token.is("=")) else {
                continue;
            };
            let (name, value) = (&assignment[..sign], &assignment[sign + 1..]);
            let name = match name {
                [before @ .., colon] if colon.is(":") => before,
                _ => name,
            };
            self.assign(name, value);
        }
    }

    fn assign(&mut self, name: &[Token<'_>], value: &[Token<'_>]) {
        let is = |token: Option<&Token<'_>>, word: &str| token.is_some_and(|token| token.is(word));
        let is_global = |some: &[Token<'_>]| {
            some.iter()
                .any(|token| token.is("GLOBAL") || token.is("PERSIST") || token.is("PERSIST_ONLY"))
        };
        let reads_mode = is(value.last(), "SQL_MODE") && is(value.first(), "@") && !is_global(value);
        let system = name.iter().filter(|token| token.is("@")).count() != 1;
        let Some(last) = name.last() else { return };
        if !system {
            if reads_mode {
                self.kept.insert(last.capitals(), self.escapes);
            }
            return;
        }
        let last = last.capitals();
        if last.trim_matches('`') != "SQL_MODE" || is_global(name) {
            return;
        }
        let names = value.iter().any(|token| {
            token
                .text
                .to_ascii_lowercase()
                .windows(NO_BACKSLASH.len())
                .any(|some| some == NO_BACKSLASH)
        });
        self.escapes = match value {
            [one] if matches!(one.text[0], b'\'' | b'"') => !names,
            [one] if one.is("DEFAULT") => self.at_first,
            [one] => match one.capitals().parse::<u64>() {
                Ok(bits) => bits & NO_BACKSLASH_BIT == 0,
                Err(_) => !names,
            },
            [_, one] if is(value.first(), "@") => {
                self.kept.get(&one.capitals()).copied().unwrap_or(self.at_first)
            }
            [function, ..] if function.is("REPLACE") && names => true,
            _ if names => false,
            _ if reads_mode => self.escapes,
            _ if is(value.first(), "@") => self.at_first, // @@GLOBAL.sql_mode
            _ => self.escapes,
        };
    }
}

/// Another file of SQL, which is to be read before the script goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Of the script.
    pub line: u32,
    /// As it stands there.
    pub name: String,
}

impl Splitter {
    /// Of the client's commands it knows DELIMITER.
    pub fn new() -> Self {
        let mut splitter = Self {
            at: 0,
            line: 1,
            delimiter: Vec::new(),
            stops: [false; 256],
            begun: None,
            conditional: None,
            line_begins: true,
            first: true,
            commands: false,
            quit: false,
            modes: Modes::new(true),
            left_out: Vec::new(),
        };
        splitter.set_delimiter(b";");
        splitter
    }

    /// One that obeys the client's commands, as the client does where a statement would begin; what follows them
    /// up to the end of the line or a delimiter is theirs.
    pub fn of_client(delimiter: &[u8]) -> Self {
        let mut splitter = Self::new();
        splitter.commands = true;
        splitter.set_delimiter(delimiter);
        splitter
    }

    /// One whose session begins in those modes, or goes on in them.
    pub fn in_modes(self, modes: Modes) -> Self {
        Self { modes, ..self }
    }

    pub fn delimiter(&self) -> &[u8] {
        &self.delimiter
    }

    pub fn set_delimiter(&mut self, delimiter: &[u8]) {
        self.delimiter = delimiter.to_vec();
        self.stops = [false; 256];
        for &byte in b"'\"`#-/*".iter().chain(&delimiter[..1]) {
            self.stops[byte as usize] = true;
        }
        self.stops[b'\\' as usize] |= self.commands;
    }

    /// How many bytes of the script are done with; what follows must be given again, with more behind it.
    pub fn done(&self) -> usize {
        self.begun.map_or(self.at, |(start, _)| start)
    }

    /// Where what is not done with begins.
    pub fn pending_line(&self) -> u32 {
        self.begun.map_or(self.line, |(_, line)| line)
    }

    /// Forgets the bytes that are done with: the next scan begins behind them.
    pub fn forget(&mut self, script: &[u8]) -> usize {
        let done = self.done();
        self.line_begins = line_begins(&script[..done], self.line_begins);
        self.at -= done;
        if let Some((start, _)) = &mut self.begun {
            *start = 0;
        }
        done
    }

    /// Goes on in a script, whose end is there if it is `whole`; `found` gets line, beginning and end of each
    /// statement. Stops behind a command to read another file.
    ///
    /// # Errors
    /// As [`split`], and for a command of the client that a load does not take.
    pub fn scan(
        &mut self,
        script: &[u8],
        whole: bool,
        mut found: impl FnMut(u32, usize, usize),
    ) -> Result<Option<Source>, Error> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if self.first {
            if !whole && script.len() < MARK.len() {
                return Ok(None);
            }
            self.first = false;
            if script.starts_with(MARK) {
                self.at = MARK.len();
            }
        }
        let mut scanner = Scanner {
            script,
            at: self.at,
            line: self.line,
            whole,
            escapes: self.modes.escapes,
        };
        let mut found = |modes: &mut Modes, line, from, to: usize| {
            modes.follow(&script[from..to]);
            found(line, from, to);
            modes.escapes
        };
        while scanner.at < script.len() {
            (self.at, self.line) = (scanner.at, scanner.line);
            if self.quit {
                scanner.advance(script.len() - scanner.at);
                continue;
            }
            if self.begun.is_none() {
                match self.command(&mut scanner)? {
                    Line::Taken => continue,
                    Line::Statement => {
                        found(&mut self.modes, self.line, self.at, scanner.at);
                        continue;
                    }
                    Line::Source(source) => {
                        (self.at, self.line) = (scanner.at, scanner.line);
                        return Ok(Some(source));
                    }
                    Line::Cut => return Ok(None),
                    Line::Other => {}
                }
            }
            let rest = scanner.rest();
            if self.conditional.is_none() {
                if self.commands && rest[0] == b'\\' {
                    if rest.len() == 1 && !whole {
                        return Ok(None);
                    }
                    if let ([b'\\', b'g' | b'G', ..], Some((start, line))) = (rest, self.begun) {
                        self.begun = None;
                        scanner.escapes = found(&mut self.modes, line, start, scanner.at);
                        scanner.advance(2);
                        continue;
                    }
                }
                if rest.starts_with(&self.delimiter) {
                    if let Some((start, line)) = self.begun.take() {
                        scanner.escapes = found(&mut self.modes, line, start, scanner.at);
                    }
                    scanner.advance(self.delimiter.len());
                    continue;
                }
                if !whole && self.delimiter.starts_with(rest) {
                    return Ok(None);
                }
            }
            match scanner.next(&self.stops)? {
                Piece::Blank => {}
                Piece::Code => {
                    self.begun.get_or_insert((self.at, self.line));
                }
                Piece::OpensConditional => {
                    self.conditional.get_or_insert(self.line);
                    self.begun.get_or_insert((self.at, self.line));
                }
                Piece::ClosesConditional => self.conditional = None,
                Piece::Cut => return Ok(None),
            }
        }
        (self.at, self.line) = (scanner.at, scanner.line);
        if whole {
            if let Some(line) = self.conditional {
                return Err(unended("comment", line));
            }
            if let Some((start, line)) = self.begun.take() {
                found(&mut self.modes, line, start, script.len());
            }
        }
        Ok(None)
    }

    /// What becomes of the line where a statement would begin.
    fn command(&mut self, scanner: &mut Scanner<'_>) -> Result<Line, Error> {
        match scanner.delimiter_command(self.line_begins)? {
            Delimiter::Word(word) => {
                self.set_delimiter(word);
                return Ok(Line::Taken);
            }
            Delimiter::Cut => return Ok(Line::Cut),
            Delimiter::None if !self.commands => return Ok(Line::Other),
            Delimiter::None => {}
        }
        let (rest, line) = (scanner.rest(), scanner.line);
        let word = client_command::word(rest);
        if word.len() == rest.len() && !scanner.whole {
            return Ok(Line::Cut);
        }
        let Some(command) = client_command::command(word) else {
            return Ok(Line::Other);
        };
        let after = &rest[word.len()..];
        let line_ends = after.iter().position(|&byte| byte == b'\n');
        let after = &after[..line_ends.unwrap_or(after.len())];
        let delimited = match command {
            Command::Delimiter => None,
            _ => position(after, &self.delimiter),
        };
        if line_ends.is_none() && delimited.is_none() && !scanner.whole {
            return Ok(Line::Cut);
        }
        let after = &after[..delimited.unwrap_or(after.len())];
        let argument = after.trim_ascii();
        if word[0] != b'\\' && !after.first().is_none_or(u8::is_ascii_whitespace) {
            return Ok(Line::Other); // a word that goes on, as in "source(1)"
        }
        match command {
            Command::Refused(refusal) => return Err(refusal.error(line, word)),
            Command::Use if argument.is_empty() || delimited.is_some() => return Ok(Line::Other),
            Command::Nothing { arguments: false } if !argument.is_empty() => return Ok(Line::Other),
            Command::Source | Command::Delimiter if argument.is_empty() => {
                let word = String::from_utf8_lossy(word);
                return Err(Error::usage(format!("line {line}: {word} has no argument")));
            }
            _ => scanner.advance(word.len() + after.len()),
        }
        Ok(match command {
            Command::Source => Line::Source(Source {
                line,
                name: String::from_utf8_lossy(argument).into_owned(),
            }),
            Command::Use => Line::Statement,
            Command::Delimiter => {
                let word = argument.split(u8::is_ascii_whitespace).next();
                self.set_delimiter(word.unwrap_or(argument));
                Line::Taken
            }
            Command::Quit => {
                self.quit = true;
                Line::Taken
            }
            Command::Nothing { .. } | Command::Refused(_) => {
                let word = String::from_utf8_lossy(word).to_ascii_lowercase();
                self.left_out.push(format!("client {word}"));
                Line::Taken
            }
        })
    }
}

/// Whether only blanks stand in the last line of what was passed; `before`: before it, too.
fn line_begins(passed: &[u8], before: bool) -> bool {
    let line = passed.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    line.iter().all(u8::is_ascii_whitespace) && (before || line.len() < passed.len())
}

/// What the next bytes are.
enum Piece {
    /// Space or a comment.
    Blank,
    /// A string, an identifier or bytes of anything else.
    Code,
    /// `/*!` or `/*M!`.
    OpensConditional,
    /// `*/` outside of an ordinary comment.
    ClosesConditional,
    /// Something whose end has not come yet.
    Cut,
}

/// `DELIMITER` where a statement would begin.
enum Delimiter<'a> {
    None,
    Word(&'a [u8]),
    /// Perhaps one whose end has not come yet.
    Cut,
}

/// What the client makes of a line where a statement would begin.
enum Line {
    /// A statement begins here, or a comment, or nothing.
    Other,
    /// What was passed is a statement.
    Statement,
    /// The client's own.
    Taken,
    Source(Source),
    /// Perhaps a command whose end has not come yet.
    Cut,
}

struct Scanner<'a> {
    script: &'a [u8],
    at: usize,
    line: u32,
    /// Nothing comes behind it.
    whole: bool,
    /// A backslash escapes in strings.
    escapes: bool,
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

    /// Passes the next piece. A run of code ends before a byte in `stops`.
    fn next(&mut self, stops: &[bool; 256]) -> Result<Piece, Error> {
        let rest = self.rest();
        // The longest of the beginnings below has four bytes.
        if !self.whole && rest.len() < 4 && matches!(rest[0], b'-' | b'/' | b'*') {
            return Ok(Piece::Cut);
        }
        match rest {
            [b'\'' | b'"' | b'`', ..] => return self.quoted(),
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
                    return self.unended_here("comment");
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
            _ => {
                let run = rest[1..].iter().position(|&byte| stops[byte as usize]);
                self.advance(1 + run.unwrap_or(rest.len() - 1));
            }
        }
        Ok(Piece::Code)
    }

    /// Passes a string or a quoted identifier. Doubled quotes look like two of them, side by side.
    fn quoted(&mut self) -> Result<Piece, Error> {
        let rest = self.rest();
        let quote = rest[0];
        let escape = match quote {
            b'`' => quote,
            _ if self.escapes => b'\\',
            _ => quote,
        };
        let mut at = 1;
        while let Some(found) = rest
            .get(at..)
            .and_then(|inside| inside.iter().position(|&byte| byte == quote || byte == escape))
        {
            at += found + 1;
            if rest[at - 1] == quote {
                self.advance(at);
                return Ok(Piece::Code);
            }
            at += 1;
        }
        self.unended_here(if quote == b'`' {
            "quoted identifier"
        } else {
            "string"
        })
    }

    fn unended_here(&self, what: &str) -> Result<Piece, Error> {
        if self.whole {
            Err(unended(what, self.line))
        } else {
            Ok(Piece::Cut)
        }
    }

    fn rest_of_line(&mut self) -> Piece {
        let rest = self.rest();
        match rest.iter().position(|&byte| byte == b'\n') {
            None if !self.whole => return Piece::Cut,
            count => self.advance(count.unwrap_or(rest.len())),
        }
        Piece::Blank
    }

    /// Passes `DELIMITER word` at the beginning of a line; the word. `line_begins`: so does the script.
    fn delimiter_command(&mut self, line_begins_there: bool) -> Result<Delimiter<'a>, Error> {
        const COMMAND: &[u8] = b"delimiter";
        let rest = self.rest();
        let shown = rest.len().min(COMMAND.len());
        if !rest[..shown].eq_ignore_ascii_case(&COMMAND[..shown])
            || !line_begins(&self.script[..self.at], line_begins_there)
        {
            return Ok(Delimiter::None);
        }
        let end = rest.iter().position(|&byte| byte == b'\n');
        if end.is_none() && !self.whole {
            return Ok(Delimiter::Cut);
        }
        if shown < COMMAND.len() {
            return Ok(Delimiter::None);
        }
        let end = end.unwrap_or(rest.len());
        let Some(after) = rest.get(COMMAND.len()..end) else {
            return Ok(Delimiter::None);
        };
        if after.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return Ok(Delimiter::None);
        }
        let word = after.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
        let Some(word) = word else {
            return Err(Error::usage(format!(
                "line {}: DELIMITER names no delimiter",
                self.line
            )));
        };
        self.advance(end);
        Ok(Delimiter::Word(word))
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
    let mut words = words(sql);
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
pub(crate) fn words(sql: &[u8]) -> impl Iterator<Item = String> + '_ {
    let words = tokens(sql).filter(|token| token.text[0].is_ascii_alphabetic() || token.text[0] == b'_');
    words.map(|token| token.capitals())
}

/// A word or a number, something in quotes with them, or a single character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// Where it begins.
    pub at: usize,
    /// Never empty.
    pub text: &'a [u8],
}

impl Token<'_> {
    pub fn end(&self) -> usize {
        self.at + self.text.len()
    }

    pub fn capitals(&self) -> String {
        String::from_utf8_lossy(self.text).to_ascii_uppercase()
    }

    pub fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word.as_bytes())
    }
}

/// The tokens of a statement; comments are passed over, what stands in conditional comments is not.
pub(crate) fn tokens(sql: &[u8]) -> impl Iterator<Item = Token<'_>> {
    const STOPS: [bool; 256] = [true; 256];
    let mut scanner = Scanner {
        script: sql,
        at: 0,
        line: 1,
        whole: true,
        escapes: true,
    };
    let within = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_' || !byte.is_ascii();
    std::iter::from_fn(move || {
        while scanner.at < sql.len() {
            let at = scanner.at;
            let word = sql[at..].iter().take_while(within).count();
            if word > 0 {
                scanner.advance(word);
                let text = &sql[at..at + word];
                return Some(Token { at, text });
            }
            match scanner.next(&STOPS) {
                Ok(Piece::Code) => {
                    let text = &sql[at..scanner.at];
                    return Some(Token { at, text });
                }
                Ok(Piece::OpensConditional) => {
                    let version = scanner.rest().iter().take_while(|byte| byte.is_ascii_digit());
                    scanner.advance(version.count());
                }
                Ok(_) => {}
                Err(_) => break, // split() has refused such a script already
            }
        }
        None
    })
}

/// A statement's beginning for messages; one that shows a password only by its kind.
pub(crate) fn excerpt(sql: &[u8]) -> String {
    let head = String::from_utf8_lossy(&sql[..sql.len().min(8 * EXCERPT)]);
    let mut words = head.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = words.char_indices().nth(EXCERPT) {
        words.truncate(cut);
        words.push('…');
    }
    let lower = words.to_lowercase();
    let kind = kind(sql);
    // A column may be called so.
    if kind != "CREATE TABLE" && (lower.contains("identified") || lower.contains("password")) {
        return kind;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

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
        assert_eq!(error.kind, ErrorKind::Usage);
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
    fn a_backslash_escapes_nothing_where_the_script_says_so() {
        let inside = r"INSERT INTO t VALUES ('C:\')";
        let follow = |sets: &str| only(&format!("{sets};{inside};SELECT 2")).pop().unwrap();
        for sets in [
            "SET sql_mode='NO_BACKSLASH_ESCAPES'",
            "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='ANSI_QUOTES,NO_BACKSLASH_ESCAPES' */",
            "set session sql_mode := \"no_backslash_escapes\"",
            "SET NAMES utf8mb4, @@session.sql_mode = 1048576",
            "SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')",
            "SET sql_mode = NO_BACKSLASH_ESCAPES",
            "SET sql_mode='NO_BACKSLASH_ESCAPES';SET @a=@@sql_mode;SET sql_mode='';SET sql_mode=@a",
        ] {
            assert_eq!(follow(sets), "SELECT 2", "{sets}");
        }
        for sets in [
            "SET sql_mode='ANSI_QUOTES'",
            "SET GLOBAL sql_mode='NO_BACKSLASH_ESCAPES'",
            "SET @sql_mode='NO_BACKSLASH_ESCAPES'",
            "SET @old=@@sql_mode,sql_mode='NO_BACKSLASH_ESCAPES';SET sql_mode=@old",
            "SET sql_mode='NO_BACKSLASH_ESCAPES';SET sql_mode=DEFAULT",
            "SET sql_mode='NO_BACKSLASH_ESCAPES';SET sql_mode=0",
            "SET sql_mode=REPLACE(@@sql_mode,'NO_BACKSLASH_ESCAPES','')",
        ] {
            let script = format!(r"{sets};SELECT 'it\';s';SELECT 2");
            assert_eq!(only(&script).pop().unwrap(), "SELECT 2", "{sets}");
            assert!(only(&script).contains(&r"SELECT 'it\';s'".to_owned()), "{sets}");
        }
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
    fn a_script_in_pieces_has_the_statements_that_it_has_whole() {
        let script = "\u{feff}-- head\n/*!999999\\- enable the sandbox mode */ \nSELECT 'a;\\'b' /* ; */, 1--1;\n\
                      DELIMITER ;;\n/*!50003 CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN SET @x='*'; \
                      END */;;\r\ndelimiter ;\n# tail;\nSELECT `c;``d`, \"x\"; d; DELIMITER // ;SELECT -- ;\n 2\n";
        let whole: Vec<_> = texts(script);
        assert_eq!(whole.len(), 6, "{whole:?}");
        for size in 1..script.len() {
            let (mut splitter, mut pending, mut found) = (Splitter::new(), Vec::new(), Vec::new());
            let pieces: Vec<_> = script.as_bytes().chunks(size).collect();
            for (number, piece) in pieces.iter().enumerate() {
                pending.extend_from_slice(piece);
                let last = number + 1 == pieces.len();
                splitter
                    .scan(&pending, last, |line, from, to| {
                        let sql = pending[from..to].trim_ascii_end().to_vec();
                        found.push((line, String::from_utf8(sql).unwrap()));
                    })
                    .unwrap();
                let done = splitter.forget(&pending);
                pending.drain(..done);
            }
            assert_eq!(found, whole, "in pieces of {size}");
        }
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
        assert_eq!(
            excerpt(b"CREATE TABLE a (password INT)"),
            "CREATE TABLE a (password INT)"
        );
    }
}
