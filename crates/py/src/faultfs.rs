//! The disk that records, forgets and tears.

use flushlab_faultfs::Spec;
use pyo3::prelude::*;

/// Ends with the process.
#[pyfunction]
pub fn serve_fault_disk(py: Python<'_>, spec: &[u8]) -> PyResult<()> {
    let spec: Spec = serde_json::from_slice(spec)
        .map_err(|error| crate::binlog::usage(py, format!("no disk: {error}")))?;
    py.detach(|| flushlab_faultfs::serve(&spec))?;
    Ok(())
}
