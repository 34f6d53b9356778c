//! What stands in a file besides transactions: its head, and the event that ends it.

use crate::bytes::Put;
use crate::event::{put_event, EventType, Header, FLAG_IGNORABLE, FLAG_IN_USE, MAGIC};
use crate::format::{Flavor, Format, VERSION_FIELD_SIZE};
use crate::gtid::{GtidList, GtidSet};

/// What was logged before a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Previous {
    /// MySQL: all GTIDs of earlier files.
    Set(GtidSet),
    /// MariaDB: the last GTIDs of earlier files.
    List(GtidList),
}

impl Previous {
    /// Nothing, as a flavor says it.
    pub fn nothing(flavor: Flavor) -> Self {
        match flavor {
            Flavor::Mysql => Self::Set(GtidSet::new()),
            Flavor::Mariadb => Self::List(GtidList::new()),
        }
    }
}

/// How a file begins.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// When the file is made, in seconds since 1970.
    pub timestamp: u32,
    /// Whether it is the first file since the server's start: replicas drop temporary tables there.
    pub first: bool,
    /// What earlier files hold; of the format's flavor.
    pub previous: &'a Previous,
    /// The oldest file that recovery may need, usually this one (MariaDB).
    pub checkpoint: &'a str,
}

/// The bytes that a file begins with, marked as in use: magic, FORMAT_DESCRIPTION, then
/// PREVIOUS_GTIDS or GTID_LIST with BINLOG_CHECKPOINT.
///
/// # Panics
/// `previous` is not of the format's flavor: a mistake in the calling program.
pub fn file_head(format: &Format, head: &Head<'_>) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_format_description(&mut out, format, head);
    let position = |out: &Vec<u8>| out.len() as u64;
    let checksums = format.checksums();
    match (format.flavor(), head.previous) {
        (Flavor::Mysql, Previous::Set(set)) => {
            let header = header(format, head.timestamp, EventType::PREVIOUS_GTIDS, FLAG_IGNORABLE);
            let start = position(&out);
            put_event(&mut out, start, header, checksums, |out| set.put(out));
        }
        (Flavor::Mariadb, Previous::List(list)) => {
            let event = header(format, head.timestamp, EventType::GTID_LIST, 0);
            let start = position(&out);
            put_event(&mut out, start, event, checksums, |out| list.put(out));
            let event = header(format, head.timestamp, EventType::BINLOG_CHECKPOINT, 0);
            let start = position(&out);
            put_event(&mut out, start, event, checksums, |out| {
                out.put_u32(head.checkpoint.len() as u32);
                out.put(head.checkpoint.as_bytes());
            });
        }
        _ => panic!("the GTIDs before a file are of the other flavor"),
    }
    out
}

fn header(format: &Format, timestamp: u32, event_type: EventType, flags: u16) -> Header {
    Header {
        timestamp,
        event_type,
        server_id: format.identity().server_id,
        size: 0,
        log_pos: 0,
        flags,
    }
}

/// The event's checksum is taken with IN_USE cleared, so that clearing it needs no other change.
/// The event has room for a checksum even where the others have none.
fn put_format_description(out: &mut Vec<u8>, format: &Format, head: &Head<'_>) {
    let start = out.len();
    let event = header(format, head.timestamp, EventType::FORMAT_DESCRIPTION, 0);
    put_event(out, start as u64, event, true, |out| {
        out.put_u16(4);
        let mut version = [0; VERSION_FIELD_SIZE];
        let text = format.version_text().as_bytes();
        version[..text.len()].copy_from_slice(text);
        out.put(&version);
        out.put_u32(if head.first { head.timestamp } else { 0 });
        out.put_u8(19);
        out.put(&format.post_header_lengths());
        out.put_u8(u8::from(format.checksums()));
    });
    out[start + 17] |= FLAG_IN_USE as u8;
}

/// The event that ends a file at `position` because the log goes on in `next`.
pub fn rotate_event(format: &Format, timestamp: u32, position: u64, next: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let event = header(format, timestamp, EventType::ROTATE, 0);
    put_event(&mut out, position, event, format.checksums(), |out| {
        out.put_u64(4);
        out.put(next.as_bytes());
    });
    out
}

/// The event that ends a file at `position` because the server stops.
pub fn stop_event(format: &Format, timestamp: u32, position: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let event = header(format, timestamp, EventType::STOP, 0);
    put_event(&mut out, position, event, format.checksums(), |_| {});
    out
}
