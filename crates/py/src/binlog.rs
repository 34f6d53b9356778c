//! Binlog files: checked, read, and written as samples.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flushlab_binlog::check::{Checker, FileReport};
use flushlab_binlog::sample::{write_sample, Sample, SampleOptions, TABLES};
use flushlab_binlog::{invert, read_transactions, Committed, Format, Identity, Reached, TableName, Uuid};
use flushlab_load::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const READ_SIZE: usize = 1 << 20;
/// For what is read once in a moment.
const SMALL_READ: usize = 64 << 10;

/// Looks for signals whenever a buffer is filled, so that Ctrl-C ends the reading.
struct Interruptible(File);

impl Read for Interruptible {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| py.check_signals()).map_err(io::Error::other)?;
        self.0.read(buffer)
    }
}

fn check_one(checker: &mut Checker, name: &str) -> io::Result<FileReport> {
    let file = Interruptible(File::open(name)?);
    checker.check(name, BufReader::with_capacity(READ_SIZE, file))
}

pub(crate) fn usage(py: Python<'_>, message: String) -> PyErr {
    let error = Error {
        kind: ErrorKind::Usage,
        errno: None,
        sqlstate: None,
        message,
        hint: None,
    };
    crate::core_error(py, error)
}

#[pyfunction]
pub fn check_binlogs<'py>(py: Python<'py>, files: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
    let mut checker = Checker::default();
    let mut reports = Vec::with_capacity(files.len());
    for name in &files {
        match py.detach(|| check_one(&mut checker, name)) {
            Ok(report) => reports.push(report),
            Err(error) => return Err(with_name(error, name)),
        }
    }
    crate::json(py, &reports)
}

#[derive(serde::Serialize)]
struct Transactions {
    transactions: Vec<Committed>,
    #[serde(flatten)]
    reached: Reached,
}

#[pyfunction]
pub fn read_binlog<'py>(py: Python<'py>, file: &str, table: &str) -> PyResult<Bound<'py, PyBytes>> {
    let read = || {
        let mut transactions = Vec::new();
        let content = BufReader::with_capacity(READ_SIZE, Interruptible(File::open(file)?));
        let reached = read_transactions(content, table, |one| transactions.push(one))?;
        Ok(Transactions {
            transactions,
            reached,
        })
    };
    match py.detach(read) {
        Ok(found) => crate::json(py, &found),
        Err(error) => Err(with_name(error, file)),
    }
}

#[pyfunction]
pub fn invert_binlog<'py>(
    py: Python<'py>,
    file: &str,
    start: u64,
    most_bytes: u64,
    without: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let without: Vec<_> = without
        .into_iter()
        .map(|(schema, name)| TableName { schema, name })
        .collect();
    let read = || {
        let file = BufReader::with_capacity(SMALL_READ, File::open(file)?);
        invert(file, start, most_bytes, &without)
    };
    match py.detach(read) {
        Ok(found) => crate::json(py, &found),
        Err(error) => Err(with_name(error, file)),
    }
}

/// An OSError that names the file; what a signal's handler raised stays what it is.
pub(crate) fn with_name(error: io::Error, name: &str) -> PyErr {
    if error.get_ref().is_some_and(|inner| inner.is::<PyErr>()) {
        return error.into();
    }
    let text = error.to_string();
    let reason = text.split(" (os error").next().unwrap_or_default().to_owned();
    // Without a number, what packed the file cannot be unpacked.
    pyo3::exceptions::PyOSError::new_err((error.raw_os_error(), reason, name.to_owned()))
}

#[derive(serde::Serialize)]
struct Written {
    #[serde(flatten)]
    sample: Sample,
    tables: [&'static str; 2],
}

#[pyfunction]
pub fn write_sample_binlog<'py>(
    py: Python<'py>,
    folder: &str,
    server_version: &str,
    schema: String,
    updates: u32,
    max_size: u64,
    close: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let identity = Identity {
        server_id: 7,
        uuid: Uuid(*b"flushlab-sample!"),
        domain: 0,
    };
    let format = Format::new(server_version, identity).map_err(|error| usage(py, error.to_string()))?;
    let options = SampleOptions {
        schema,
        updates,
        max_size,
        close,
    };
    let sample =
        write_sample(&format, Path::new(folder), &options).map_err(|error| with_name(error, folder))?;
    crate::json(
        py,
        &Written {
            sample,
            tables: TABLES,
        },
    )
}
