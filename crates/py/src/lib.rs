//! `flushlab._core`: the only crate that knows Python. Documented by `python/flushlab/_core.pyi`.
//!
//! A frozen spec goes down, a frozen result comes up, both as JSON of the structs in
//! `flushlab.record.load`. Whatever blocks runs detached from the interpreter; the engine's threads
//! never attach to it. What may block for long runs on a thread of its own, so that Ctrl-C is seen.

mod binlog;
mod commitpath;
mod disk;
mod faultfs;
mod generate;
mod toml;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flushlab_load::spec::LoadSpec;
use flushlab_load::{Cancellation, Error, ScriptSpec, WindowPart};
use parking_lot::Mutex;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

create_exception!(
    flushlab._core,
    CoreError,
    PyException,
    "What stops the native side."
);

/// How often signals are looked for while something blocks.
const SIGNAL_CHECK: Duration = Duration::from_millis(200);

fn core_error(py: Python<'_>, error: Error) -> PyErr {
    let text = error.to_string();
    let raised = CoreError::new_err(text);
    let value = raised.value(py);
    let set = value
        .setattr("kind", error.kind.slug())
        .and_then(|()| value.setattr("errno", error.errno))
        .and_then(|()| value.setattr("sqlstate", error.sqlstate))
        .and_then(|()| value.setattr("message", error.message))
        .and_then(|()| value.setattr("hint", error.hint));
    set.err().unwrap_or(raised)
}

fn json<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = serde_json::to_vec(value).map_err(|error| {
        pyo3::exceptions::PyRuntimeError::new_err(format!("a result does not become JSON: {error}"))
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// Runs `work` on its own thread and waits for it, detached; looks for signals meanwhile. A signal
/// whose handler raises (Ctrl-C) cuts the work's connections and is raised once it has ended.
fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(Arc<Cancellation>) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let outcome = interruptible_within(py, Duration::MAX, work)?;
    Ok(outcome.expect("work without a limit ends"))
}

/// The same for `limit` at most; `None` if the work has not ended by then: its thread is left behind.
fn interruptible_within<T: Send + 'static>(
    py: Python<'_>,
    limit: Duration,
    work: impl FnOnce(Arc<Cancellation>) -> Result<T, Error> + Send + 'static,
) -> PyResult<Option<T>> {
    let begun = Instant::now();
    let cancellation = Arc::new(Cancellation::new());
    let (done, waiting) = mpsc::channel();
    let worker = {
        let cancellation = cancellation.clone();
        std::thread::spawn(move || {
            // Nobody may be listening any more.
            let _ = done.send(work(cancellation));
        })
    };
    let waiting = Mutex::new(waiting);
    let mut interrupted = None;
    let outcome = loop {
        let received = py.detach(|| waiting.lock().recv_timeout(SIGNAL_CHECK));
        match received {
            Ok(outcome) => break Some(outcome),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) if begun.elapsed() > limit => {
                cancellation.cancel();
                return interrupted.map_or(Ok(None), Err);
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(signal) = py.check_signals() {
                    cancellation.cancel();
                    interrupted.get_or_insert(signal);
                }
            }
        }
    };
    let joined = py.detach(|| worker.join());
    if let Some(signal) = interrupted {
        return Err(signal);
    }
    let outcome = match (outcome, joined) {
        (Some(outcome), _) => outcome,
        (None, Err(said)) => Err(Error::panicked(&*said)),
        (None, Ok(())) => unreachable!("work that ends has an outcome"),
    };
    outcome.map(Some).map_err(|error| core_error(py, error))
}

/// Whether a signal's handler has raised what is then in `signal`. For Python's own threads, while they are detached.
fn raised(signal: &mut Option<PyErr>) -> bool {
    if let Err(error) = Python::attach(|py| py.check_signals()) {
        signal.get_or_insert(error);
    }
    signal.is_some()
}

#[pyclass(module = "flushlab._core", frozen)]
struct LoadRun(Mutex<flushlab_load::LoadRun>);

impl LoadRun {
    /// The lock is taken detached only: who waits for it never holds the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut flushlab_load::LoadRun) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| act(&mut self.0.lock()))
            .map_err(|error| core_error(py, error))
    }
}

#[pymethods]
impl LoadRun {
    #[new]
    fn new(py: Python<'_>, spec: &[u8]) -> PyResult<Self> {
        let spec = LoadSpec::from_json(spec).map_err(|error| core_error(py, error))?;
        let run = interruptible(py, move |cancellation| {
            flushlab_load::LoadRun::connect(&spec, cancellation)
        })?;
        Ok(Self(Mutex::new(run)))
    }

    fn round_trips<'py>(&self, py: Python<'py>, count: u32) -> PyResult<Bound<'py, PyBytes>> {
        let latency = self.with(py, |run| run.round_trips(count))?;
        json(py, &latency)
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, flushlab_load::LoadRun::start)
    }

    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let progress = self.with(py, |run| run.progress())?;
        json(py, &progress)
    }

    fn seen<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let seen = self.with(py, |run| run.seen())?;
        json(py, &seen)
    }

    fn open_window(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, flushlab_load::LoadRun::open_window)
    }

    fn close_window<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut signal = None;
        let result = self.with(py, |run| run.close_window_unless(|| raised(&mut signal)))?;
        match (result, signal) {
            (_, Some(signal)) => Err(signal),
            (Some(result), None) => json(py, &result),
            (None, None) => unreachable!("a signal alone interrupts it"),
        }
    }

    fn close_window_part<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut signal = None;
        let part = self.with(py, |run| run.close_window_part_unless(|| raised(&mut signal)))?;
        match (part, signal) {
            (_, Some(signal)) => Err(signal),
            (Some(part), None) => json(py, &part),
            (None, None) => unreachable!("a signal alone interrupts it"),
        }
    }

    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        let mut signal = None;
        self.with(py, |run| run.pause_unless(|| raised(&mut signal)))?;
        signal.map_or(Ok(()), Err)
    }

    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, flushlab_load::LoadRun::resume)
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |run| {
            run.stop();
            Ok(())
        })
    }
}

#[pyclass(module = "flushlab._core", frozen)]
struct ScriptStream(Mutex<flushlab_load::ScriptStream>, Arc<Cancellation>);

impl ScriptStream {
    /// Waits for room, or for the end; looks for signals meanwhile, for Ctrl-C cuts the connection, and calls `meanwhile`.
    fn wait(&self, py: Python<'_>, all: bool, meanwhile: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let stream = || self.0.lock();
        while !py
            .detach(|| stream().wait(all))
            .map_err(|error| core_error(py, error))?
        {
            py.check_signals().inspect_err(|_| self.1.cancel())?;
            if let Some(meanwhile) = meanwhile {
                meanwhile.call0()?;
            }
        }
        Ok(())
    }
}

#[pymethods]
impl ScriptStream {
    #[new]
    fn new(py: Python<'_>, spec: &[u8]) -> PyResult<Self> {
        let spec = spec.to_vec();
        let (stream, cancellation) = interruptible(py, move |cancellation| {
            let stream = flushlab_load::ScriptStream::open(&spec, cancellation.clone())?;
            Ok((stream, cancellation))
        })?;
        Ok(Self(Mutex::new(stream), cancellation))
    }

    #[pyo3(signature = (piece, last=false, meanwhile=None))]
    fn feed(
        &self,
        py: Python<'_>,
        piece: &[u8],
        last: bool,
        meanwhile: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<(u32, String)>> {
        self.wait(py, false, meanwhile)?;
        py.detach(|| self.0.lock().feed(piece, last))
            .map(|source| source.map(|source| (source.line, source.name)))
            .map_err(|error| core_error(py, error))
    }

    fn enter(&self, name: String) {
        self.0.lock().enter(name);
    }

    #[pyo3(signature = (meanwhile=None))]
    fn finish(&self, py: Python<'_>, meanwhile: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        py.detach(|| self.0.lock().end())
            .map_err(|error| core_error(py, error))?;
        self.wait(py, true, meanwhile)
    }

    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let progress = py.detach(|| {
            let stream = self.0.lock();
            stream.progress()
        });
        json(py, &progress)
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.1.cancel());
    }
}

#[pyclass(module = "flushlab._core", frozen)]
struct ScriptSurvey(Mutex<flushlab_load::ScriptSurvey>);

#[pymethods]
impl ScriptSurvey {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    #[pyo3(signature = (piece, last=false))]
    fn feed(&self, py: Python<'_>, piece: &[u8], last: bool) -> PyResult<Vec<(u32, String)>> {
        py.detach(|| self.0.lock().feed(piece, last))
            .map(|sources| sources.into_iter().map(|one| (one.line, one.name)).collect())
            .map_err(|error| core_error(py, error))
    }

    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        json(py, self.0.lock().findings())
    }
}

/// For one thread: the lock is held while `wait` waits.
#[pyclass(module = "flushlab._core", frozen)]
struct FillRun(Mutex<flushlab_load::FillRun>);

impl FillRun {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut flushlab_load::FillRun) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| act(&mut self.0.lock()))
            .map_err(|error| core_error(py, error))
    }
}

#[pymethods]
impl FillRun {
    #[new]
    fn new(py: Python<'_>, spec: &[u8]) -> PyResult<Self> {
        let spec = spec.to_vec();
        let run = interruptible(py, move |cancellation| {
            flushlab_load::FillRun::start(&spec, cancellation)
        })?;
        Ok(Self(Mutex::new(run)))
    }

    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let progress = self.with(py, |run| Ok(run.progress()))?;
        json(py, &progress)
    }

    fn wait<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let result = self.with(py, |run| run.wait(limit))?;
        result.map(|result| json(py, &result)).transpose()
    }

    fn hold(&self, py: Python<'_>, held: bool) -> PyResult<()> {
        self.with(py, |run| {
            run.hold(held);
            Ok(())
        })
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |run| {
            run.stop();
            Ok(())
        })
    }
}

#[pyclass(module = "flushlab._core", frozen)]
struct Proxy(flushlab_proxy::Proxy);

#[pymethods]
impl Proxy {
    #[new]
    #[pyo3(signature = (target, port=0))]
    fn new(target: u16, port: u16) -> PyResult<Self> {
        Ok(Self(flushlab_proxy::Proxy::listen(port, target)?))
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.port()
    }

    #[getter]
    fn shortages(&self) -> u64 {
        self.0.shortages()
    }

    fn switch(&self, py: Python<'_>, target: u16) {
        py.detach(|| self.0.switch(target));
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

#[pyfunction]
fn prepare_tables(py: Python<'_>, spec: &[u8]) -> PyResult<()> {
    let spec = LoadSpec::from_json(spec).map_err(|error| core_error(py, error))?;
    interruptible(py, move |cancellation| {
        flushlab_load::prepare_tables(&spec, &cancellation)
    })
}

#[pyfunction]
fn merge_windows<'py>(py: Python<'py>, parts: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
    let merged = py.detach(|| {
        let parts = parts.iter().map(|part| WindowPart::from_json(part));
        WindowPart::merged(parts.collect::<Result<_, _>>()?)
    });
    json(py, &merged.map_err(|error| core_error(py, error))?)
}

#[pyfunction]
fn check_schedule(py: Python<'_>, rate: f64, profile: &str, kind: &str) -> PyResult<()> {
    flushlab_load::check_schedule(rate, profile, kind).map_err(|error| core_error(py, error))
}

#[pyfunction]
fn count_statements(py: Python<'_>, script: &[u8]) -> PyResult<usize> {
    py.detach(|| flushlab_load::script::split(script).map(|statements| statements.len()))
        .map_err(|error| core_error(py, error))
}

#[pyfunction]
fn run_script<'py>(py: Python<'py>, spec: &[u8], script: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let spec = ScriptSpec::from_json(spec).map_err(|error| core_error(py, error))?;
    let script = script.to_vec();
    let result = interruptible(py, move |cancellation| {
        let statements = flushlab_load::script::split(&script)?;
        flushlab_load::run_script(&spec, &statements, &cancellation)
    })?;
    json(py, &result)
}

#[pyfunction]
fn sample_rows(py: Python<'_>, plan: &str, table: &str, rows: Vec<u64>) -> PyResult<String> {
    let values = py
        .detach(|| flushlab_load::sample_rows(plan, table, &rows))
        .map_err(|error| core_error(py, error))?;
    Ok(String::from_utf8(values)?)
}

#[pyfunction]
fn late_indexes(definition: &str) -> Option<(String, String)> {
    flushlab_load::late_parts(definition)
}

#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CoreError", module.py().get_type::<CoreError>())?;
    module.add("TomlError", module.py().get_type::<toml::TomlError>())?;
    module.add_class::<LoadRun>()?;
    module.add_class::<commitpath::CommitPath>()?;
    module.add_class::<FillRun>()?;
    module.add_class::<Proxy>()?;
    module.add_class::<ScriptStream>()?;
    module.add_class::<ScriptSurvey>()?;
    module.add_function(wrap_pyfunction!(toml::parse_toml, module)?)?;
    module.add_function(wrap_pyfunction!(prepare_tables, module)?)?;
    module.add_function(wrap_pyfunction!(check_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(merge_windows, module)?)?;
    module.add_function(wrap_pyfunction!(count_statements, module)?)?;
    module.add_function(wrap_pyfunction!(run_script, module)?)?;
    module.add_function(wrap_pyfunction!(binlog::check_binlogs, module)?)?;
    module.add_function(wrap_pyfunction!(binlog::invert_binlog, module)?)?;
    module.add_function(wrap_pyfunction!(binlog::read_binlog, module)?)?;
    module.add_function(wrap_pyfunction!(binlog::write_sample_binlog, module)?)?;
    module.add_function(wrap_pyfunction!(disk::measure_disk, module)?)?;
    module.add_function(wrap_pyfunction!(faultfs::serve_fault_disk, module)?)?;
    module.add_function(wrap_pyfunction!(generate::check_pattern, module)?)?;
    module.add_function(wrap_pyfunction!(generate::describe_rows, module)?)?;
    module.add_function(wrap_pyfunction!(generate::python_seconds, module)?)?;
    generate::let_plans_call();
    module.add_function(wrap_pyfunction!(sample_rows, module)?)?;
    module.add_function(wrap_pyfunction!(late_indexes, module)?)?;
    module.add_function(wrap_pyfunction!(version, module)?)
}
