//! The strict checker: what the servers' own tools let pass is found here.
//!
//! It reads a file event by event and never trusts what it reads: no number is taken for a size
//! before as many bytes have come, and nothing that a file says makes it panic.
//!
//! `damaged` is said only where bytes prove it: of a version that is not supported, broken rules of
//! the frame do, others leave the file `unknown`. What the check could not see stands in `limits`.
//!
//! `file` frames the events and judges each frame, `content` hands what is inside to those who
//! follow it: `transaction`, `gtid`, `rows`. `report` is what comes of it.

mod content;
mod file;
mod gtid;
mod old;
mod report;
mod rows;
mod transaction;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;

use crate::bytes::fill;
use crate::event::MAGIC;
use crate::payload::LARGEST_WINDOW_LOG;
use crate::table::TableMap;
use crate::transaction::Description;

use gtid::Gtids;
pub use report::{
    FileReport, Found, Limit, LimitKind, Packing, Problem, RowCounts, Rule, Tail, TailKind, Verdict,
};
use transaction::Transaction;

/// Most problems that are kept of a file; the others are only counted.
pub const KEPT_PROBLEMS: usize = 100;

/// Checks files, each as the one after the last; the default has seen no file.
#[derive(Debug, Default)]
pub struct Checker {
    before: Option<Before>,
}

/// The file before the one at hand.
#[derive(Debug)]
struct Before {
    name: String,
    next: Option<String>,
    gtids: Gtids,
}

impl Checker {
    /// Reads a file to its end, as the one after the file that was read before it. Files that gzip or zstd
    /// packed are unpacked: offsets are those of the binlog inside.
    ///
    /// # Errors
    /// It cannot be read. What is wrong with its content stands in the report.
    pub fn check(&mut self, name: &str, file: impl Read) -> io::Result<FileReport> {
        self.check_each(name, file, |_| {})
    }

    /// The same, telling of every whole transaction as it is found.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn check_each(
        &mut self,
        name: &str,
        mut file: impl Read,
        mut found: impl FnMut(Found),
    ) -> io::Result<FileReport> {
        let mut check = FileCheck::new(name, self.before.take());
        check.compare_name_with_file_before();
        let mut start = Vec::new();
        fill(&mut file, &mut start, MAGIC.len())?;
        let packing = Packing::of(&start);
        check.report.packing = packing;
        let whole = start.as_slice().chain(file);
        match packing {
            None => check.run(whole, &mut found)?,
            Some(Packing::Gzip) => check.run(BufReader::new(MultiGzDecoder::new(whole)), &mut found)?,
            Some(Packing::Zstd) => {
                let mut unpacked = zstd::Decoder::new(whole)?;
                unpacked.window_log_max(LARGEST_WINDOW_LOG)?;
                check.run(BufReader::new(unpacked), &mut found)?;
            }
        }
        let (report, before) = check.finish();
        self.before = Some(before);
        Ok(report)
    }
}

#[derive(Debug)]
struct FileCheck {
    report: FileReport,
    before: Option<Before>,
    description: Option<Description>,
    /// Where the event that is being looked at begins.
    position: u64,
    gtids: Gtids,
    previous_seen: bool,
    sequence_number: u64,
    /// A transaction's clock was not read.
    clock_unread: bool,
    transaction: Option<Transaction>,
    /// The transaction that the event at hand ends.
    closed: Option<Transaction>,
    /// Tables of the open statement; `None` for one of a type that is not known.
    tables: HashMap<u64, Option<TableMap>>,
    statement_open: bool,
    rows: RowCounts,
    ended: bool,
    /// Zero bytes that were read behind the last event.
    zeros: u64,
    broken: Broken,
}

/// Which kinds of rules the file breaks.
#[derive(Debug, Clone, Copy, Default)]
struct Broken {
    /// Rules that hold in every file of its version.
    proven: bool,
    /// Rules that its version, which is not supported, may not have.
    doubtful: bool,
    /// The file before it is another one.
    series: bool,
}

/// Whether the next event can be looked for.
#[derive(Debug, PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

impl FileCheck {
    fn new(name: &str, before: Option<Before>) -> Self {
        Self {
            report: FileReport {
                name: name.to_owned(),
                packing: None,
                verdict: Verdict::Whole,
                flavor: None,
                server_version: String::new(),
                checksums: false,
                in_use: false,
                bytes: 0,
                whole_until: 0,
                events: 0,
                event_types: BTreeMap::new(),
                transactions: 0,
                rows: RowCounts::default(),
                opaque_events: 0,
                previous_gtids: String::new(),
                gtids: String::new(),
                next: None,
                tail: None,
                limits: Vec::new(),
                problems: Vec::new(),
                problem_count: 0,
            },
            before,
            description: None,
            position: 0,
            gtids: Gtids::Unknown,
            previous_seen: false,
            sequence_number: 0,
            clock_unread: false,
            transaction: None,
            closed: None,
            tables: HashMap::new(),
            statement_open: false,
            rows: RowCounts::default(),
            ended: false,
            zeros: 0,
            broken: Broken::default(),
        }
    }

    /// Notes a limit of the check, each kind once.
    fn limit(&mut self, kind: LimitKind, message: impl Into<String>) {
        if !self.has_limit(kind) {
            let (offset, message) = (self.position, message.into());
            self.report.limits.push(Limit {
                offset,
                kind,
                message,
            });
        }
    }

    fn has_limit(&self, kind: LimitKind) -> bool {
        self.report.limits.iter().any(|limit| limit.kind == kind)
    }

    /// Whether transactions begin with an event of their own.
    fn has_gtids(&self) -> bool {
        self.description
            .as_ref()
            .is_none_or(|description| description.has_gtids)
    }

    /// Whether bytes up to here may be other than what the server wrote.
    fn is_broken(&self) -> bool {
        self.broken.proven || self.broken.doubtful
    }

    fn problem(&mut self, rule: Rule, message: impl Into<String>) {
        let is_supported = self
            .description
            .as_ref()
            .is_none_or(|description| description.is_supported);
        match rule {
            Rule::Series => self.broken.series = true,
            _ if is_supported || rule.is_of_frame() => self.broken.proven = true,
            _ => self.broken.doubtful = true,
        }
        self.report.problem_count += 1;
        if self.report.problems.len() < KEPT_PROBLEMS {
            let (offset, message) = (self.position, message.into());
            self.report.problems.push(Problem {
                offset,
                rule,
                message,
            });
        }
    }
}
