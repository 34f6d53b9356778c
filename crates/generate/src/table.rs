use std::ops::Range;
use std::sync::Arc;

use crate::format::CellKind;
use crate::generator::column::Column;
use crate::given::failure;
use crate::{Error, Extent, Format};

/// A table of a plan.
#[derive(Debug)]
pub struct Table {
    name: String,
    rows: u64,
    names: Vec<String>,
    columns: Vec<Arc<Column>>,
    /// Whether functions of the user give values.
    given: bool,
}

impl Table {
    pub(crate) fn new(name: &str, rows: u64, columns: Vec<Arc<Column>>) -> Self {
        Self {
            name: name.to_owned(),
            rows,
            names: columns.iter().map(|column| column.name().to_owned()).collect(),
            given: columns.iter().any(|column| column.is_given()),
            columns,
        }
    }

    /// Its name, as it is: not quoted.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of the columns that its rows have, in their order.
    pub fn columns(&self) -> &[String] {
        &self.names
    }

    /// How many rows it gets.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// For each column the widest of its values, and whether it may be NULL.
    pub fn extents(&self) -> Vec<(Extent, bool)> {
        let extents = self
            .columns
            .iter()
            .map(|column| (column.extent(self.rows), column.can_be_null()));
        extents.collect()
    }

    /// For each column what LOAD DATA has to set it to if not to the field as it is read: SQL of the variable
    /// `@cN`, N being the column's place from 1.
    pub fn load_expressions(&self) -> Vec<Option<String>> {
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(place, column)| column.load_expression(&format!("@c{}", place + 1)))
            .collect()
    }

    /// For each column what INSERT of a prepared statement makes of its parameter, and whether that is bytes.
    pub fn params(&self) -> Vec<(&'static str, bool)> {
        let bytes = |column: &Column| matches!(column.kind(), CellKind::Bytes | CellKind::Geometry);
        let columns = self.columns.iter();
        columns
            .map(|column| (column.param_expression(), bytes(column)))
            .collect()
    }

    /// Appends the parameters of one row, and gives the places of those that are NULL.
    ///
    /// # Errors
    /// What a generator of the user raised.
    pub fn write_params(
        &self,
        row: u64,
        out: &mut Vec<u8>,
        mut null: impl FnMut(usize),
    ) -> Result<(), Error> {
        for (place, column) in self.columns.iter().enumerate() {
            let from = out.len();
            column.write(row, Format::Params, out);
            if out.len() == from {
                null(place);
            }
        }
        self.check()
    }

    /// Appends one row, from 0: for LOAD DATA with the end of its line, for VALUES in parentheses.
    ///
    /// # Errors
    /// What a generator of the user raised.
    pub fn write_row(&self, row: u64, format: Format, out: &mut Vec<u8>) -> Result<(), Error> {
        format.begin_row(out);
        for (number, column) in self.columns.iter().enumerate() {
            if number > 0 {
                format.between_cells(out);
            }
            column.write(row, format, out);
        }
        format.end_row(out);
        self.check()
    }

    /// Whether functions of the user gave all values that they were asked for.
    #[inline]
    fn check(&self) -> Result<(), Error> {
        match self.given.then(failure).flatten() {
            Some(said) => Err(Error::new(said)),
            None => Ok(()),
        }
    }

    /// Appends rows; for VALUES with commas between them.
    ///
    /// # Errors
    /// What a generator of the user raised.
    pub fn write_rows(&self, rows: Range<u64>, format: Format, out: &mut Vec<u8>) -> Result<(), Error> {
        let first = rows.start;
        for row in rows {
            if format == Format::Values && row > first {
                out.push(b',');
            }
            self.write_row(row, format, out)?;
        }
        Ok(())
    }
}
