//! What of a log of several files is written, and what of that is synced.

use std::io;

use crate::sync::{locked, AtomicU64, Mutex, Ordering};

/// The account of a log whose files are `F`.
#[derive(Debug)]
pub(crate) struct Unsynced<F> {
    written: AtomicU64,
    synced: AtomicU64,
    /// The file that is written stands last, before it those that were ended and not synced since.
    files: Mutex<Vec<F>>,
    /// One syncs at a time: what is synced has no holes.
    syncing: Mutex<()>,
}

impl<F: Clone> Unsynced<F> {
    /// A log whose first file has so many bytes, all synced.
    pub(crate) fn new(file: F, bytes: u64) -> Self {
        Self {
            written: AtomicU64::new(bytes),
            synced: AtomicU64::new(bytes),
            files: Mutex::new(vec![file]),
            syncing: Mutex::new(()),
        }
    }

    /// So many bytes more were written to the last file.
    pub(crate) fn add(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Release);
    }

    /// What follows is written to another file.
    pub(crate) fn begin(&self, file: F) {
        locked(&self.files).push(file);
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Bytes that are written and not synced.
    pub(crate) fn at_risk(&self) -> u64 {
        let synced = self.synced.load(Ordering::Acquire);
        self.written().saturating_sub(synced)
    }

    /// Syncs what is written, by `sync` for each file that may need it; `false` if nothing needed it.
    pub(crate) fn sync(&self, sync: impl Fn(&F) -> io::Result<()>) -> io::Result<bool> {
        let written = self.written();
        let _syncing = locked(&self.syncing);
        if self.synced.load(Ordering::Relaxed) >= written {
            return Ok(false);
        }
        // Whatever is counted in `written` is in these, or was synced with one that was here before.
        let files = {
            let mut files = locked(&self.files);
            let current = files.last().cloned();
            std::mem::replace(&mut *files, current.into_iter().collect())
        };
        files.iter().try_for_each(sync)?;
        self.synced.store(written, Ordering::Release);
        Ok(true)
    }
}
