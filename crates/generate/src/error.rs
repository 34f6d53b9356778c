use std::fmt;

/// A plan that cannot be carried out as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The table, if one is to blame.
    pub table: Option<String>,
    /// The column, if one is to blame.
    pub column: Option<String>,
    /// What is wrong, for people.
    pub message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            table: None,
            column: None,
            message: message.into(),
        }
    }

    pub(crate) fn of(mut self, table: &str, column: &str) -> Self {
        self.table.get_or_insert_with(|| table.to_owned());
        self.column.get_or_insert_with(|| column.to_owned());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(table), Some(column)) = (&self.table, &self.column) {
            write!(f, "{table}.{column}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
