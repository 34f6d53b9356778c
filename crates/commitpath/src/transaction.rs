//! A transaction while it commits, in memory that goes round: from its committer through the queue to the leader
//! that carries it out, and back.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use flushlab_binlog::{Body, EncodeError, Format, Place};

use crate::redo::{Admission, Entry, EntryKind, HEADER_SIZE};
use crate::settings::{BinlogStrategy, CommitSettings};
use crate::shape::Transactions;

/// Largest transaction whose events go through the redo log (`persist_binlog_to_redo_size_limit`): larger
/// ones are synced in the binlog itself.
const PERSIST_LIMIT: u64 = 1 << 20;

/// One committer's transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// The thread that it goes back to.
    pub(crate) thread: u32,
    committer: u32,
    source: Transactions,
    made: u64,
    body: Body,
    pub(crate) xid: u64,
    pub(crate) began: Instant,
    /// What it was placed under; of the last transaction until then.
    pub(crate) settings: CommitSettings,
    pub(crate) place: Place,
    /// Number of its file, and whether it is the first there.
    pub(crate) file: u32,
    pub(crate) begins_file: bool,
    /// Its events as they stand in the file, once it has a place and `is_finished`.
    pub(crate) events: Vec<u8>,
    pub(crate) is_finished: bool,
    pub(crate) admission: Admission,
    /// Its redo record will hold its events, and has room for them.
    pub(crate) in_redo: bool,
    /// End of its redo record; 0 for none.
    pub(crate) lsn: u64,
}

impl Transaction {
    pub(crate) fn new(
        format: &Format,
        settings: CommitSettings,
        thread: u32,
        committer: u32,
        source: Transactions,
    ) -> Box<Self> {
        let place = Place {
            position: 0,
            gtid_number: 0,
            last_committed: 0,
            sequence_number: 0,
            commit_us: 0,
            commit_id: 0,
        };
        Box::new(Self {
            thread,
            committer,
            source,
            made: 0,
            body: Body::new(format),
            xid: 0,
            began: Instant::now(),
            settings,
            place,
            file: 0,
            begins_file: false,
            events: Vec::new(),
            is_finished: false,
            admission: Admission::default(),
            in_redo: false,
            lsn: 0,
        })
    }

    /// Encodes the committer's next transaction.
    pub(crate) fn next(&mut self) -> Result<(), EncodeError> {
        self.made += 1;
        self.xid = self.made << 8 | u64::from(self.committer);
        (self.is_finished, self.lsn) = (false, 0);
        self.source.next(&mut self.body, self.xid)
    }

    /// Bytes of its events in the file.
    pub(crate) fn size(&self) -> u64 {
        self.body.size(false)
    }

    /// What a record of it says.
    pub(crate) fn entry(&self, kind: EntryKind) -> Entry<'_> {
        let prepare = Entry {
            kind,
            xid: self.xid,
            gtid_number: 0,
            payload: self.source.redo(),
            binlog: &[],
        };
        let gtid_number = self.place.gtid_number;
        match kind {
            EntryKind::Prepare => prepare,
            EntryKind::Commit => Entry {
                gtid_number,
                payload: &[],
                ..prepare
            },
            EntryKind::Binlog { .. } => Entry {
                gtid_number,
                binlog: &self.events,
                ..prepare
            },
        }
    }

    /// Most that it appends to the redo log: a prepare or binlog record, and a commit record.
    pub(crate) fn redo_bytes(&mut self) -> u64 {
        let size = self.size();
        self.in_redo = self.settings.binlog_strategy == BinlogStrategy::Redo && size <= PERSIST_LIMIT;
        let events = if self.in_redo { size } else { 0 };
        (2 * HEADER_SIZE + self.source.redo().len()) as u64 + events
    }

    /// Writes the events for the place, checksums included.
    pub(crate) fn finish(&mut self) -> Result<(), EncodeError> {
        self.events.resize(self.size() as usize, 0);
        self.is_finished = true;
        self.body.finish_into(&self.place, &mut self.events)
    }
}

/// Microseconds since 1970.
pub(crate) fn clock_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros() as u64
}
