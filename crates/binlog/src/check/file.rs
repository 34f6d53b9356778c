//! The file as events: sizes, places and checksums, and how it ends.

use std::io::{self, Read};

use super::report::{FileReport, Found, LimitKind, Rule, Tail, TailKind, Verdict};
use super::{Before, FileCheck, Go, Gtids};
use crate::bytes::fill;
use crate::event::{
    checksum, EventType, Header, CHECKSUM_SIZE, FLAG_IN_USE, FLAG_RELAY_LOG, HEADER_SIZE, MAGIC,
    MAGIC_ENCRYPTED,
};
use crate::format::Flavor;
use crate::transaction::Description;

impl FileCheck {
    pub(super) fn run(&mut self, mut file: impl Read, found: &mut impl FnMut(Found)) -> io::Result<()> {
        let mut event = Vec::new();
        fill(&mut file, &mut event, MAGIC.len())?;
        if event != MAGIC {
            fill(&mut file, &mut event, MAGIC.len() + HEADER_SIZE)?;
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
                if self.description.is_none() {
                    self.torn(TailKind::Event);
                }
                break;
            }
            if self.read_event(&mut file, &mut event, found)? == Go::Stop {
                break;
            }
        }
        let rest = io::copy(&mut file, &mut io::sink())?;
        self.report.bytes = self.position + event.len() as u64 + self.zeros + rest;
        Ok(())
    }

    fn no_binlog(&mut self, start: &[u8]) {
        // Four bytes alone prove nothing: an index may begin with `/bin`.
        let is_described = |header: &[u8]| header.get(4) == Some(&EventType::FORMAT_DESCRIPTION.0);
        match start {
            _ if MAGIC.starts_with(start) => self.torn(TailKind::Event),
            _ if start.starts_with(&MAGIC_ENCRYPTED) => self.limit(
                LimitKind::Encrypted,
                "the file is encrypted: its keys are needed to check it",
            ),
            [0xef, 0xbf, 0xbd, b'b', b'i', b'n', ..] => self.problem(
                Rule::Format,
                "the file was converted as text: it begins with ef bf bd, the replacement character of UTF-8, not with fe",
            ),
            [first, b'b', b'i', b'n', header @ ..] if is_described(header) => {
                self.problem(Rule::Format, format!("the file begins with {first:02x}, not with fe"));
            }
            _ => {
                let other = match start {
                    [0xfe, 0xfe, 0x0c, 0x01, ..] => "it is a GTID index of MariaDB",
                    [0xfd, b'7', b'z', b'X', ..] => "it is packed with xz",
                    [b'B', b'Z', b'h', ..] => "it is packed with bzip2",
                    [0x04, 0x22, 0x4d, 0x18, ..] => "it is packed with lz4",
                    [b'P', b'K', 3, 4, ..] => "it is packed with zip",
                    _ => "it does not begin with fe 62 69 6e",
                };
                self.limit(LimitKind::Format, format!("the file is not a binlog: {other}"));
            }
        }
    }

    /// Reads the event whose header stands in `event`; afterwards `event` has what was read and
    /// not accepted, which is nothing unless the file ends here or cannot be followed further.
    fn read_event(
        &mut self,
        file: &mut impl Read,
        event: &mut Vec<u8>,
        found: &mut impl FnMut(Found),
    ) -> io::Result<Go> {
        let Ok(header) = Header::parse(event) else {
            self.torn(TailKind::Event);
            return Ok(Go::Stop);
        };
        if event.iter().all(|byte| *byte == 0) {
            return self.read_zeros(file);
        }
        if self.description.is_none() && header.event_type == EventType::START_V3 {
            self.read_old_format(file, event)?;
            return Ok(Go::Stop);
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
            if let Some(transaction) = self.after_event() {
                found(transaction);
            }
        }
        Ok(go)
    }

    fn checksum_size(&self) -> usize {
        match &self.description {
            Some(description) if description.checksums => CHECKSUM_SIZE,
            _ => 0,
        }
    }

    /// Notes a tail that is not whole, unless what is before it is damaged.
    pub(super) fn torn(&mut self, kind: TailKind) {
        let offset = self.report.whole_until;
        self.report.tail = (!self.is_broken()).then_some(Tail {
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
                self.problem(Rule::Size, "zero bytes where an event must begin");
                return Ok(Go::Stop);
            }
        }
    }

    /// The file ends inside the event: torn if its header is right so far, else damaged.
    fn cut_short(&mut self, header: &Header, left: usize) {
        if self.position_holds(header) {
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

    fn position_holds(&self, header: &Header) -> bool {
        header.log_pos == self.end_of(header)
            || self.log_pos_may_be_open(header)
            // A relay log's events come from another file.
            || self.has_limit(LimitKind::RelayLog)
            || self.begins_a_relay_log(header)
    }

    /// A replica's first event from its source names the source's file: no log has it elsewhere.
    fn begins_a_relay_log(&self, header: &Header) -> bool {
        self.report.events == 1 && header.event_type == EventType::ROTATE && header.log_pos == 0
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
        if self.begins_a_relay_log(header) {
            self.relay_log();
        }
        let position_holds = self.position_holds(header);
        self.report.events += 1;
        let is_first = self.description.is_none();
        if is_first && header.event_type != EventType::FORMAT_DESCRIPTION {
            let name = header.event_type.to_string();
            self.problem(
                Rule::Format,
                format!("the first event is {name}, not FORMAT_DESCRIPTION"),
            );
            return Go::Stop;
        }
        self.count(header.event_type);
        if !position_holds {
            let (wanted, given) = (self.end_of(header), header.log_pos);
            self.problem(
                Rule::LogPos,
                format!("log_pos is {given}, but the event ends at {wanted}"),
            );
        }
        if is_first {
            return self.judge_description(header, event);
        }
        let body_end = event.len() - self.checksum_size();
        let (content, given) = event.split_at(body_end);
        let is_sound = given.is_empty() || given == checksum(content).to_le_bytes();
        if !is_sound {
            let computed = checksum(content);
            self.problem(
                Rule::Checksum,
                format!("the CRC-32 of the event is {computed:08x}, but the stored one differs"),
            );
            if !position_holds {
                // A header that is wrong in two ways gives no size to go on by.
                return Go::Stop;
            }
        }
        if self.has_limit(LimitKind::RelayLog) {
            return match header.event_type {
                EventType::FORMAT_DESCRIPTION => self.describe_relayed(&event[HEADER_SIZE..]),
                _ => self.judge_relayed(header, &content[HEADER_SIZE..]),
            };
        }
        if self.ended {
            self.problem(Rule::Structure, "an event follows the one that ends the file");
        }
        let go = self.judge_content(header, &content[HEADER_SIZE..]);
        if !is_sound {
            self.sequence_number = 0;
            self.clock_unread = true;
        }
        go
    }

    pub(super) fn count(&mut self, event_type: EventType) {
        *self.report.event_types.entry(event_type.to_string()).or_default() += 1;
    }

    fn judge_description(&mut self, header: &Header, event: &mut [u8]) -> Go {
        self.report.in_use = header.flags & FLAG_IN_USE != 0;
        // The checksum was taken before the file was in use.
        event[17] &= !(FLAG_IN_USE as u8);
        let description = match Description::parse(&event[HEADER_SIZE..]) {
            Ok(description) => description,
            Err(error) => {
                let message = format!("FORMAT_DESCRIPTION: {error}");
                match error.is_unknown() {
                    true => self.limit(LimitKind::Format, message),
                    false => self.problem(Rule::Format, message),
                }
                return Go::Stop;
            }
        };
        if description.has_own_checksum {
            let (content, given) = event.split_at(event.len() - CHECKSUM_SIZE);
            if given != checksum(content).to_le_bytes() {
                let computed = checksum(content);
                let message =
                    format!("the CRC-32 of the event is {computed:08x}, but the stored one differs");
                self.problem(Rule::Checksum, message);
            }
        }
        self.note_limits(&description);
        self.report.flavor = Some(description.flavor);
        self.report.server_version = description.version_text.clone();
        self.report.checksums = description.checksums;
        self.description = Some(description);
        if header.flags & FLAG_RELAY_LOG != 0 {
            self.relay_log();
        }
        Go::On
    }

    fn note_limits(&mut self, description: &Description) {
        if !description.is_supported {
            let (server, known) = match description.flavor {
                Flavor::Mysql => ("MySQL", "5.7 to 9.x"),
                Flavor::Mariadb => ("MariaDB", "10.x and 11"),
            };
            let version = &description.version_text;
            let message = format!(
                "{server} {version} is not a supported version ({known} are): its events are checked as far as their format is known"
            );
            self.limit(LimitKind::Version, message);
        }
        if !description.checksums {
            let message = "events carry no checksums: a changed byte inside a value would not be seen";
            self.limit(LimitKind::Checksums, message);
        }
    }

    fn relay_log(&mut self) {
        let message =
            "the file is a relay log: sizes, checksums, statements and tables are checked, not positions and transactions";
        self.limit(LimitKind::RelayLog, message);
    }

    /// The source's own description says whether checksums follow.
    fn describe_relayed(&mut self, body: &[u8]) -> Go {
        match Description::parse(body) {
            Ok(description) => self.description = Some(description),
            Err(error) => {
                self.problem(Rule::Format, format!("FORMAT_DESCRIPTION: {error}"));
                return Go::Stop;
            }
        }
        Go::On
    }

    pub(super) fn finish(mut self) -> (FileReport, Before) {
        if let (Some(open), None) = (&self.transaction, &self.report.tail) {
            self.position = open.start;
            self.torn(TailKind::Transaction);
        }
        self.note_end();
        if let Some(tail) = &mut self.report.tail {
            tail.bytes = self.report.bytes - tail.offset;
        }
        self.report.gtids = self.gtids.to_string();
        self.report.verdict = self.verdict();
        let before = Before {
            name: plain_name(&self.report.name).to_owned(),
            next: self.report.next.clone(),
            gtids: match self.is_broken() {
                true => Gtids::Unknown,
                false => self.gtids,
            },
        };
        (self.report, before)
    }

    /// Limits that show at the end of the file.
    fn note_end(&mut self) {
        let has_end = self.ended || self.report.in_use || self.has_limit(LimitKind::RelayLog);
        match (&self.description, &self.report.tail) {
            // Without that event whole, its IN_USE flag proves nothing.
            (None, Some(_)) => {
                self.limit(LimitKind::Format, "the file ends before its first event is whole");
            }
            (Some(_), None) if !(has_end || self.is_broken() || self.ends_early()) => {
                let message =
                    "the file is not in use, but ends without ROTATE or STOP, as a file after MySQL's \
                               recovery or a partial copy does: later transactions may be missing";
                self.limit(LimitKind::End, message);
            }
            _ => {}
        }
    }

    fn verdict(&self) -> Verdict {
        let may_be_torn = self.report.in_use || self.has_limit(LimitKind::RelayLog);
        match &self.report.tail {
            _ if self.broken.proven => Verdict::Damaged,
            _ if self.broken.doubtful || self.ends_early() => Verdict::Unknown,
            Some(_) if !may_be_torn => Verdict::Cut,
            _ if self.broken.series => Verdict::Misplaced,
            Some(_) => Verdict::Torn,
            None => Verdict::Whole,
        }
    }

    fn ends_early(&self) -> bool {
        self.report.limits.iter().any(|limit| limit.kind.ends_the_check())
    }

    /// ROTATE names the next file; without it, the numbers of the names must follow each other.
    pub(super) fn compare_name_with_file_before(&mut self) {
        let Some(before) = &self.before else {
            return;
        };
        let name = plain_name(&self.report.name);
        let message = match (&before.next, numbered(&before.name), numbered(name)) {
            (Some(next), _, _) if next != name => format!("the previous file names {next} as the next one"),
            (None, Some((log, earlier)), Some((same, number))) if log == same && number != earlier + 1 => {
                let order = match number > earlier {
                    true => "a file between them is missing",
                    false => "the names are not in order",
                };
                format!("the previous file is {}: {order}", before.name)
            }
            _ => return,
        };
        self.problem(Rule::Series, message);
    }
}

/// A file's name without its folder and the ending of what packed it.
fn plain_name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    let packed = [".gz", ".zst", ".zstd"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    packed.unwrap_or(name)
}

/// The name of a file's log and the file's number.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let (log, number) = name.rsplit_once('.')?;
    Some((log, number.parse().ok()?))
}
