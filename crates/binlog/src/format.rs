//! Formats: which server's files are written, and who the server is.

use std::fmt;

use crate::error::FormatError;
use crate::event::CHECKSUM_SIZE;

/// Whose binlogs: the two families differ in events, not only in versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Flavor {
    /// MySQL: GTIDs of a UUID and a number, version 2 row events.
    Mysql,
    /// MariaDB: GTIDs of domain, server and number, version 1 row events.
    Mariadb,
}

/// A server's version in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u8, pub u8, pub u8);

impl Version {
    /// The numbers at the front of a version text: `9.7.4-log` is 9.7.4.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = [0_u8; 3];
        let mut parts = text.split('.');
        for (index, number) in numbers.iter_mut().enumerate() {
            let part = parts.next()?;
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if index < 2 && digits != part.len() {
                return None;
            }
            *number = part[..digits].parse().ok()?;
        }
        Some(Self(numbers[0], numbers[1], numbers[2]))
    }

    /// As GTID events carry it: 80044 for 8.0.44.
    pub fn number(self) -> u32 {
        u32::from(self.0) * 10_000 + u32::from(self.1) * 100 + u32::from(self.2)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// A MySQL server's UUID, half of its GTIDs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Reads `3e11fa47-71ca-11e1-9e33-c80aa9429562`, with or without dashes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        let mut digits = text.bytes().filter(|byte| *byte != b'-');
        for byte in &mut bytes {
            let high = char::from(digits.next()?).to_digit(16)?;
            let low = char::from(digits.next()?).to_digit(16)?;
            *byte = (high << 4 | low) as u8;
        }
        digits.next().is_none().then_some(Self(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                formatter.write_str("-")?;
            }
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The server's `server_id`; not 0.
    pub server_id: u32,
    /// The server's UUID (MySQL).
    pub uuid: Uuid,
    /// The GTID domain (MariaDB).
    pub domain: u32,
}

/// What files are written: flavor, version, identity, checksums.
///
/// Known are MySQL 8.0 (8.0.28 and later) and 9.x, MariaDB 10.11 and 11.x: their files' details
/// differ, and what other versions write was not verified against a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    flavor: Flavor,
    version: Version,
    version_text: String,
    identity: Identity,
    checksums: bool,
}

/// Longest version text that a FORMAT_DESCRIPTION event holds, with a zero byte behind it.
pub(crate) const VERSION_FIELD_SIZE: usize = 50;

impl Format {
    /// A format by a server's version text, for example `9.7.4` or `10.11.19-MariaDB-log`.
    ///
    /// # Errors
    /// The version is not one of those that are known, or the server id is 0.
    pub fn new(version_text: &str, identity: Identity) -> Result<Self, FormatError> {
        let unknown = || FormatError::Version(version_text.to_owned());
        let version = Version::parse(version_text).ok_or_else(unknown)?;
        let flavor = match version_text.contains("MariaDB") {
            true => Flavor::Mariadb,
            false => Flavor::Mysql,
        };
        let known = match flavor {
            Flavor::Mysql => (version >= Version(8, 0, 28) && version < Version(8, 1, 0)) || version.0 == 9,
            Flavor::Mariadb => (version.0, version.1) == (10, 11) || version.0 == 11,
        };
        if !known || version_text.len() >= VERSION_FIELD_SIZE || !version_text.is_ascii() {
            return Err(unknown());
        }
        if identity.server_id == 0 {
            return Err(FormatError::ServerId);
        }
        Ok(Self {
            flavor,
            version,
            version_text: version_text.to_owned(),
            identity,
            checksums: true,
        })
    }

    /// The same without checksums (`binlog_checksum=NONE`).
    #[must_use]
    pub fn without_checksums(mut self) -> Self {
        self.checksums = false;
        self
    }

    /// MySQL's or MariaDB's.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// The server's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The server's version as FORMAT_DESCRIPTION carries it.
    pub fn version_text(&self) -> &str {
        &self.version_text
    }

    /// Who writes.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether events carry a CRC-32.
    pub fn checksums(&self) -> bool {
        self.checksums
    }

    /// Bytes of an event's checksum: 4 or 0.
    pub(crate) fn checksum_size(&self) -> usize {
        if self.checksums {
            CHECKSUM_SIZE
        } else {
            0
        }
    }

    /// MariaDB 11.4 and later leave log_pos 0 in the events between GTID and XID (MDEV-31273).
    pub(crate) fn inner_positions(&self) -> bool {
        leaves_inner_positions(self.flavor, self.version)
    }

    /// MariaDB 11.5 and later put the thread's id into the GTID event (MDEV-7850).
    pub(crate) fn gtid_has_thread(&self) -> bool {
        self.flavor == Flavor::Mariadb && self.version >= Version(11, 5, 0)
    }

    /// Flags of a statement's last row event: its end, and from MySQL 9.6 on that foreign keys are
    /// the SQL layer's matter.
    pub(crate) fn statement_end_flags(&self) -> u16 {
        match self.flavor == Flavor::Mysql && self.version >= Version(9, 6, 0) {
            true => 0x11,
            false => 0x01,
        }
    }

    pub(crate) fn post_header_lengths(&self) -> Vec<u8> {
        match (self.flavor, self.version.0) {
            (Flavor::Mysql, 8) => lengths_of_mysql(8, 41),
            (Flavor::Mysql, _) => lengths_of_mysql(0, 42),
            (Flavor::Mariadb, _) => lengths_of_mariadb(),
        }
    }
}

/// Whether the checker knows all that a version writes: MySQL 5.7 to 9, MariaDB 10 and 11. Before 5.7.6
/// transactions had no event that begins them, or one of another form.
pub(crate) fn is_supported(flavor: Flavor, version: Version) -> bool {
    match flavor {
        Flavor::Mysql => version >= Version(5, 7, 6) && version.0 < 10,
        Flavor::Mariadb => version >= Version(10, 0, 2) && version.0 < 12,
    }
}

pub(crate) fn leaves_inner_positions(flavor: Flavor, version: Version) -> bool {
    flavor == Flavor::Mariadb && version >= Version(11, 4, 0)
}

/// Post-header lengths of MySQL 8.0.28 and later; 9.x has no version 1 row events any more.
fn lengths_of_mysql(rows_v1: u8, count: u8) -> Vec<u8> {
    let v1 = rows_v1;
    let own = 57 + count;
    let mut lengths = vec![
        0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, own, 0, 4, 26, 8, 0, 0, 0, v1, v1, v1, 2, 0, 0, 0, 10, 10,
        10, 42, 42, 0, 18, 52, 0, 10, 40, 0,
    ];
    lengths.resize(usize::from(count), 0);
    lengths
}

/// Post-header lengths of MariaDB 10.11 and 11: 171, with a gap between MySQL's types and its own.
fn lengths_of_mariadb() -> Vec<u8> {
    let mut lengths = vec![
        56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 228, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10,
        10, 0, 0, 0, 0, 0, 0, 10, 10, 10,
    ];
    lengths.resize(160, 0);
    lengths.extend([4, 19, 4, 0, 13, 8, 8, 8, 10, 10, 10]);
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Identity = Identity {
        server_id: 7,
        uuid: Uuid([0; 16]),
        domain: 0,
    };

    #[test]
    fn known_versions_are_taken_and_others_refused() {
        for known in [
            "8.0.28",
            "8.0.44",
            "9.0.1",
            "9.7.4-2",
            "10.11.19-MariaDB-log",
            "11.8.6-MariaDB",
        ] {
            assert!(Format::new(known, WHO).is_ok(), "{known}");
        }
        for unknown in [
            "5.7.22",
            "8.0.15",
            "8.4.0",
            "10.4.2-MariaDB",
            "12.3.1-MariaDB",
            "nine",
            "",
        ] {
            let refused = Format::new(unknown, WHO);
            assert_eq!(refused, Err(FormatError::Version(unknown.to_owned())));
        }
    }

    #[test]
    fn tables_of_lengths_have_the_servers_sizes() {
        let lengths = |text| Format::new(text, WHO).map(|format| format.post_header_lengths());
        assert_eq!(lengths("8.0.44").map(|l| (l.len(), l[14])), Ok((41, 98)));
        assert_eq!(lengths("9.7.4").map(|l| (l.len(), l[14])), Ok((42, 99)));
        assert_eq!(
            lengths("11.8.6-MariaDB").map(|l| (l.len(), l[14])),
            Ok((171, 228))
        );
    }

    #[test]
    fn uuids_come_back_as_they_were_written() {
        let text = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        assert_eq!(
            Uuid::parse(text).map(|uuid| uuid.to_string()),
            Some(text.to_owned())
        );
        assert_eq!(Uuid::parse("3e11fa47"), None);
        assert_eq!(Uuid::parse(&"x".repeat(32)), None);
    }
}
