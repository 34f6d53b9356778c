//! Sets of GTIDs: what PREVIOUS_GTIDS and GTID_LIST carry from file to file.

use std::collections::BTreeMap;
use std::fmt;

use crate::bytes::{put_varlen, Malformed, Put, Reader};
use crate::format::Uuid;

/// The tag of a GTID (MySQL 8.3 and later): up to 32 letters, digits and underscores; empty for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag([u8; Self::LONGEST]);

impl Tag {
    /// Characters of the longest tag.
    pub const LONGEST: usize = 32;

    /// A tag of such characters, or `None`.
    pub fn new(text: &[u8]) -> Option<Self> {
        let is_known = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
        if text.len() > Self::LONGEST || !text.iter().all(is_known) {
            return None;
        }
        if text.first().is_some_and(u8::is_ascii_digit) {
            return None;
        }
        let mut tag = Self::default();
        tag.0[..text.len()].copy_from_slice(text);
        Some(tag)
    }

    fn text(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        &self.0[..end.unwrap_or(Self::LONGEST)]
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Reads a tag behind its length.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = reader.varlen("a tag's length")? as usize;
        let text = reader.bytes(length, "a tag")?;
        Self::new(text)
            .ok_or_else(|| Malformed::new("a tag has other characters than a-z, 0-9 and _, or too many"))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text()
            .iter()
            .try_for_each(|byte| write!(formatter, "{}", char::from(*byte)))
    }
}

/// MySQL's GTIDs: for each server and tag intervals of numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidSet {
    /// Intervals without overlap, in order, their ends exclusive.
    servers: BTreeMap<(Uuid, Tag), Vec<(u64, u64)>>,
}

impl GtidSet {
    /// The set of no GTIDs.
    pub fn new() -> Self {
        Self::default()
    }

    /// The numbers `first` to `last` of one server.
    pub fn of(uuid: Uuid, first: u64, last: u64) -> Self {
        let mut set = Self::new();
        if first > 0 && first <= last && last < i64::MAX as u64 {
            set.servers
                .insert((uuid, Tag::default()), vec![(first, last + 1)]);
        }
        set
    }

    /// Adds a number; `false` if it was there.
    pub fn insert(&mut self, uuid: Uuid, number: u64) -> bool {
        self.insert_tagged(uuid, Tag::default(), number)
    }

    /// The same of a tag's numbers, which count by themselves.
    pub fn insert_tagged(&mut self, uuid: Uuid, tag: Tag, number: u64) -> bool {
        let intervals = self.servers.entry((uuid, tag)).or_default();
        let after = intervals.partition_point(|(start, _)| *start <= number);
        let joins_before = after > 0 && intervals[after - 1].1 >= number;
        if joins_before && intervals[after - 1].1 > number {
            return false;
        }
        let joins_after = intervals
            .get(after)
            .is_some_and(|(start, _)| *start == number + 1);
        match (joins_before, joins_after) {
            (true, true) => {
                intervals[after - 1].1 = intervals[after].1;
                intervals.remove(after);
            }
            (true, false) => intervals[after - 1].1 = number + 1,
            (false, true) => intervals[after].0 = number,
            (false, false) => intervals.insert(after, (number, number + 1)),
        }
        true
    }

    /// Whether it has a number.
    pub fn contains(&self, uuid: Uuid, tag: Tag, number: u64) -> bool {
        let Some(intervals) = self.servers.get(&(uuid, tag)) else {
            return false;
        };
        let after = intervals.partition_point(|(start, _)| *start <= number);
        after > 0 && intervals[after - 1].1 > number
    }

    /// Whether it has no GTIDs.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let count = self.servers.len() as u64;
        let tagged = self.servers.keys().any(|(_, tag)| !tag.is_empty());
        out.put_u64(if tagged { 1 << 56 | count << 8 | 1 } else { count });
        for ((uuid, tag), intervals) in &self.servers {
            out.put(&uuid.0);
            if tagged {
                put_varlen(out, tag.text().len() as u64);
                out.put(tag.text());
            }
            out.put_u64(intervals.len() as u64);
            for (start, end) in intervals {
                out.put_u64(*start);
                out.put_u64(*end);
            }
        }
    }

    /// Reads the body of a PREVIOUS_GTIDS event.
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let mut servers = BTreeMap::new();
        // The highest byte is the form; with tags it stands in the lowest, too.
        let head = reader.uint(8, "the number of servers")?;
        let (tagged, count) = match head >> 56 {
            0 => (false, head),
            1 if head & 0xff == 1 => (true, head << 8 >> 16),
            form => {
                return Err(Malformed::unknown(format!(
                    "a GTID set has the unknown form {form}"
                )))
            }
        };
        for _ in 0..count {
            let mut uuid = Uuid([0; 16]);
            uuid.0.copy_from_slice(reader.bytes(16, "a server's UUID")?);
            let tag = match tagged {
                true => Tag::read(&mut reader)?,
                false => Tag::default(),
            };
            let mut intervals = Vec::new();
            let mut reached = 0;
            for _ in 0..reader.uint(8, "the number of intervals")? {
                let start = reader.uint(8, "an interval")?;
                let end = reader.uint(8, "an interval")?;
                if start <= reached || end <= start {
                    return Err(Malformed::new("the intervals of a GTID set are not in order"));
                }
                reached = end;
                intervals.push((start, end));
            }
            if intervals.is_empty() || servers.insert((uuid, tag), intervals).is_some() {
                return Err(Malformed::new("a server has no intervals, or comes twice"));
            }
        }
        match reader.is_empty() {
            true => Ok(Self { servers }),
            false => Err(Malformed::new("there are extra bytes after a GTID set")),
        }
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for ((uuid, tag), intervals) in &self.servers {
            match before.replace(uuid) {
                Some(same) if same == uuid => {}
                Some(_) => write!(formatter, ",{uuid}")?,
                None => write!(formatter, "{uuid}")?,
            }
            if !tag.is_empty() {
                write!(formatter, ":{tag}")?;
            }
            for (start, end) in intervals {
                match end - start {
                    1 => write!(formatter, ":{start}")?,
                    _ => write!(formatter, ":{start}-{}", end - 1)?,
                }
            }
        }
        Ok(())
    }
}

/// MariaDB's GTID position: the last transaction of each domain and server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidList {
    last: BTreeMap<(u32, u32), u64>,
}

impl GtidList {
    /// The list of no GTIDs.
    pub fn new() -> Self {
        Self::default()
    }

    /// The list with one GTID.
    pub fn of(domain: u32, server_id: u32, number: u64) -> Self {
        let mut list = Self::new();
        list.set(domain, server_id, number);
        list
    }

    /// Makes `number` the last one of a domain and server.
    pub fn set(&mut self, domain: u32, server_id: u32, number: u64) {
        self.last.insert((domain, server_id), number);
    }

    /// Whether `later` has the same GTIDs, but for whole domains that it does not have.
    pub fn continues_in(&self, later: &Self) -> bool {
        let has = |domain: u32| {
            later
                .last
                .range((domain, 0)..=(domain, u32::MAX))
                .next()
                .is_some()
        };
        let kept = self.last.iter().filter(|((domain, _), _)| has(*domain));
        kept.eq(later.last.iter())
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.last.len() as u32);
        for ((domain, server_id), number) in &self.last {
            out.put_u32(*domain);
            out.put_u32(*server_id);
            out.put_u64(*number);
        }
        if self.last.is_empty() {
            // The server fills the event up to its least size.
            out.put(&[0; 2]);
        }
    }

    /// Reads the body of a GTID_LIST event.
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        // The four high bits are flags.
        let count = reader.u32("the number of GTIDs")? & 0x0fff_ffff;
        let mut list = Self::new();
        for _ in 0..count {
            let domain = reader.u32("a GTID's domain")?;
            let server_id = reader.u32("a GTID's server")?;
            list.set(domain, server_id, reader.uint(8, "a GTID's number")?);
        }
        match count == 0 || reader.is_empty() {
            true => Ok(list),
            false => Err(Malformed::new("there are extra bytes after a GTID list")),
        }
    }
}

impl fmt::Display for GtidList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ((domain, server_id), number)) in self.last.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(formatter, "{comma}{domain}-{server_id}-{number}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid([7; 16]);

    #[test]
    fn numbers_join_to_intervals() {
        let mut set = GtidSet::new();
        for number in [1, 2, 5, 4, 9, 3] {
            assert!(set.insert(UUID, number), "{number}");
        }
        for number in [1, 4, 5, 9] {
            assert!(!set.insert(UUID, number), "{number}");
        }
        assert_eq!(set.to_string(), format!("{UUID}:1-5:9"));
        let mut bytes = Vec::new();
        set.put(&mut bytes);
        assert_eq!(GtidSet::parse(&bytes), Ok(set));
    }

    #[test]
    fn a_list_goes_on_without_the_domains_that_were_deleted() {
        let mut list = GtidList::of(0, 1, 100);
        let only = list.clone();
        list.set(3, 8, 9);
        assert!(list.continues_in(&list) && list.continues_in(&only));
        assert!(!only.continues_in(&list) && !list.continues_in(&GtidList::of(0, 1, 99)));
    }

    #[test]
    fn tags_count_by_themselves() {
        let tag = Tag::new(b"blue_2").unwrap();
        let mut set = GtidSet::of(UUID, 1, 4);
        assert!(set.insert_tagged(UUID, tag, 1));
        assert!(set.insert_tagged(UUID, tag, 2));
        assert!(!set.insert_tagged(UUID, tag, 2));
        set.insert(Uuid([8; 16]), 5);
        assert_eq!(
            set.to_string(),
            format!("{UUID}:1-4:blue_2:1-2,{}:5", Uuid([8; 16]))
        );
        let mut bytes = Vec::new();
        set.put(&mut bytes);
        assert_eq!(GtidSet::parse(&bytes), Ok(set));
        for refused in ["Blue", "2blue", "a-b", &"x".repeat(33)] {
            assert_eq!(Tag::new(refused.as_bytes()), None, "{refused}");
        }
    }

    #[test]
    fn lists_come_back() {
        let mut list = GtidList::of(0, 7, 143);
        list.set(2, 8, 5);
        let mut bytes = Vec::new();
        list.put(&mut bytes);
        assert_eq!(GtidList::parse(&bytes), Ok(list.clone()));
        assert_eq!(list.to_string(), "0-7-143,2-8-5");
    }
}
