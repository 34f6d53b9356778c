//! What values a column may get: what has to fit into its type.

use serde::Serialize;

/// The widest of a column's values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Extent {
    /// Whole numbers.
    Integer {
        /// Smallest.
        low: i128,
        /// Largest.
        high: i128,
    },
    /// Numbers that count the last of `digits` places behind the point.
    Decimal {
        /// Smallest.
        low: i64,
        /// Largest.
        high: i64,
        /// Places.
        digits: u32,
    },
    /// Days since 1970.
    Date {
        /// Earliest.
        low: i64,
        /// Latest.
        high: i64,
    },
    /// Seconds since 1970, in units of the last of `digits` places behind the point.
    Datetime {
        /// Earliest.
        low: i64,
        /// Latest.
        high: i64,
        /// Places.
        digits: u32,
    },
    /// Times of a day or longer, in the same units.
    Time {
        /// Shortest.
        low: i64,
        /// Longest.
        high: i64,
        /// Places.
        digits: u32,
    },
    /// Some of few texts.
    Choice {
        /// All of them.
        values: Vec<String>,
    },
    /// Texts.
    Text {
        /// Most characters.
        characters: u64,
        /// Most bytes in UTF-8.
        bytes: u64,
    },
    /// JSON documents.
    Json {
        /// Most bytes.
        bytes: u64,
    },
    /// Bytes.
    Bytes {
        /// Most of them.
        bytes: u64,
    },
    /// Geometries.
    Geometry,
    /// What a user's own generator makes of it.
    Given,
}

impl Extent {
    /// Characters and bytes as a text.
    pub(crate) fn length(&self) -> (u64, u64) {
        let same = |length: u64| (length, length);
        match self {
            Self::Integer { low, high } => same(low.to_string().len().max(high.to_string().len()) as u64),
            Self::Decimal { low, high, digits } => {
                let longest = low.to_string().len().max(high.to_string().len()) as u64;
                same(longest.max(u64::from(*digits) + 2) + 1)
            }
            Self::Date { .. } => same(10),
            Self::Datetime { digits, .. } => same(20 + u64::from(*digits)),
            Self::Time { digits, .. } => same(11 + u64::from(*digits)),
            Self::Choice { values } => (
                values
                    .iter()
                    .map(|value| value.chars().count() as u64)
                    .max()
                    .unwrap_or(0),
                values.iter().map(|value| value.len() as u64).max().unwrap_or(0),
            ),
            Self::Text { characters, bytes } => (*characters, *bytes),
            Self::Json { bytes } | Self::Bytes { bytes } => same(*bytes),
            Self::Geometry => same(0),
            Self::Given => same(0),
        }
    }
}
