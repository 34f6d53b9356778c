//! INSERT statements that come to the same in any order: nothing but literals for a table's columns.
//!
//! Pure. When in doubt a statement is not one of them: it then runs where it stands.

/// Columns of a table, as rows of literals need to know them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// In their order.
    pub names: Vec<String>,
    /// Whose values the server may give itself: the next number, in the order of statements.
    pub numbered: Vec<String>,
}

/// Whether that is `INSERT INTO name [(columns)] VALUES` and rows of literals: a value for each of the columns, and
/// an ordinary number for each that the server would number. Of a table that is not known, whatever columns it has.
pub(crate) fn only_literals(sql: &[u8], columns: Option<&Columns>) -> bool {
    Scan { sql, at: 0 }.statement(columns).is_some()
}

struct Scan<'a> {
    sql: &'a [u8],
    at: usize,
}

/// `None`: something else stands there.
impl<'a> Scan<'a> {
    fn statement(&mut self, columns: Option<&Columns>) -> Option<()> {
        self.word("INSERT")?;
        self.word("INTO")?;
        self.name()?;
        let mut listed = Vec::new();
        if self.byte(b'(').is_some() {
            loop {
                listed.push(self.name()?);
                if self.byte(b',').is_none() {
                    break;
                }
            }
            self.byte(b')')?;
        }
        self.word("VALUES")?;
        let numbered = match columns {
            Some(columns) if listed.is_empty() => columns.numbered_at(&columns.names),
            Some(columns) => columns.numbered_at(&listed),
            None => Some(Vec::new()),
        }?;
        let count = columns.map(|columns| columns.names.len());
        loop {
            self.row(&numbered, count)?;
            if self.byte(b',').is_none() {
                break;
            }
        }
        (self.at == self.sql.len()).then_some(())
    }

    fn row(&mut self, numbered: &[usize], count: Option<usize>) -> Option<()> {
        self.byte(b'(')?;
        let mut found = 0;
        loop {
            self.blanks();
            if numbered.contains(&found) {
                self.number()?;
            } else {
                self.literal()?;
            }
            found += 1;
            if self.byte(b',').is_none() {
                break;
            }
        }
        self.byte(b')')?;
        count.is_none_or(|count| count == found).then_some(())
    }

    /// One that the server takes for what it is: neither 0 nor NULL.
    fn number(&mut self) -> Option<()> {
        let digits = self.run(|byte| byte.is_ascii_digit());
        digits.first().is_some_and(|&first| first != b'0').then_some(())
    }

    fn literal(&mut self) -> Option<()> {
        match self.sql.get(self.at)? {
            b'\'' => self.string(),
            b'0'..=b'9' | b'-' | b'+' | b'.' => {
                self.at += 1;
                self.run(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(&byte));
                Some(())
            }
            b'_' => {
                self.run(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                self.blanks();
                match self.sql.get(self.at)? {
                    b'_' => None,
                    _ => self.literal(),
                }
            }
            b'x' | b'X' | b'b' | b'B' => {
                self.at += 1;
                self.string()
            }
            _ => self.word("NULL"),
        }
    }

    fn string(&mut self) -> Option<()> {
        if self.sql.get(self.at) != Some(&b'\'') {
            return None;
        }
        self.at += 1;
        loop {
            let rest = &self.sql[self.at..];
            let found = rest.iter().position(|&byte| byte == b'\'' || byte == b'\\')?;
            self.at += found + 1;
            let doubled = self.sql.get(self.at) == Some(&b'\'');
            if rest[found] == b'\'' && !doubled {
                return Some(());
            }
            self.at += 1;
            if self.at > self.sql.len() {
                return None;
            }
        }
    }

    /// A name in backticks without one of them inside.
    fn name(&mut self) -> Option<&'a str> {
        self.byte(b'`')?;
        let name = self.run(|byte| byte != b'`');
        self.at += 1;
        (self.sql.get(self.at) != Some(&b'`')).then_some(())?;
        std::str::from_utf8(name).ok()
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.blanks();
        let there = self.sql.get(self.at..self.at + word.len())?;
        self.at += word.len();
        let ends = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_';
        (there.eq_ignore_ascii_case(word.as_bytes()) && self.sql.get(self.at).is_some_and(ends)).then_some(())
    }

    /// That byte and the blanks on both sides of it, if it comes next.
    fn byte(&mut self, byte: u8) -> Option<()> {
        self.blanks();
        if self.sql.get(self.at) != Some(&byte) {
            return None;
        }
        self.at += 1;
        if byte != b'`' {
            self.blanks();
        }
        Some(())
    }

    fn blanks(&mut self) {
        self.run(|byte| byte.is_ascii_whitespace());
    }

    fn run(&mut self, of: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.sql.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| !of(byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }
}

impl Columns {
    /// Where those that the server numbers stand in a list of columns; `None` if one of any kind is missing.
    fn numbered_at<T: AsRef<str>>(&self, listed: &[T]) -> Option<Vec<usize>> {
        let at = |name: &String| listed.iter().position(|one| one.as_ref() == name);
        self.names.iter().try_for_each(|name| at(name).map(drop))?;
        self.numbered.iter().map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns {
        Columns {
            names: vec!["id".into(), "a".into(), "b".into()],
            numbered: vec!["id".into()],
        }
    }

    #[test]
    fn rows_of_literals_are_found_as_dump_tools_write_them() {
        for sql in [
            "INSERT INTO `t` VALUES (1,'a','b')",
            "INSERT INTO `t` (`a`, `id`,`b`) VALUES ('x',2,NULL),(NULL,3,'')",
            "insert  into `t`\nvalues\n(1, 'it\\'s; (', 'it''s' ),\n(2,'\\\\','),(0,')",
            "INSERT INTO `t` VALUES (1,-1.5e-7,0x00FF),(2,_binary 'x\\0',b'101'),(3,X'00',_utf8mb4'y')",
        ] {
            assert!(only_literals(sql.as_bytes(), Some(&columns())), "{sql}");
            assert!(only_literals(sql.as_bytes(), None), "{sql}");
        }
    }

    #[test]
    fn what_depends_on_order_connection_or_other_rows_is_not_taken_for_literals() {
        for sql in [
            "INSERT INTO `t` VALUES (1,UUID(),2)",
            "INSERT INTO `t` VALUES (1,@a,2)",
            "INSERT INTO `t` VALUES (1,DEFAULT,2)",
            "INSERT INTO `t` VALUES (1,(SELECT 1),2)",
            "INSERT INTO `t` VALUES (1,a,2)",
            "INSERT INTO `t` VALUES (1,NULLIF(1,1),2)",
            "INSERT INTO `t` VALUES (1,\"a\",2)",
            "INSERT INTO `t` VALUES (1,'a' 'b',2)",
            "INSERT INTO `t` VALUES (1,'a',2) ON DUPLICATE KEY UPDATE a = 1",
            "INSERT INTO `t` VALUES (1,'a',2) RETURNING id",
            "INSERT INTO `t` VALUES (1,'a',2) AS new",
            "INSERT INTO `t` VALUES (1,'a',2),",
            "INSERT INTO `t` VALUES (1,'a',2) /* end */",
            "INSERT INTO `t` VALUES (1,'a\\',2)",
            "INSERT INTO `t` VALUES (1,'a",
            "INSERT INTO `t` VALUES (1,'a\\",
            "INSERT INTO `t` VALUES",
            "INSERT INTO `t` SELECT * FROM `u`",
            "INSERT INTO `t` TABLE `u`",
            "INSERT INTO `t` SET a = 1",
            "INSERT IGNORE INTO `t` VALUES (1,'a',2)",
            "INSERT INTO `d`.`t` VALUES (1,'a',2)",
            "INSERT INTO t VALUES (1,'a',2)",
            "REPLACE INTO `t` VALUES (1,'a',2)",
            "",
        ] {
            assert!(!only_literals(sql.as_bytes(), Some(&columns())), "{sql}");
            assert!(!only_literals(sql.as_bytes(), None), "{sql}");
        }
    }

    #[test]
    fn every_column_needs_its_value_and_a_numbered_one_a_number() {
        for sql in [
            "INSERT INTO `t` VALUES (1,'a')",
            "INSERT INTO `t` VALUES (1,'a',2),(2,'a',2,3)",
            "INSERT INTO `t` (`id`,`a`) VALUES (1,'a')",
            "INSERT INTO `t` (`a`,`b`) VALUES (1,'a')",
            "INSERT INTO `t` VALUES (NULL,'a',2)",
            "INSERT INTO `t` VALUES (1,'a',2),(0,'a',2)",
            "INSERT INTO `t` VALUES ('1','a',2)",
            "INSERT INTO `t` VALUES (1-1,'a',2)",
            "INSERT INTO `t` (`a`,`id`,`b`) VALUES (1,NULL,1)",
        ] {
            assert!(!only_literals(sql.as_bytes(), Some(&columns())), "{sql}");
            assert!(only_literals(sql.as_bytes(), None), "{sql}");
        }
    }
}
