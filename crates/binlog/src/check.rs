//! The strict checker: what the servers' own tools let pass is found here.
//!
//! It reads a file event by event and never trusts what it reads: no number is taken for a size
//! before as many bytes have come, and nothing that a file says makes it panic.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Read};

use crate::event::{checksum, EventType, Header, CHECKSUM_SIZE, FLAG_IN_USE, HEADER_SIZE, MAGIC};
use crate::format::Flavor;
use crate::gtid::{GtidList, GtidSet};
use crate::table::TableMap;
use crate::transaction::{Description, End, MariadbGtid, MysqlGtid, Query};
use crate::wire::Malformed;
use crate::{Change, Rows};

/// Most problems that are kept of a file; the others are only counted.
pub const KEPT_PROBLEMS: usize = 100;

/// Which rule of the format a problem breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Rule {
    /// The file begins with the magic number and a FORMAT_DESCRIPTION.
    Format,
    /// Every event lies inside the file and has the size that its content needs.
    Size,
    /// Every event says where it ends.
    LogPos,
    /// Every event's checksum is that of its bytes.
    Checksum,
    /// Events come in the order that makes transactions.
    Structure,
    /// A transaction is as long as its GTID event says.
    TransactionLength,
    /// GTIDs follow each other, and each file goes on where the one before ended.
    Gtid,
    /// Sequence numbers follow each other.
    SequenceNumber,
    /// A transaction waits for an earlier one only.
    LastCommitted,
    /// Every TABLE_MAP describes a table.
    TableMap,
    /// Every row is one of its table.
    Rows,
    /// Every event's body is one of its type.
    Body,
    /// A file that was closed in good order has no torn tail.
    Tail,
}

impl Rule {
    /// Its name in reports: `log-pos`.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Size => "size",
            Self::LogPos => "log-pos",
            Self::Checksum => "checksum",
            Self::Structure => "structure",
            Self::TransactionLength => "transaction-length",
            Self::Gtid => "gtid",
            Self::SequenceNumber => "sequence-number",
            Self::LastCommitted => "last-committed",
            Self::TableMap => "table-map",
            Self::Rows => "rows",
            Self::Body => "body",
            Self::Tail => "tail",
        }
    }
}

/// A rule that a file breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Problem {
    /// Where the event begins.
    pub offset: u64,
    /// Which rule.
    pub rule: Rule,
    /// What is wrong, in words.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "at {}: {} ({})",
            self.offset,
            self.message,
            self.rule.slug()
        )
    }
}

/// How a torn tail looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum TailKind {
    /// The file ends inside an event.
    Event,
    /// The file ends between two events of a transaction.
    Transaction,
    /// Nothing but zero bytes: space that was allocated and not written.
    Zeros,
}

/// A file's end that makes no whole transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Tail {
    /// Where it begins: all before it is whole.
    pub offset: u64,
    /// How it looks.
    pub kind: TailKind,
    /// Bytes from there to the end of the file.
    pub bytes: u64,
}

/// Rows that were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RowCounts {
    /// Inserted.
    pub written: u64,
    /// Updated: pairs of before and after.
    pub updated: u64,
    /// Deleted.
    pub deleted: u64,
}

/// What a check comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Verdict {
    /// Every rule holds to the last byte.
    Whole,
    /// Every rule holds up to a torn tail in a file that was in use: what a crash leaves.
    Torn,
    /// A rule is broken.
    Damaged,
}

/// What is known of a file after its check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FileReport {
    /// The file, as the caller names it.
    pub name: String,
    /// What it comes to.
    pub verdict: Verdict,
    /// Whose file it is.
    pub flavor: Option<Flavor>,
    /// The server's version text.
    pub server_version: String,
    /// Whether events carry a CRC-32.
    pub checksums: bool,
    /// Whether it is marked as open: it is being written, or its writer died.
    pub in_use: bool,
    /// Bytes that were read.
    pub bytes: u64,
    /// Where the last whole transaction ends.
    pub whole_until: u64,
    /// Events.
    pub events: u64,
    /// Events by their type's name.
    pub event_types: BTreeMap<String, u64>,
    /// Transactions that are whole.
    pub transactions: u64,
    /// Rows in them.
    pub rows: RowCounts,
    /// Events whose content was not read: compressed, tagged, partial or of an unknown type.
    pub opaque_events: u64,
    /// GTIDs of the files before, as the file says.
    pub previous_gtids: String,
    /// GTIDs after the file.
    pub gtids: String,
    /// The file that it says comes next.
    pub next: Option<String>,
    /// The torn tail, if there is one.
    pub tail: Option<Tail>,
    /// Rules that it breaks, the first [`KEPT_PROBLEMS`] of them.
    pub problems: Vec<Problem>,
    /// How many there are.
    pub problem_count: u64,
}

/// What may be forgiven.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// GTIDs may leave numbers out, as a replica's of several sources do.
    pub gaps: bool,
}

/// Checks files, each as the one after the last.
#[derive(Debug, Default)]
pub struct Checker {
    options: Options,
    before: Option<(Option<String>, Gtids)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Gtids {
    #[default]
    Unknown,
    Set(GtidSet),
    List(GtidList),
}

impl fmt::Display for Gtids {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::Set(set) => set.fmt(formatter),
            Self::List(list) => list.fmt(formatter),
        }
    }
}

impl Checker {
    /// A checker that has seen no file.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            before: None,
        }
    }

    /// Reads a file to its end, as the one after the file that was read before it.
    ///
    /// # Errors
    /// It cannot be read. What is wrong with its content stands in the report.
    pub fn check(&mut self, name: &str, file: impl Read) -> io::Result<FileReport> {
        let mut check = FileCheck::new(name, self.options, self.before.take());
        check.run(file)?;
        let (report, gtids) = check.finish();
        self.before = Some((report.next.clone(), gtids));
        Ok(report)
    }
}

/// A transaction that is being read.
#[derive(Debug)]
struct Transaction {
    start: u64,
    length: Option<u64>,
    begun: bool,
    standalone: bool,
}

#[derive(Debug)]
struct FileCheck {
    options: Options,
    report: FileReport,
    before: Option<(Option<String>, Gtids)>,
    description: Option<Description>,
    /// Where the event that is being looked at begins.
    position: u64,
    gtids: Gtids,
    previous_seen: bool,
    sequence_number: u64,
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
}

/// Whether the next event can be looked for.
#[derive(Debug, PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

impl FileCheck {
    fn new(name: &str, options: Options, before: Option<(Option<String>, Gtids)>) -> Self {
        Self {
            options,
            report: FileReport {
                name: name.to_owned(),
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
                problems: Vec::new(),
                problem_count: 0,
            },
            before,
            description: None,
            position: 0,
            gtids: Gtids::Unknown,
            previous_seen: false,
            sequence_number: 0,
            transaction: None,
            closed: None,
            tables: HashMap::new(),
            statement_open: false,
            rows: RowCounts::default(),
            ended: false,
            zeros: 0,
        }
    }

    fn problem(&mut self, rule: Rule, message: impl Into<String>) {
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

    fn run(&mut self, mut file: impl Read) -> io::Result<()> {
        let mut event = Vec::new();
        fill(&mut file, &mut event, MAGIC.len())?;
        if event != MAGIC {
            self.no_binlog(&event);
            self.report.bytes = event.len() as u64 + io::copy(&mut file, &mut io::sink())?;
            return Ok(());
        }
        self.position = MAGIC.len() as u64;
        self.report.whole_until = self.position;
        loop {
            event.clear();
            fill(&mut file, &mut event, HEADER_SIZE)?;
            if event.is_empty() {
                break;
            }
            if self.read_event(&mut file, &mut event)? == Go::Stop {
                break;
            }
        }
        let rest = io::copy(&mut file, &mut io::sink())?;
        self.report.bytes = self.position + event.len() as u64 + self.zeros + rest;
        Ok(())
    }

    fn no_binlog(&mut self, start: &[u8]) {
        let message = match start {
            [0xfd, b'b', b'i', b'n'] => "the file is encrypted: it must be checked where its keys are",
            [] => "the file is empty",
            _ => "the file is no binlog: it does not begin with fe 62 69 6e",
        };
        self.problem(Rule::Format, message);
    }

    /// Reads the event whose header stands in `event`; afterwards `event` has what was read and
    /// not accepted, which is nothing unless the file ends here or cannot be followed further.
    fn read_event(&mut self, file: &mut impl Read, event: &mut Vec<u8>) -> io::Result<Go> {
        let Ok(header) = Header::parse(event) else {
            self.torn(TailKind::Event);
            return Ok(Go::Stop);
        };
        if event.iter().all(|byte| *byte == 0) {
            return self.read_zeros(file);
        }
        let size = header.size as usize;
        if size < HEADER_SIZE + self.checksum_size() {
            self.problem(
                Rule::Size,
                format!("an event of {size} bytes is smaller than its header"),
            );
            return Ok(Go::Stop);
        }
        fill(file, event, size)?;
        if event.len() < size {
            self.cut_short(&header, event.len());
            return Ok(Go::Stop);
        }
        let go = self.judge(&header, event);
        if go == Go::On {
            self.position += size as u64;
            event.clear();
            self.after_event();
        }
        Ok(go)
    }

    fn checksum_size(&self) -> usize {
        match &self.description {
            Some(description) if !description.checksums => 0,
            _ => CHECKSUM_SIZE,
        }
    }

    fn torn(&mut self, kind: TailKind) {
        let offset = self.report.whole_until;
        self.report.tail = Some(Tail {
            offset,
            kind,
            bytes: 0,
        });
    }

    fn read_zeros(&mut self, file: &mut impl Read) -> io::Result<Go> {
        let mut chunk = [0; 8192];
        loop {
            let read = file.read(&mut chunk)?;
            if read == 0 {
                self.torn(TailKind::Zeros);
                return Ok(Go::Stop);
            }
            self.zeros += read as u64;
            if chunk[..read].iter().any(|byte| *byte != 0) {
                self.problem(Rule::Size, "zero bytes stand where an event must begin");
                return Ok(Go::Stop);
            }
        }
    }

    /// The file ends inside the event: torn if its header is right so far, else damaged.
    fn cut_short(&mut self, header: &Header, left: usize) {
        if header.log_pos == self.end_of(header) || self.log_pos_may_be_open(header) {
            self.torn(TailKind::Event);
            return;
        }
        let message = format!(
            "an event of {} bytes has {left} bytes left in the file",
            header.size
        );
        self.problem(Rule::Size, message);
    }

    fn end_of(&self, header: &Header) -> u32 {
        (self.position + u64::from(header.size)) as u32
    }

    /// MariaDB 11.4 and later leave it open inside transactions.
    fn log_pos_may_be_open(&self, header: &Header) -> bool {
        let leaves = self
            .description
            .as_ref()
            .is_some_and(|description| description.leaves_log_pos);
        leaves && header.log_pos == 0 && self.transaction.is_some()
    }

    /// Looks at a whole event: first at its frame, then, if that holds, at its content.
    fn judge(&mut self, header: &Header, event: &mut [u8]) -> Go {
        self.report.events += 1;
        let name = match header.event_type.name() {
            Some(name) => name.to_owned(),
            None => format!("type {}", header.event_type.0),
        };
        let is_first = self.description.is_none();
        if is_first && header.event_type != EventType::FORMAT_DESCRIPTION {
            self.problem(
                Rule::Format,
                format!("the first event is {name}, no FORMAT_DESCRIPTION"),
            );
            return Go::Stop;
        }
        *self.report.event_types.entry(name).or_default() += 1;
        let position_holds = header.log_pos == self.end_of(header) || self.log_pos_may_be_open(header);
        if !position_holds {
            let (wanted, given) = (self.end_of(header), header.log_pos);
            self.problem(
                Rule::LogPos,
                format!("log_pos is {given}, the event ends at {wanted}"),
            );
        }
        if is_first {
            return self.judge_description(header, event);
        }
        let body_end = event.len() - self.checksum_size();
        let (content, given) = event.split_at(body_end);
        if !given.is_empty() && given != checksum(content).to_le_bytes() {
            let computed = checksum(content);
            self.problem(
                Rule::Checksum,
                format!("the bytes' CRC-32 is {computed:08x}, another is stored"),
            );
            if !position_holds {
                // A header that is wrong in two ways gives no size to go on by.
                return Go::Stop;
            }
        }
        if self.ended {
            self.problem(
                Rule::Structure,
                "an event stands behind the one that ends the file",
            );
        }
        self.judge_content(header, &content[HEADER_SIZE..])
    }

    fn judge_description(&mut self, header: &Header, event: &mut [u8]) -> Go {
        self.report.in_use = header.flags & FLAG_IN_USE != 0;
        // The checksum was taken before the file was in use.
        event[17] &= !(FLAG_IN_USE as u8);
        let (content, given) = event.split_at(event.len() - CHECKSUM_SIZE);
        match Description::parse(&content[HEADER_SIZE..]) {
            Ok(description) => {
                if description.checksums && given != checksum(content).to_le_bytes() {
                    let computed = checksum(content);
                    let message = format!("the bytes' CRC-32 is {computed:08x}, another is stored");
                    self.problem(Rule::Checksum, message);
                }
                self.report.flavor = Some(description.flavor);
                self.report.server_version = description.version_text.clone();
                self.report.checksums = description.checksums;
                self.description = Some(description);
                Go::On
            }
            Err(error) => {
                self.problem(Rule::Format, format!("FORMAT_DESCRIPTION: {error}"));
                Go::Stop
            }
        }
    }

    fn judge_content(&mut self, header: &Header, body: &[u8]) -> Go {
        match header.event_type {
            EventType::PREVIOUS_GTIDS | EventType::GTID_LIST => self.previous(header.event_type, body),
            EventType::GTID | EventType::ANONYMOUS_GTID => self.mysql_gtid(header.event_type, body),
            EventType::MARIADB_GTID => self.mariadb_gtid(header, body),
            EventType::GTID_TAGGED => {
                self.report.opaque_events += 1;
                self.gtids = Gtids::Unknown;
                // Its number is not read: the next transaction's cannot be foretold.
                self.sequence_number = 0;
                self.open(None, false);
            }
            EventType::QUERY => self.query(body),
            EventType::XID => {
                if body.len() != 8 {
                    self.problem(Rule::Size, format!("XID has {} bytes, not 8", body.len()));
                }
                self.end_transaction(header);
            }
            EventType::XA_PREPARE => self.end_transaction(header),
            EventType::TRANSACTION_PAYLOAD => {
                self.report.opaque_events += 1;
                self.end_transaction(header);
            }
            EventType::TABLE_MAP => self.table_map(body),
            EventType::ROTATE => self.rotate(body),
            EventType::STOP => self.ended = true,
            EventType::FORMAT_DESCRIPTION => {
                self.problem(Rule::Structure, "there is a second FORMAT_DESCRIPTION");
            }
            EventType::START_ENCRYPTION => {
                self.problem(
                    Rule::Format,
                    "the file is encrypted from here: its keys are elsewhere",
                );
                return Go::Stop;
            }
            event_type => self.other(event_type, body),
        }
        Go::On
    }

    fn other(&mut self, event_type: EventType, body: &[u8]) {
        if Rows::change_of(event_type).is_some() {
            self.row_event(event_type, body);
            return;
        }
        match event_type {
            EventType::BINLOG_CHECKPOINT | EventType::INCIDENT | EventType::HEARTBEAT => {}
            EventType::PARTIAL_UPDATE_ROWS
            | EventType::WRITE_ROWS_COMPRESSED_V1
            | EventType::UPDATE_ROWS_COMPRESSED_V1
            | EventType::DELETE_ROWS_COMPRESSED_V1
            | EventType::WRITE_ROWS_COMPRESSED
            | EventType::UPDATE_ROWS_COMPRESSED
            | EventType::DELETE_ROWS_COMPRESSED => {
                self.report.opaque_events += 1;
                // Their first bytes are those of row events: six of the table, two of flags.
                let ends = body.get(6).is_some_and(|flags| flags & 1 == 1);
                self.statement_open = !ends;
                if ends {
                    self.tables.clear();
                }
                self.needs_transaction(event_type);
            }
            EventType::QUERY_COMPRESSED => {
                self.report.opaque_events += 1;
                if self.transaction.as_ref().is_some_and(|open| open.standalone) {
                    self.close_transaction();
                }
            }
            _ if event_type.name().is_none() => self.report.opaque_events += 1,
            _ => self.needs_transaction(event_type),
        }
    }

    fn needs_transaction(&mut self, event_type: EventType) {
        if self.transaction.is_none() {
            let name = event_type.name().unwrap_or("an event");
            self.problem(
                Rule::Structure,
                format!("{name} stands outside of any transaction"),
            );
        }
    }

    fn previous(&mut self, event_type: EventType, body: &[u8]) {
        if self.previous_seen || self.transaction.is_some() {
            self.problem(
                Rule::Structure,
                "the GTIDs of earlier files stand in a wrong place",
            );
            return;
        }
        self.previous_seen = true;
        let tagged = event_type == EventType::PREVIOUS_GTIDS && body.get(7).is_some_and(|byte| *byte != 0);
        let parsed = match event_type {
            _ if tagged => {
                self.report.opaque_events += 1;
                Ok(Gtids::Unknown)
            }
            EventType::PREVIOUS_GTIDS => GtidSet::parse(body).map(Gtids::Set),
            _ => GtidList::parse(body).map(Gtids::List),
        };
        match parsed {
            Ok(gtids) => {
                self.report.previous_gtids = gtids.to_string();
                self.gtids = gtids;
                self.compare_with_file_before();
            }
            Err(error) => self.problem(Rule::Gtid, error.to_string()),
        }
    }

    fn compare_with_file_before(&mut self) {
        let Some((_, before)) = &self.before else {
            return;
        };
        if *before != Gtids::Unknown && self.gtids != Gtids::Unknown && *before != self.gtids {
            let message = format!(
                "the file says that {:?} was logged before it, the file before it ends with {:?}",
                self.gtids.to_string(),
                before.to_string()
            );
            self.problem(Rule::Gtid, message);
        }
    }

    fn open(&mut self, length: Option<u64>, standalone: bool) {
        if let Some(open) = &self.transaction {
            let start = open.start;
            self.problem(Rule::Structure, format!("the transaction at {start} has no end"));
            self.forget_transaction();
        }
        self.transaction = Some(Transaction {
            start: self.position,
            length,
            begun: false,
            standalone,
        });
    }

    fn mysql_gtid(&mut self, event_type: EventType, body: &[u8]) {
        let gtid = match MysqlGtid::parse(body) {
            Ok(gtid) => gtid,
            Err(error) => {
                self.problem(Rule::Body, error.to_string());
                self.open(None, false);
                return;
            }
        };
        self.open(gtid.transaction_length, false);
        self.logical_clock(&gtid);
        if event_type == EventType::ANONYMOUS_GTID {
            if gtid.number != 0 {
                self.problem(Rule::Gtid, "an anonymous transaction has a number");
            }
            return;
        }
        if gtid.number == 0 || gtid.number >= i64::MAX as u64 {
            self.problem(Rule::Gtid, format!("{} is no number of a GTID", gtid.number));
            return;
        }
        if let Gtids::Set(seen) = &mut self.gtids {
            let follows = gtid.number == 1 || seen.contains(gtid.uuid, gtid.number - 1);
            let last = seen.last(gtid.uuid);
            if !seen.insert(gtid.uuid, gtid.number) {
                let message = format!("the GTID {}:{} was there before", gtid.uuid, gtid.number);
                self.problem(Rule::Gtid, message);
            } else if !follows && !self.options.gaps {
                let message = format!("the GTID {}:{} follows {last}", gtid.uuid, gtid.number);
                self.problem(Rule::Gtid, message);
            }
        }
    }

    fn logical_clock(&mut self, gtid: &MysqlGtid) {
        let (own, waits_for) = (gtid.sequence_number, gtid.last_committed);
        if own == 0 && waits_for == 0 {
            return;
        }
        let before = std::mem::replace(&mut self.sequence_number, own);
        let after_unknown = before == 0 && self.report.event_types.contains_key("GTID_TAGGED");
        if own != before.wrapping_add(1) && !after_unknown {
            self.problem(
                Rule::SequenceNumber,
                format!("sequence_number {own} follows {before}"),
            );
        }
        if waits_for >= own {
            let message = format!("last_committed {waits_for} is not below sequence_number {own}");
            self.problem(Rule::LastCommitted, message);
        }
    }

    fn mariadb_gtid(&mut self, header: &Header, body: &[u8]) {
        let gtid = match MariadbGtid::parse(body) {
            Ok(gtid) => gtid,
            Err(error) => {
                self.problem(Rule::Body, error.to_string());
                self.open(None, false);
                return;
            }
        };
        self.open(None, gtid.standalone);
        if let Gtids::List(seen) = &mut self.gtids {
            let last = seen.last(gtid.domain);
            seen.set(gtid.domain, header.server_id, gtid.number);
            let name = format!("{}-{}-{}", gtid.domain, header.server_id, gtid.number);
            if gtid.number <= last {
                self.problem(
                    Rule::Gtid,
                    format!("the GTID {name} comes after the number {last}"),
                );
            } else if gtid.number != last + 1 && !self.options.gaps {
                self.problem(Rule::Gtid, format!("the GTID {name} follows {last}"));
            }
        }
    }

    fn query(&mut self, body: &[u8]) {
        let query = match Query::parse(body) {
            Ok(query) => query,
            Err(error) => {
                self.problem(Rule::Body, error.to_string());
                return;
            }
        };
        let is_mariadb = self.report.flavor == Some(Flavor::Mariadb);
        let Some(open) = &mut self.transaction else {
            self.needs_transaction(EventType::QUERY);
            return;
        };
        match query.end() {
            End::Begins => open.begun = true,
            End::Ends => self.close_transaction(),
            End::Neither if open.standalone || (!is_mariadb && !open.begun) => self.close_transaction(),
            End::Neither => {}
        }
    }

    fn end_transaction(&mut self, header: &Header) {
        match self.transaction {
            Some(_) => self.close_transaction(),
            None => self.needs_transaction(header.event_type),
        }
    }

    /// The event at hand ends the transaction, which counts once the event was looked at whole.
    fn close_transaction(&mut self) {
        if self.statement_open {
            self.problem(Rule::Rows, "the transaction ends inside a statement");
        }
        self.closed = self.transaction.take();
        self.tables.clear();
        self.statement_open = false;
    }

    /// `position` stands behind an event now.
    fn after_event(&mut self) {
        if let Some(closed) = self.closed.take() {
            let rows = std::mem::take(&mut self.rows);
            self.report.rows.written += rows.written;
            self.report.rows.updated += rows.updated;
            self.report.rows.deleted += rows.deleted;
            self.report.transactions += 1;
            let length = self.position - closed.start;
            if closed.length.is_some_and(|told| told != length) {
                let told = closed.length.unwrap_or_default();
                let end = std::mem::replace(&mut self.position, closed.start);
                let message = format!("transaction_length is {told}, its events have {length} bytes");
                self.problem(Rule::TransactionLength, message);
                self.position = end;
            }
        }
        if self.transaction.is_none() {
            self.report.whole_until = self.position;
        }
    }

    fn forget_transaction(&mut self) {
        self.transaction = None;
        self.rows = RowCounts::default();
        self.tables.clear();
        self.statement_open = false;
    }

    fn table_map(&mut self, body: &[u8]) {
        self.needs_transaction(EventType::TABLE_MAP);
        match TableMap::parse(body) {
            Ok(table) => {
                self.tables.insert(table.id, Some(table));
            }
            Err(error) if error.is_unknown() => {
                self.report.opaque_events += 1;
                let id = crate::wire::little(body.get(..6).unwrap_or_default());
                self.tables.insert(id, None);
            }
            Err(error) => self.problem(Rule::TableMap, error.to_string()),
        }
    }

    fn row_event(&mut self, event_type: EventType, body: &[u8]) {
        self.needs_transaction(event_type);
        let rows = match Rows::parse(event_type, body) {
            Ok(rows) => rows,
            Err(error) => {
                self.problem(Rule::Rows, error.to_string());
                return;
            }
        };
        let ends = rows.flags & crate::rows::STATEMENT_END != 0;
        if let Err(error) = self.read_rows(rows) {
            self.problem(Rule::Rows, error.to_string());
        }
        self.statement_open = !ends;
        if ends {
            self.tables.clear();
        }
    }

    fn read_rows(&mut self, mut rows: Rows<'_>) -> Result<(), Malformed> {
        if rows.table_id == crate::rows::DUMMY_TABLE_ID && rows.is_empty() {
            return Ok(());
        }
        let table = match self.tables.get(&rows.table_id) {
            Some(Some(table)) => table,
            Some(None) => {
                self.report.opaque_events += 1;
                return Ok(());
            }
            None => {
                let id = rows.table_id;
                return Err(Malformed::new(format!(
                    "there is no TABLE_MAP for the table id {id}"
                )));
            }
        };
        let mut count = 0_u64;
        while !rows.is_empty() {
            rows.read_row(&table.columns, |_, _, _| {}).map_err(|error| {
                let schema = String::from_utf8_lossy(&table.schema);
                let name = String::from_utf8_lossy(&table.name);
                Malformed::new(format!("row {count} (from 0) of {schema}.{name}: {error}"))
            })?;
            count += 1;
        }
        let counter = match rows.change {
            Change::Write => &mut self.rows.written,
            Change::Update => &mut self.rows.updated,
            Change::Delete => &mut self.rows.deleted,
        };
        *counter += count;
        Ok(())
    }

    fn rotate(&mut self, body: &[u8]) {
        self.ended = true;
        match body.split_first_chunk::<8>() {
            Some((position, name)) if !name.is_empty() => {
                if u64::from_le_bytes(*position) != MAGIC.len() as u64 {
                    self.problem(Rule::Body, "ROTATE does not lead to the next file's beginning");
                }
                self.report.next = Some(String::from_utf8_lossy(name).into_owned());
            }
            _ => self.problem(Rule::Body, "ROTATE has no position or no name"),
        }
    }

    fn finish(mut self) -> (FileReport, Gtids) {
        self.compare_name_with_file_before();
        if let (Some(open), None) = (&self.transaction, &self.report.tail) {
            if self.report.problem_count == 0 || self.position == self.report.bytes {
                self.position = open.start;
                self.torn(TailKind::Transaction);
            }
        }
        let empty = self.description.is_none() && self.report.problem_count == 0;
        if empty && self.report.tail.is_none() {
            self.torn(TailKind::Event);
        }
        if let Some(tail) = &mut self.report.tail {
            tail.bytes = self.report.bytes - tail.offset;
            // Without a description the flag is not known: it comes to the file with it.
            if !self.report.in_use && self.description.is_some() {
                let message = "the tail is torn, but the file was closed in good order (IN_USE is clear)";
                self.position = tail.offset;
                self.problem(Rule::Tail, message);
            }
        }
        self.report.gtids = self.gtids.to_string();
        self.report.verdict = match (self.report.problem_count, &self.report.tail) {
            (0, None) => Verdict::Whole,
            (0, Some(_)) => Verdict::Torn,
            _ => Verdict::Damaged,
        };
        (self.report, self.gtids)
    }

    fn compare_name_with_file_before(&mut self) {
        let Some((Some(next), _)) = &self.before else {
            return;
        };
        let name = self.report.name.rsplit('/').next().unwrap_or_default();
        if next != name {
            let message = format!("the file before it says that {next} comes next");
            self.position = 0;
            self.problem(Rule::Structure, message);
        }
    }
}

/// Reads until `buffer` has `size` bytes or the file ends; takes memory only for what comes.
fn fill(file: &mut impl Read, buffer: &mut Vec<u8>, size: usize) -> io::Result<()> {
    let missing = size.saturating_sub(buffer.len()) as u64;
    file.by_ref().take(missing).read_to_end(buffer).map(drop)
}
