//! What a thread of a load does besides its work: its CPU time, its scheduling policy, how it ends.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

use crate::control::Control;
use crate::meter::Meter;
use crate::policy::Policy;
use crate::session::Context;
use crate::sync::locked;
use crate::{Error, ErrorKind};

/// The thread that drives the connections.
pub(crate) struct Worker {
    pub policy: Policy,
    pub control: Arc<Control>,
    pub meter: Arc<Mutex<Meter>>,
}

impl Worker {
    /// Drives them; an error, or a panic, makes the load fail.
    pub fn run(self, drive: impl FnOnce(Context<'_>) -> Result<(), Error>) {
        locked(&self.meter).thread_begins();
        let context = Context {
            control: &self.control,
            meter: &self.meter,
        };
        let policy = self.policy.apply().map_err(|error| {
            let message = format!("the system refuses SCHED_BATCH, client_sched batch: {error}");
            Error::new(ErrorKind::Measurement, message)
        });
        guarded(&self.control, || policy.and_then(|()| drive(context)));
        locked(&self.meter).thread_ends();
    }
}

/// Does a thread's work; an error, or a panic, makes the load fail: the rest of it is no measurement.
pub(crate) fn guarded(control: &Control, work: impl FnOnce() -> Result<(), Error>) {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => control.fail(error),
        Err(said) => control.fail_for_bug(Error::panicked(&*said)),
    }
}
