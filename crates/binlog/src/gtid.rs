//! Sets of GTIDs: what PREVIOUS_GTIDS and GTID_LIST carry from file to file.

use std::collections::BTreeMap;
use std::fmt;

use crate::format::Uuid;
use crate::wire::{Malformed, Put, Reader};

/// MySQL's GTIDs: for each server intervals of numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidSet {
    /// Intervals without overlap, in order, their ends exclusive.
    servers: BTreeMap<Uuid, Vec<(u64, u64)>>,
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
            set.servers.insert(uuid, vec![(first, last + 1)]);
        }
        set
    }

    /// Adds a number; `false` if it was there.
    pub fn insert(&mut self, uuid: Uuid, number: u64) -> bool {
        let intervals = self.servers.entry(uuid).or_default();
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
    pub fn contains(&self, uuid: Uuid, number: u64) -> bool {
        let Some(intervals) = self.servers.get(&uuid) else {
            return false;
        };
        let after = intervals.partition_point(|(start, _)| *start <= number);
        after > 0 && intervals[after - 1].1 > number
    }

    /// The last number of a server, 0 if there is none.
    pub fn last(&self, uuid: Uuid) -> u64 {
        let intervals = self.servers.get(&uuid);
        intervals
            .and_then(|intervals| intervals.last())
            .map_or(0, |(_, end)| end - 1)
    }

    /// Whether it has no GTIDs.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.servers.len() as u64);
        for (uuid, intervals) in &self.servers {
            out.put(&uuid.0);
            out.put_u64(intervals.len() as u64);
            for (start, end) in intervals {
                out.put_u64(*start);
                out.put_u64(*end);
            }
        }
    }

    /// Reads the body of a PREVIOUS_GTIDS event without tags.
    ///
    /// # Errors
    /// The rule that the bytes break.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let mut servers = BTreeMap::new();
        for _ in 0..reader.uint(8, "the number of servers")? {
            let mut uuid = Uuid([0; 16]);
            uuid.0.copy_from_slice(reader.bytes(16, "a server's UUID")?);
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
            if intervals.is_empty() || servers.insert(uuid, intervals).is_some() {
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
        for (index, (uuid, intervals)) in self.servers.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            write!(formatter, "{uuid}")?;
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

    /// The last number of a domain, of whatever server; 0 if there is none.
    pub fn last(&self, domain: u32) -> u64 {
        let of_domain = self.last.range((domain, 0)..=(domain, u32::MAX));
        of_domain.map(|(_, number)| *number).max().unwrap_or(0)
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
        assert_eq!(set.last(UUID), 9);
        let mut bytes = Vec::new();
        set.put(&mut bytes);
        assert_eq!(GtidSet::parse(&bytes), Ok(set));
    }

    #[test]
    fn lists_come_back() {
        let mut list = GtidList::of(0, 7, 143);
        list.set(2, 8, 5);
        let mut bytes = Vec::new();
        list.put(&mut bytes);
        assert_eq!(GtidList::parse(&bytes), Ok(list.clone()));
        assert_eq!(list.to_string(), "0-7-143,2-8-5");
        assert_eq!((list.last(0), list.last(1), list.last(2)), (143, 0, 5));
    }
}
