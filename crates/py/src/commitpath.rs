//! The commit pipelines.

use std::time::Duration;

use flushlab_commitpath::{Error, Spec};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::CoreError;

#[pyclass(module = "flushlab._core", frozen)]
pub struct CommitPath(Mutex<flushlab_commitpath::CommitPath>);

fn raised(py: Python<'_>, error: Error) -> PyErr {
    let raised = CoreError::new_err(error.to_string());
    let value = raised.value(py);
    let set = value
        .setattr("kind", error.kind.slug())
        .and_then(|()| value.setattr("errno", error.errno))
        .and_then(|()| value.setattr("sqlstate", py.None()))
        .and_then(|()| value.setattr("message", error.message))
        .and_then(|()| value.setattr("hint", error.hint));
    set.err().unwrap_or(raised)
}

impl CommitPath {
    /// The lock is taken detached only: who waits for it never holds the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut flushlab_commitpath::CommitPath) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| act(&mut self.0.lock()))
            .map_err(|error| raised(py, error))
    }
}

#[pymethods]
impl CommitPath {
    #[new]
    fn new(py: Python<'_>, spec: &[u8]) -> PyResult<Self> {
        let spec = Spec::from_json(spec).map_err(|error| raised(py, error))?;
        Ok(Self(Mutex::new(flushlab_commitpath::CommitPath::new(spec))))
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, flushlab_commitpath::CommitPath::start)
    }

    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let progress = self.with(py, |run| run.progress())?;
        crate::json(py, &progress)
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |run| {
            run.stop();
            Ok(())
        })
    }

    fn wait<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        let result = self.with(py, |run| run.wait(limit))?;
        result.map(|result| crate::json(py, &result)).transpose()
    }
}
