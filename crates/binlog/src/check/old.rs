//! Formats 1 (MySQL 3.23) and 3 (4.0 and 4.1): sizes lead from event to event, and no more is checked.

use std::io::{self, Read};

use super::report::{LimitKind, Rule, TailKind};
use super::FileCheck;
use crate::bytes::fill;
use crate::bytes::little;
use crate::event::EventType;
use crate::format::Flavor;

/// Bytes of START_V3's body: the format, the server's version, the time.
const START_SIZE: usize = 2 + 50 + 4;

impl FileCheck {
    /// Reads the file from START_V3, whose first bytes stand in `event`, to its end.
    pub(super) fn read_old_format(&mut self, file: &mut impl Read, event: &mut Vec<u8>) -> io::Result<()> {
        let size = little(&event[9..13]) as usize;
        // Headers had 13 bytes at first: log_pos and the flags came with format 3.
        let header_size = if size == 13 + START_SIZE { 13 } else { 19 };
        fill(file, event, header_size + START_SIZE)?;
        if event.len() < header_size + START_SIZE {
            self.torn(TailKind::Event);
            return Ok(());
        }
        if size < event.len() {
            self.problem(
                Rule::Size,
                format!("START_V3 has {size} bytes, fewer than its header and body"),
            );
            return Ok(());
        }
        let format = little(&event[header_size..header_size + 2]);
        let text = &event[header_size + 2..header_size + 52];
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        self.report.flavor = Some(Flavor::Mysql);
        self.report.server_version = String::from_utf8_lossy(&text[..end]).into_owned();
        self.limit(
            LimitKind::Format,
            format!("the file has binlog format {format}, not 4: only the sizes of its events are checked"),
        );
        while !event.is_empty() {
            if !self.read_old_event(file, event, header_size)? {
                break;
            }
            fill(file, event, header_size)?;
        }
        Ok(())
    }

    /// Reads the rest of an event; `false` if there is no next one to be found.
    fn read_old_event(
        &mut self,
        file: &mut impl Read,
        event: &mut Vec<u8>,
        header_size: usize,
    ) -> io::Result<bool> {
        if event.len() < header_size {
            self.torn(TailKind::Event);
            return Ok(false);
        }
        let size = little(&event[9..13]) as usize;
        if size < header_size {
            self.problem(
                Rule::Size,
                format!("an event of {size} bytes is smaller than its header"),
            );
            return Ok(false);
        }
        fill(file, event, size)?;
        if event.len() < size {
            self.torn(TailKind::Event);
            return Ok(false);
        }
        self.report.events += 1;
        self.count(EventType(event[4]));
        self.position += size as u64;
        self.report.whole_until = self.position;
        event.clear();
        Ok(true)
    }
}
