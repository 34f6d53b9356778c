//! Values that a function of the user gives. Who runs it is not known here: `crates/py` says how, once.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::format::CellKind;

/// Rows that one call is for.
const BATCH: u64 = 1000;

/// A value of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// NULL.
    Null,
    /// A number as text.
    Number(Vec<u8>),
    /// A text.
    Text(Vec<u8>),
}

/// Calls a function, by its name, for rows; it gives as many values.
pub type Caller = fn(&str, Range<u64>) -> Result<Vec<Given>, String>;

static CALLER: OnceLock<Caller> = OnceLock::new();
static SPENT_NS: AtomicU64 = AtomicU64::new(0);

/// A function, the first row, and the values from it on.
type Batch = (Rc<str>, u64, Rc<[Given]>);

thread_local! {
    /// The batch that this thread had last of each function.
    static BATCHES: RefCell<Vec<Batch>> = const { RefCell::new(Vec::new()) };
    /// Why a row of this thread has no value.
    static FAILED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Says how functions of users are called; the first one counts.
pub fn set_caller(caller: Caller) {
    let _ = CALLER.set(caller);
}

/// How long functions of users have taken, in all threads together.
pub fn spent() -> Duration {
    Duration::from_nanos(SPENT_NS.load(Ordering::Relaxed))
}

/// Why a row that this thread has written since is not right.
pub(crate) fn failure() -> Option<String> {
    FAILED.take()
}

/// The value of a row.
pub(crate) fn value(function: &str, row: u64) -> Given {
    let first = row / BATCH * BATCH;
    let batch = BATCHES.with_borrow(|batches| {
        let mut batches = batches.iter();
        let found = batches.find(|(name, begin, _)| &**name == function && *begin == first);
        found.map(|(_, _, batch)| batch.clone())
    });
    let batch = batch.unwrap_or_else(|| called(function, first));
    batch.get((row - first) as usize).cloned().unwrap_or(Given::Null)
}

fn called(function: &str, first: u64) -> Rc<[Given]> {
    let began = Instant::now();
    let given = match CALLER.get() {
        Some(call) => call(function, first..first + BATCH),
        None => Err(format!("{function}: there is nobody to call it")),
    };
    SPENT_NS.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    let failed = match given {
        Ok(values) if values.len() as u64 == BATCH => {
            let batch: Rc<[Given]> = values.into();
            BATCHES.with_borrow_mut(|batches| {
                batches.retain(|(name, _, _)| &**name != function);
                batches.push((function.into(), first, batch.clone()));
            });
            return batch;
        }
        Ok(values) => format!("{function} gave {} values for {BATCH} rows", values.len()),
        Err(said) => said,
    };
    FAILED.replace(Some(failed));
    Rc::new([])
}

impl Given {
    pub(crate) fn kind(&self) -> CellKind {
        match self {
            Self::Number(_) => CellKind::Number,
            Self::Null | Self::Text(_) => CellKind::Text,
        }
    }
}
