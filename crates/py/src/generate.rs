//! Rows of plans: what is known of them, and files of them.

use flushlab_generate::{Error, Extent, Plan};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Described {
    Tables(Vec<Vec<(Extent, bool)>>),
    Problem(Problem),
}

#[derive(Serialize)]
struct Problem {
    table: Option<String>,
    column: Option<String>,
    message: String,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self {
            table: error.table,
            column: error.column,
            message: error.message,
        }
    }
}

#[pyfunction]
pub(crate) fn describe_rows<'py>(py: Python<'py>, plan: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let described = py.detach(|| match Plan::parse(plan) {
        Ok(plan) => Described::Tables(plan.tables().iter().map(|table| table.extents()).collect()),
        Err(error) => Described::Problem(error.into()),
    });
    crate::json(py, &described)
}
