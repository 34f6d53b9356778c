use flushlab_rows::Bits;

use super::{Cell, Generator};
use crate::draw::Draw;
use crate::extent::Extent;
use crate::format::{CellKind, Format};
use crate::given::{self, Given};

/// Which NULLs there are does not depend on how many numbers a value takes.
const NULLS: u64 = 0x6e75_6c6c_7300_0001;

/// Makes the cells of one column.
#[derive(Debug)]
pub(crate) struct Column {
    name: String,
    key: u64,
    /// A cell is NULL if a draw of 64 bits is below; 0 for none.
    null_below: u64,
    always_null: bool,
    kind: CellKind,
    bits: bool,
    generator: Generator,
}

impl Column {
    pub fn new(name: &str, key: u64, null: f64, bits: bool, cell: Cell) -> Self {
        Self {
            name: name.to_owned(),
            key,
            null_below: (null * 2f64.powi(64)) as u64,
            always_null: null >= 1.0,
            kind: cell.kind,
            bits,
            generator: cell.generator,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The widest of the values of so many rows.
    pub fn extent(&self, rows: u64) -> Extent {
        self.generator.extent(rows)
    }

    /// Whether a function of the user gives its values: then no other column can be made of them.
    pub fn is_given(&self) -> bool {
        matches!(self.generator, Generator::Given(_))
    }

    pub fn kind(&self) -> CellKind {
        self.kind
    }

    /// What LOAD DATA makes of the field that a variable holds, if not the field itself.
    pub fn load_expression(&self, variable: &str) -> Option<String> {
        match self.kind {
            CellKind::Bytes | CellKind::Geometry => Some(format!("UNHEX({variable})")),
            _ => self.bits.then(|| format!("CAST({variable} AS UNSIGNED)")),
        }
    }

    /// What INSERT makes of the parameter of a prepared statement: a string would be the bits themselves.
    pub fn param_expression(&self) -> &'static str {
        if self.bits {
            "CAST(? AS UNSIGNED)"
        } else {
            "?"
        }
    }

    pub fn can_be_null(&self) -> bool {
        self.null_below > 0
            || matches!(&self.generator, Generator::ForeignKey(reference) if reference.parent.can_be_null())
    }

    #[inline]
    pub fn is_null(&self, row: u64) -> bool {
        if self.null_below > 0
            && (self.always_null || Draw::new(self.key ^ NULLS, row).bits() < self.null_below)
        {
            return true;
        }
        match &self.generator {
            Generator::ForeignKey(reference) => reference.is_null(row, &mut self.draw(row)),
            _ => false,
        }
    }

    /// Appends the cell of a row.
    #[inline]
    pub fn write(&self, row: u64, format: Format, out: &mut Vec<u8>) {
        if self.is_null(row) {
            format.null(out);
        } else if let Generator::Given(function) = &self.generator {
            match given::value(function, row) {
                Given::Null => format.null(out),
                given => format.cell(given.kind(), out, |out| put_given(&given, out)),
            }
        } else {
            format.cell(self.kind, out, |out| self.put(row, out));
        }
    }

    /// Appends the value of a row as it is.
    #[inline]
    pub fn put(&self, row: u64, out: &mut Vec<u8>) {
        self.generator.put(row, &mut self.draw(row), out);
    }

    #[inline]
    fn draw(&self, row: u64) -> Draw {
        Draw::new(self.key, row)
    }
}

fn put_given(given: &Given, out: &mut Vec<u8>) {
    if let Given::Number(bytes) | Given::Text(bytes) = given {
        out.extend_from_slice(bytes);
    }
}
