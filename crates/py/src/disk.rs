//! One measurement of a disk.

use std::io;
use std::time::Duration;

use flushlab_commitpath::disk::{self, Spec};
use flushlab_commitpath::ErrorKind;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// As the kernel numbers it.
const ETIMEDOUT: i32 = 110;

#[pyfunction]
pub fn measure_disk<'py>(py: Python<'py>, spec: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let spec: Spec = serde_json::from_slice(spec)
        .map_err(|error| crate::binlog::usage(py, format!("no measurement of a disk: {error}")))?;
    let directory = spec.directory.display().to_string();
    let limit = Duration::try_from_secs_f64(spec.seconds + spec.stall_seconds).unwrap_or(Duration::MAX);
    let outcome = crate::interruptible_within(py, limit, move |cancellation| {
        Ok(disk::measure(&spec, &|| cancellation.is_cancelled()))
    })?;
    let Some(outcome) = outcome else {
        let reason = format!("a measurement did not end within {:.0} s", limit.as_secs_f64());
        return Err(PyOSError::new_err((ETIMEDOUT, reason, directory)));
    };
    match outcome {
        Ok(outcome) => crate::json(py, &outcome),
        Err(error) if error.kind == ErrorKind::Usage => Err(crate::binlog::usage(py, error.message)),
        Err(error) => Err(match error.errno {
            Some(errno) => crate::binlog::with_name(io::Error::from_raw_os_error(errno), &directory),
            None => PyOSError::new_err(error.message),
        }),
    }
}
