//! A load under way: its threads, and what its owner may ask.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::counts::{FillProgress, FillResult};
use super::shared::SharedSlices;
use super::spec::Spec;
use super::worker::{connect, Worker};
use crate::connection::Connection;
use crate::{Cancellation, Error, ErrorKind};

/// A load of rows into a table.
pub struct FillRun {
    shared: Arc<SharedSlices>,
    cancellation: Arc<Cancellation>,
    threads: Vec<JoinHandle<()>>,
}

impl FillRun {
    /// Connects and begins.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`]: the spec; [`ErrorKind::Server`]: a connection cannot be had; [`ErrorKind::Measurement`]: nor a thread.
    pub fn start(spec: &[u8], cancellation: Arc<Cancellation>) -> Result<Self, Error> {
        let spec = Spec::from_json(spec)?;
        let connections = (0..spec.connections)
            .map(|_| connect(&spec, &cancellation))
            .collect::<Result<Vec<_>, Error>>()?;
        let shared = Arc::new(SharedSlices::new(spec, connections.len()));
        let mut run = Self {
            shared,
            cancellation,
            threads: Vec::new(),
        };
        for connection in connections {
            run.spawn(connection)?;
        }
        Ok(run)
    }

    fn spawn(&mut self, connection: Connection) -> Result<(), Error> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new()
            .name("fill".to_owned())
            .spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| Worker::new(&shared, connection).work()));
                if let Err(error) = outcome.unwrap_or_else(|said| Err(Error::panicked(&*said))) {
                    shared.fail(error);
                }
                if shared.working.fetch_sub(1, Ordering::SeqCst) == 1 {
                    *shared.ended.lock() = Some(shared.began.elapsed());
                    shared.changed.notify_all();
                }
            });
        let failed = |error| Error::new(ErrorKind::Measurement, format!("no thread can be had: {error}"));
        self.threads.push(thread.map_err(failed)?);
        Ok(())
    }

    /// How far it is.
    pub fn progress(&self) -> FillProgress {
        let ended = *self.shared.ended.lock();
        let elapsed = ended.unwrap_or_else(|| self.shared.began.elapsed());
        self.shared.counts.progress(elapsed, ended.is_none())
    }

    /// What it has done, if it ends within `limit`.
    ///
    /// # Errors
    /// What ended it early.
    pub fn wait(&self, limit: Duration) -> Result<Option<FillResult>, Error> {
        let mut ended = self.shared.ended.lock();
        let changed = &self.shared.changed;
        changed.wait_while_for(&mut ended, |ended| ended.is_none(), limit);
        if ended.is_none() {
            return Ok(None);
        }
        drop(ended);
        let failed = self.shared.failed.lock().clone();
        match failed {
            Some(error) => Err(error),
            None => Ok(Some(self.shared.counts.result(self.progress()))),
        }
    }

    /// Lets it begin no transaction, or go on; those under way are committed. Connections stay in use.
    pub fn hold(&self, held: bool) {
        self.shared.hold(held);
    }

    /// Ends it: what is not committed is rolled back by the server.
    pub fn stop(&mut self) {
        self.shared.end();
        self.cancellation.cancel();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // what it had to say is in the shared state
        }
    }
}

impl Drop for FillRun {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_without_a_range_has_ended() {
        let plan = r#"{"seed": 1, "tables": [{"name": "t", "rows": 9, "columns": [
            {"name": "id", "generator": {"kind": "sequence", "start": 1, "step": 1}}]}]}"#;
        let spec = serde_json::json!({
            "endpoint": {"user": "u", "password": "p", "socket": "/nobody", "host": null, "port": null},
            "transport": "socket", "ssl_mode": "disabled", "ssl_ca": "", "database": "d", "plan": plan,
            "table": "t", "into": "`d`.`t`", "method": "insert", "connections": 2, "ranges": [],
            "batch_rows": 1, "packet_bytes": 1024, "chunk_bytes": 0, "session": [], "notes": null,
            "limit_seconds": null,
        });
        let run = FillRun::start(&serde_json::to_vec(&spec).unwrap(), Arc::new(Cancellation::new())).unwrap();
        let done = run.wait(Duration::ZERO).unwrap();
        assert!(done.is_some());
    }
}
