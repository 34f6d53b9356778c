//! Rows of plans: what is known of them, and functions of the user that give values.

use flushlab_generate::{Error, Extent, Given, Plan, Template};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt};
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
pub fn check_pattern(pattern: &str) -> PyResult<()> {
    let parsed = Template::parse(pattern);
    parsed
        .map(drop)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pyfunction]
pub(crate) fn describe_rows<'py>(py: Python<'py>, plan: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let described = py.detach(|| match Plan::parse(plan) {
        Ok(plan) => Described::Tables(plan.tables().iter().map(|table| table.extents()).collect()),
        Err(error) => Described::Problem(error.into()),
    });
    crate::json(py, &described)
}

/// Calls `module:function` with `range(first, last)`.
fn call(function: &str, rows: std::ops::Range<u64>) -> Result<Vec<Given>, String> {
    Python::attach(|py| {
        let (module, name) = function.split_once(':').unwrap_or((function, ""));
        let values = py
            .import(module)
            .and_then(|module| module.getattr(name))
            .and_then(|callable| {
                let range = py
                    .import("builtins")?
                    .getattr("range")?
                    .call1((rows.start, rows.end))?;
                callable
                    .call1((range,))?
                    .try_iter()?
                    .map(|value| given(&value?))
                    .collect()
            });
        values.map_err(|error| format!("{function}: {error}"))
    })
}

fn given(value: &Bound<'_, PyAny>) -> PyResult<Given> {
    if value.is_none() {
        return Ok(Given::Null);
    }
    let text = value.str()?.to_str()?.as_bytes().to_vec();
    let number = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    if number {
        Ok(Given::Number(text))
    } else if value.is_instance_of::<PyBool>() {
        Ok(Given::Number(vec![b'0' + u8::from(value.is_truthy()?)]))
    } else {
        Ok(Given::Text(text))
    }
}

/// Lets plans call Python; the interpreter is here.
pub(crate) fn let_plans_call() {
    flushlab_generate::set_caller(call);
}

#[pyfunction]
pub(crate) fn python_seconds() -> f64 {
    flushlab_generate::spent().as_secs_f64()
}
