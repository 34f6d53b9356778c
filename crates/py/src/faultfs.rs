//! The disk that records, forgets and tears.

use flushlab_faultfs::{ImageSpec, Spec};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Ends with the process.
#[pyfunction]
pub fn serve_fault_disk(py: Python<'_>, spec: &[u8]) -> PyResult<()> {
    let spec: Spec = serde_json::from_slice(spec)
        .map_err(|error| crate::binlog::usage(py, format!("no disk: {error}")))?;
    py.detach(|| flushlab_faultfs::serve(&spec))?;
    Ok(())
}

/// Parts of writes that no flush had made durable, as JSON.
#[pyfunction]
pub fn unsynced_parts<'py>(py: Python<'py>, spec: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let spec: ImageSpec = serde_json::from_slice(spec)
        .map_err(|error| crate::binlog::usage(py, format!("no image: {error}")))?;
    let parts = py.detach(|| flushlab_faultfs::unsynced(&spec))?;
    crate::json(py, &parts)
}
