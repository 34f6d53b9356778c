//! What makes values: built from the plan's JSON, then asked for any row's bytes.

mod bcrypt;
pub(crate) mod column;
mod geometry;
mod json;
mod object;
mod pattern;
mod person;
mod reference;

use std::sync::Arc;

use flushlab_rows::calendar::{put_date, put_datetime};
use flushlab_rows::digits::{put_decimal, put_digits, put_uuid, put_whole};
use flushlab_rows::shape::write_groups;
use flushlab_rows::Bits;

use crate::draw::Draw;
use crate::error::Error;
use crate::extent::Extent;
use crate::format::CellKind;
use crate::index::Index;
use bcrypt::Bcrypt;
use column::Column;
pub(crate) use geometry::Geometry;
pub(crate) use json::JsonGenerator;
use object::Member;
use pattern::Pattern;
pub use pattern::Template;
use reference::Reference;

/// What a generator is built for, and what it may ask of the plan around it.
pub(crate) trait Site {
    /// Of its random numbers.
    fn key(&self) -> u64;

    /// How many rows its table has.
    fn rows(&self) -> u64;

    /// How many rows a table has.
    fn rows_of(&self, table: &str) -> Result<u64, Error>;

    /// Whether it is its own table's name.
    fn is_own_table(&self, table: &str) -> bool;

    /// A column of another table, built.
    fn column_of(&mut self, table: &str, column: &str) -> Result<Arc<Column>, Error>;

    /// Another column of its table, built.
    fn sibling(&mut self, column: &str) -> Result<Arc<Column>, Error>;

    /// A generator inside another one, with random numbers of its own.
    fn inner(&mut self, name: &str, null: f64, json: &JsonGenerator) -> Result<Column, Error>;
}

/// A generator with what is known of its values.
pub(crate) struct Cell {
    pub generator: Generator,
    pub kind: CellKind,
    /// Whether no value comes twice.
    pub unique: bool,
}

#[derive(Debug)]
pub(crate) enum Generator {
    /// `start + row * step`.
    Sequence { start: i128, step: i128 },
    /// `low` and on.
    Integer { low: i128, index: Index },
    /// Counts the last of `digits` places behind the point.
    Decimal { low: i64, digits: u32, index: Index },
    /// Days since 1970.
    Date { low: i64, index: Index },
    /// Seconds since 1970, in units of the last of `digits` places behind the point.
    DateTime { low: i64, digits: u32, index: Index },
    /// Characters of an alphabet. Of a unique text the first characters spell its number.
    Text {
        low: u32,
        high: u32,
        alphabet: Box<[u8]>,
        unique: Option<Index>,
    },
    /// sysbench's groups of eleven digits.
    RowText { groups: usize },
    /// One of several, each with the sum of all weights up to its own.
    Choice {
        values: Box<[(u64, Box<[u8]>)]>,
        unique: Option<Index>,
    },
    /// A template.
    Pattern(Pattern),
    /// A value of the parent table.
    ForeignKey(Reference),
    /// Always the same.
    Constant(Box<[u8]>),
    /// Of version 4, or of 7 if there is a first moment in milliseconds; as text or as 16 bytes.
    Uuid { start_ms: Option<u64>, binary: bool },
    /// Seconds, in units of the last of `digits` places behind the point.
    Time { low: i64, digits: u32, index: Index },
    /// What a function of the user gives; its column writes it.
    Given(String),
    /// Bytes as the servers store a geometry.
    Geometry(Geometry),
    /// A hash of a password.
    Bcrypt(Bcrypt),
    /// Random bytes.
    Bytes { low: u32, high: u32 },
    /// A JSON object.
    Json(Box<[Member]>),
}

impl Generator {
    /// The widest of the values of so many rows.
    pub fn extent(&self, rows: u64) -> Extent {
        let up_to = |low: i64, index: &Index| (low, low.wrapping_add_unsigned(index.span()));
        match self {
            Self::Sequence { start, step } => {
                let last = start + i128::from(rows.max(1) - 1) * step;
                Extent::Integer {
                    low: *start.min(&last),
                    high: *start.max(&last),
                }
            }
            Self::Integer { low, index } => Extent::Integer {
                low: *low,
                high: low + i128::from(index.span()),
            },
            Self::Decimal { low, digits, index } => {
                let ((low, high), digits) = (up_to(*low, index), *digits);
                Extent::Decimal { low, high, digits }
            }
            Self::Date { low, index } => {
                let (low, high) = up_to(*low, index);
                Extent::Date { low, high }
            }
            Self::DateTime { low, digits, index } => {
                let ((low, high), digits) = (up_to(*low, index), *digits);
                Extent::Datetime { low, high, digits }
            }
            Self::Time { low, digits, index } => {
                let ((low, high), digits) = (up_to(*low, index), *digits);
                Extent::Time { low, high, digits }
            }
            Self::Text { high, .. } => text(u64::from(*high)),
            Self::RowText { groups } => text(*groups as u64 * 12 - 1),
            Self::Choice { values, .. } => Extent::Choice {
                values: values.iter().map(|(_, value)| lossless(value)).collect(),
            },
            Self::Constant(value) => Extent::Choice {
                values: vec![lossless(value)],
            },
            Self::Pattern(pattern) => pattern.extent(rows),
            Self::ForeignKey(reference) => reference.parent.extent(reference.index.span() + 1),
            Self::Uuid { binary: true, .. } => Extent::Bytes { bytes: 16 },
            Self::Uuid { .. } => text(36),
            Self::Bytes { high, .. } => Extent::Bytes {
                bytes: u64::from(*high),
            },
            Self::Json(members) => object::extent(members, rows),
            Self::Given(_) => Extent::Given,
            Self::Geometry(_) => Extent::Geometry,
            Self::Bcrypt(_) => text(60),
        }
    }

    /// Appends the value of a row.
    #[inline]
    pub fn put(&self, row: u64, draw: &mut Draw, out: &mut Vec<u8>) {
        match self {
            Self::Sequence { start, step } => put_whole(out, start + i128::from(row) * step),
            Self::Integer { low, index } => put_whole(out, low + i128::from(index.of(row, draw))),
            Self::Decimal { low, digits, index } => {
                put_decimal(out, low.wrapping_add_unsigned(index.of(row, draw)), *digits);
            }
            Self::Date { low, index } => put_date(out, low.wrapping_add_unsigned(index.of(row, draw))),
            Self::DateTime { low, digits, index } => {
                let moment = low.wrapping_add_unsigned(index.of(row, draw));
                let unit = 10i64.pow(*digits);
                put_datetime(out, moment.div_euclid(unit));
                if *digits > 0 {
                    out.push(b'.');
                    put_digits(out, moment.rem_euclid(unit) as u64, *digits);
                }
            }
            Self::Text {
                low,
                high,
                alphabet,
                unique,
            } => {
                let mut length = *low + draw.below(u64::from(*high - *low) + 1) as u32;
                if let Some(index) = unique {
                    spell(out, alphabet, *low, &mut index.of(row, draw));
                    length -= low;
                }
                put_characters(out, alphabet, length, draw);
            }
            Self::RowText { groups } => {
                let from = out.len();
                out.resize(from + groups * 12 - 1, 0);
                write_groups(&mut out[from..], draw);
            }
            Self::Choice { values, unique: None } => {
                let total = values.last().map_or(0, |(sum, _)| *sum);
                let drawn = draw.below(total);
                let place = if values.len() < 8 {
                    values.iter().position(|(sum, _)| drawn < *sum).unwrap_or(0)
                } else {
                    values.partition_point(|(sum, _)| *sum <= drawn)
                };
                out.extend_from_slice(&values[place].1);
            }
            Self::Choice {
                values,
                unique: Some(index),
            } => {
                out.extend_from_slice(&values[index.of(row, draw) as usize].1);
            }
            Self::Pattern(pattern) => pattern.put(row, draw, out),
            Self::ForeignKey(reference) => reference.put(row, draw, out),
            Self::Constant(value) => out.extend_from_slice(value),
            Self::Uuid { start_ms, binary } => {
                let uuid = uuid(*start_ms, row, draw);
                if *binary {
                    out.extend_from_slice(&uuid);
                } else {
                    put_uuid(out, &uuid);
                }
            }
            Self::Time { low, digits, index } => {
                put_time(out, low.wrapping_add_unsigned(index.of(row, draw)), *digits);
            }
            Self::Given(_) => {}
            Self::Geometry(geometry) => geometry.put(draw, out),
            Self::Bcrypt(bcrypt) => bcrypt.put(draw, out),
            Self::Bytes { low, high } => {
                let from = out.len();
                out.resize(
                    from + (*low + draw.below(u64::from(*high - *low) + 1) as u32) as usize,
                    0,
                );
                for few in out[from..].chunks_mut(8) {
                    few.copy_from_slice(&draw.bits().to_le_bytes()[..few.len()]);
                }
            }
            Self::Json(members) => object::put(members, row, out),
        }
    }
}

/// `HHH:MM:SS`, and places behind the point.
fn put_time(out: &mut Vec<u8>, time: i64, digits: u32) {
    if time < 0 {
        out.push(b'-');
    }
    let unit = 10u64.pow(digits);
    let (seconds, rest) = (time.unsigned_abs() / unit, time.unsigned_abs() % unit);
    put_digits(out, seconds / 3600, if seconds < 360_000 { 2 } else { 3 });
    for part in [seconds / 60 % 60, seconds % 60] {
        out.push(b':');
        put_digits(out, part, 2);
    }
    if digits > 0 {
        out.push(b'.');
        put_digits(out, rest, digits);
    }
}

/// Of version 4 or 7 (RFC 9562). Either has the row's number, scattered, in its last 62 bits: no two are the same.
fn uuid(start_ms: Option<u64>, row: u64, draw: &mut Draw) -> [u8; 16] {
    const LAST: u64 = (1 << 62) - 1;
    let (version, high) = match start_ms {
        Some(start) => (0x7000, start.wrapping_add(row) << 16 | draw.bits() & 0xffff),
        None => (0x4000, draw.bits()),
    };
    let high = high & !0xf000 | version;
    // Odd factors permute, and so does xor with what is shifted to the right.
    let mut low = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) & LAST;
    low = (low ^ (low >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93) & LAST;
    low ^= low >> 29;
    let low = low | 1 << 63;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    bytes
}

fn text(characters: u64) -> Extent {
    Extent::Text {
        characters,
        bytes: characters,
    }
}

/// Values of choices come from JSON's strings.
fn lossless(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// Characters that one draw of 64 bits yields: the bias of the last is below 2^-16.
const CHARACTERS_A_DRAW: usize = 6;

/// Refuses an alphabet that [`put_characters`] does not take.
fn check_alphabet(alphabet: &[u8]) -> Result<(), Error> {
    if alphabet.is_ascii() && (1..=256).contains(&alphabet.len()) {
        return Ok(());
    }
    Err(Error::new("an alphabet has 1 to 256 characters of ASCII"))
}

/// Appends characters of an alphabet of at most 256.
#[inline]
fn put_characters(out: &mut Vec<u8>, alphabet: &[u8], length: u32, draw: &mut impl Bits) {
    let from = out.len();
    out.resize(from + length as usize, 0);
    for few in out[from..].chunks_mut(CHARACTERS_A_DRAW) {
        let mut bits = draw.bits();
        for character in few {
            let product = u128::from(bits) * alphabet.len() as u128;
            *character = alphabet[(product >> 64) as usize];
            bits = product as u64;
        }
    }
}

/// Appends the last digits of a number, which it takes off, in the alphabet as the digits: the last first.
fn spell(out: &mut Vec<u8>, alphabet: &[u8], count: u32, number: &mut u64) {
    let base = alphabet.len() as u64;
    for _ in 0..count {
        out.push(alphabet[(*number % base) as usize]);
        *number /= base;
    }
}

/// Of letters that differ in case alone, one: to most collations they are the same.
fn in_one_case(alphabet: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::new();
    for &character in alphabet {
        if !kept.iter().any(|other| other.eq_ignore_ascii_case(&character)) {
            kept.push(character);
        }
    }
    kept
}
