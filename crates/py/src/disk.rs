//! One measurement of a disk.

use flushlab_disk::{Error, Spec};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pyfunction]
pub fn measure_disk<'py>(py: Python<'py>, spec: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let spec: Spec = serde_json::from_slice(spec)
        .map_err(|error| crate::binlog::usage(py, format!("no measurement of a disk: {error}")))?;
    let directory = spec.directory.display().to_string();
    let outcome = crate::interruptible(py, move |cutoff| {
        Ok(flushlab_disk::measure(&spec, &|| cutoff.fired()))
    })?;
    match outcome {
        Ok(outcome) => crate::json(py, &outcome),
        Err(Error::Usage(message)) => Err(crate::binlog::usage(py, message)),
        Err(Error::Io { error, .. }) => Err(crate::binlog::with_name(error, &directory)),
    }
}
