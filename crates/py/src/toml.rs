//! TOML with positions: what Python's `tomllib` does not tell, for messages that name line and column.
//!
//! The document goes up as JSON of `flushlab.plan.toml.Node`: every value and every key with the line and
//! column (from 1, in characters) where it stands.

use std::ops::Range;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;
use toml_edit::{Document, Item, Key, TableLike, Value};

create_exception!(
    flushlab._core,
    TomlError,
    PyException,
    "What is not TOML, and where."
);

#[derive(Serialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

#[derive(Serialize)]
struct Node {
    kind: &'static str,
    line: usize,
    column: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Scalar>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    items: Vec<Node>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    key: String,
    line: usize,
    column: usize,
    node: Node,
}

/// Where offsets lie, in lines and columns.
struct TomlText<'a> {
    text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> TomlText<'a> {
    fn new(text: &'a str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            line_starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    fn place(&self, offset: usize) -> (usize, usize) {
        let mut upto = (0..=offset.min(self.text.len())).rev();
        let offset = upto.find(|&at| self.text.is_char_boundary(at)).unwrap_or(0);
        let line = self.line_starts.partition_point(|&start| start <= offset);
        let column = self.text[self.line_starts[line - 1]..offset].chars().count() + 1;
        (line, column)
    }

    fn node(&self, kind: &'static str, span: Option<Range<usize>>, near: (usize, usize)) -> Node {
        let (line, column) = span.map_or(near, |span| self.place(span.start));
        Node {
            kind,
            line,
            column,
            value: None,
            items: Vec::new(),
            entries: Vec::new(),
        }
    }

    fn scalar(
        &self,
        kind: &'static str,
        span: Option<Range<usize>>,
        near: (usize, usize),
        value: Scalar,
    ) -> Node {
        Node {
            value: Some(value),
            ..self.node(kind, span, near)
        }
    }

    fn table(&self, table: &dyn TableLike, span: Option<Range<usize>>, near: (usize, usize)) -> Node {
        let entries = table.iter().filter_map(|(name, _)| table.get_key_value(name));
        Node {
            entries: entries.map(|(key, item)| self.entry(key, item, near)).collect(),
            ..self.node("table", span, near)
        }
    }

    /// `near` stands in for spans that the parser does not give, as those of tables made by dotted keys.
    fn entry(&self, key: &Key, item: &Item, near: (usize, usize)) -> Entry {
        let (line, column) = key.span().map_or(near, |span| self.place(span.start));
        Entry {
            key: key.get().to_owned(),
            line,
            column,
            node: self.item(item, (line, column)),
        }
    }

    fn item(&self, item: &Item, near: (usize, usize)) -> Node {
        match item {
            Item::None => self.node("table", None, near),
            Item::Value(value) => self.value(value, near),
            Item::Table(table) => self.table(table, table.span(), near),
            Item::ArrayOfTables(tables) => Node {
                items: tables
                    .iter()
                    .map(|table| self.table(table, table.span(), near))
                    .collect(),
                ..self.node("array", tables.span(), near)
            },
        }
    }

    fn value(&self, value: &Value, near: (usize, usize)) -> Node {
        let span = value.span();
        match value {
            Value::String(text) => self.scalar("string", span, near, Scalar::Text(text.value().clone())),
            Value::Integer(number) => self.scalar("integer", span, near, Scalar::Integer(*number.value())),
            // JSON has no infinity and no NaN: their spelling goes up instead.
            Value::Float(number) if !number.value().is_finite() => {
                self.scalar("float", span, near, Scalar::Text(number.value().to_string()))
            }
            Value::Float(number) => self.scalar("float", span, near, Scalar::Float(*number.value())),
            Value::Boolean(truth) => self.scalar("boolean", span, near, Scalar::Boolean(*truth.value())),
            Value::Datetime(time) => {
                self.scalar("datetime", span, near, Scalar::Text(time.value().to_string()))
            }
            Value::Array(array) => Node {
                items: array.iter().map(|value| self.value(value, near)).collect(),
                ..self.node("array", span, near)
            },
            Value::InlineTable(table) => self.table(table, span, near),
        }
    }
}

fn toml_error(py: Python<'_>, source: &TomlText<'_>, error: &toml_edit::TomlError) -> PyErr {
    let (line, column) = source.place(error.span().map_or(0, |span| span.start));
    let raised = TomlError::new_err(format!("{line}:{column}: {}", error.message()));
    let value = raised.value(py);
    let set = value
        .setattr("line", line)
        .and_then(|()| value.setattr("column", column))
        .and_then(|()| value.setattr("message", error.message()));
    set.err().unwrap_or(raised)
}

#[pyfunction]
pub(crate) fn parse_toml<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyBytes>> {
    let source = TomlText::new(text);
    let document = Document::parse(text).map_err(|error| toml_error(py, &source, &error))?;
    crate::json(py, &source.table(document.as_table(), None, (1, 1)))
}
