//! Generators as the plan's JSON has them, checked and built.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::Deserialize;

use super::bcrypt::Bcrypt;
use super::geometry::{Geometry, Shape};
use super::object::Member;
use super::person::{What, LOCALES};
use super::{check_alphabet, in_one_case, Cell, Generator, Pattern, Reference, Site};
use crate::format::{is_clean, CellKind};
use crate::index::{Index, JsonDistribution};
use crate::Error;

/// Longest text.
const LONGEST: u32 = 16 << 20;
/// Most digits behind a decimal's point.
const DIGITS: u32 = 18;

/// What `Draw.row` of `flushlab.plan.draws` makes, of every kind of generator.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum JsonGenerator {
    Sequence {
        #[serde(deserialize_with = "whole")]
        start: i128,
        #[serde(deserialize_with = "whole")]
        step: i128,
    },
    Integer {
        #[serde(deserialize_with = "whole")]
        low: i128,
        /// The number of the table's rows if there is none.
        #[serde(default, deserialize_with = "perhaps_whole")]
        high: Option<i128>,
        #[serde(default)]
        distribution: JsonDistribution,
    },
    Decimal {
        low: i64,
        high: i64,
        digits: u32,
        #[serde(default)]
        distribution: JsonDistribution,
    },
    Date {
        low: i64,
        high: i64,
        #[serde(default)]
        distribution: JsonDistribution,
    },
    Datetime {
        low: i64,
        high: i64,
        #[serde(default)]
        digits: u32,
        #[serde(default)]
        distribution: JsonDistribution,
    },
    Text {
        low: u32,
        high: u32,
        alphabet: String,
    },
    RowText {
        groups: u32,
    },
    Choice {
        values: Vec<JsonValue>,
        weights: Vec<u64>,
    },
    Pattern {
        pattern: String,
    },
    ForeignKey {
        table: String,
        column: String,
        #[serde(default)]
        distribution: JsonDistribution,
    },
    Constant {
        value: JsonValue,
    },
    Uuid {
        /// Of version 7: the moment of the first row, in milliseconds since 1970. Else of version 4.
        #[serde(default)]
        start_ms: Option<u64>,
        binary: bool,
    },
    Time {
        low: i64,
        high: i64,
        #[serde(default)]
        digits: u32,
        #[serde(default)]
        distribution: JsonDistribution,
    },
    Python {
        function: String,
    },
    Person {
        what: What,
        locale: String,
    },
    Geometry {
        shape: Shape,
        low_x: f64,
        high_x: f64,
        low_y: f64,
        high_y: f64,
        srid: u32,
    },
    Bcrypt {
        password: String,
        cost: u32,
        distinct: bool,
    },
    Bytes {
        low: u32,
        high: u32,
    },
    Json {
        fields: Vec<JsonField>,
    },
}

/// A member of a JSON object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonField {
    name: String,
    generator: JsonGenerator,
    #[serde(default)]
    null: f64,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum JsonValue {
    Integer(i64),
    Text(String),
}

impl JsonValue {
    fn bytes(&self) -> Box<[u8]> {
        match self {
            Self::Integer(integer) => integer.to_string().into_bytes().into(),
            Self::Text(text) => text.as_bytes().into(),
        }
    }
}

impl JsonGenerator {
    /// As plans spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sequence { .. } => "sequence",
            Self::Integer { .. } => "integer",
            Self::Decimal { .. } => "decimal",
            Self::Date { .. } => "date",
            Self::Datetime { .. } => "datetime",
            Self::Text { .. } => "text",
            Self::RowText { .. } => "row_text",
            Self::Choice { .. } => "choice",
            Self::Pattern { .. } => "pattern",
            Self::ForeignKey { .. } => "foreign_key",
            Self::Constant { .. } => "constant",
            Self::Uuid { .. } => "uuid",
            Self::Time { .. } => "time",
            Self::Python { .. } => "python",
            Self::Person { .. } => "a name or an address",
            Self::Geometry { .. } => "geometry",
            Self::Bcrypt { .. } => "bcrypt",
            Self::Bytes { .. } => "bytes",
            Self::Json { .. } => "json",
        }
    }

    /// Whether no value comes twice, without being told so; of a user's function that is taken for granted.
    pub fn is_unique(&self) -> Result<bool, Error> {
        Ok(match self {
            Self::Sequence { step, .. } => *step != 0,
            Self::Uuid { .. } | Self::Python { .. } => true,
            Self::Person { what, .. } => matches!(what, What::Email),
            Self::Pattern { pattern } => Pattern::count(pattern)?.is_none(),
            _ => false,
        })
    }

    /// How many different values it can be told to give, each once; `None` if it cannot be told so, or need not.
    pub fn count(&self, site: &dyn Site) -> Result<Option<u64>, Error> {
        Ok(match self {
            Self::Integer { low, high, .. } => {
                Some(span(*low, high.unwrap_or(site.rows().into()))?.saturating_add(1))
            }
            Self::Decimal { low, high, .. }
            | Self::Time { low, high, .. }
            | Self::Date { low, high, .. }
            | Self::Datetime { low, high, .. } => {
                Some(span((*low).into(), (*high).into())?.saturating_add(1))
            }
            Self::Text { low, alphabet, .. } => {
                Some((in_one_case(alphabet.as_bytes()).len() as u64).saturating_pow(*low))
            }
            Self::Choice { values, .. } => Some(values.len() as u64),
            Self::ForeignKey { table, .. } => Some(site.rows_of(table)?),
            Self::Pattern { pattern } => Pattern::count(pattern)?,
            _ => None,
        })
    }

    /// Builds it; with an index its values are those that the index tells.
    pub fn build(&self, site: &mut dyn Site, index: Option<Index>) -> Result<Cell, Error> {
        let mut unique = index.is_some() || self.is_unique()?;
        let rows = site.rows();
        let drawn = |low: i128, high: i128, distribution: &JsonDistribution| match &index {
            Some(index) => Ok(index.clone()),
            None => Index::drawn(span(low, high)?, low as f64, rows, *distribution),
        };
        let (kind, generator) = match self {
            Self::Sequence { start, step } => {
                let last = start + step * i128::from(rows.max(1) - 1);
                let fits = i128::from(i64::MIN)..=i128::from(u64::MAX);
                if !fits.contains(start) || !fits.contains(&last) {
                    return Err(Error::new(format!(
                        "the sequence ends at {last}, which no integer holds"
                    )));
                }
                (
                    CellKind::Number,
                    Generator::Sequence {
                        start: *start,
                        step: *step,
                    },
                )
            }
            Self::Integer {
                low,
                high,
                distribution,
            } => {
                let high = high.unwrap_or(site.rows().max(1).into());
                let index = drawn(*low, high, distribution)?;
                (CellKind::Number, Generator::Integer { low: *low, index })
            }
            Self::Decimal {
                low,
                high,
                digits,
                distribution,
            } => {
                check(*digits <= DIGITS, || {
                    format!("digits is {digits}; it takes 0 to {DIGITS}")
                })?;
                let index = drawn((*low).into(), (*high).into(), distribution)?;
                (
                    CellKind::Number,
                    Generator::Decimal {
                        low: *low,
                        digits: *digits,
                        index,
                    },
                )
            }
            Self::Date {
                low,
                high,
                distribution,
            } => {
                let index = drawn((*low).into(), (*high).into(), distribution)?;
                (CellKind::Clean, Generator::Date { low: *low, index })
            }
            Self::Datetime {
                low,
                high,
                digits,
                distribution,
            } => {
                check(*digits <= 6, || format!("digits is {digits}; it takes 0 to 6"))?;
                let index = drawn((*low).into(), (*high).into(), distribution)?;
                (
                    CellKind::Clean,
                    Generator::DateTime {
                        low: *low,
                        digits: *digits,
                        index,
                    },
                )
            }
            Self::Text { low, high, alphabet } => {
                let (low, high) = (*low, *high);
                check(low <= high && high <= LONGEST, || {
                    format!("a text of {low} to {high} characters")
                })?;
                let alphabet = if index.is_some() {
                    in_one_case(alphabet.as_bytes())
                } else {
                    alphabet.clone().into_bytes()
                };
                check_alphabet(&alphabet)?;
                let kind = if is_clean(&alphabet) && low > 0 {
                    CellKind::Clean
                } else {
                    CellKind::Text
                };
                let alphabet = alphabet.into();
                (
                    kind,
                    Generator::Text {
                        low,
                        high,
                        alphabet,
                        unique: index,
                    },
                )
            }
            Self::RowText { groups } => {
                check((1..=1000).contains(groups), || {
                    format!("groups is {groups}; it takes 1 to 1000")
                })?;
                (
                    CellKind::Clean,
                    Generator::RowText {
                        groups: *groups as usize,
                    },
                )
            }
            Self::Choice { values, weights } => choice(values, weights, index)?,
            Self::Pattern { pattern } => {
                let pattern = Pattern::build(pattern, index, site)?;
                (pattern.kind(), Generator::Pattern(pattern))
            }
            Self::ForeignKey {
                table,
                column,
                distribution,
            } => {
                let parents = site.rows_of(table)?;
                check(parents > 0, || format!("{table} has no rows to refer to"))?;
                let index = drawn(0, i128::from(parents) - 1, distribution)?;
                let parent = site.column_of(table, column)?;
                let own_table = site.is_own_table(table);
                unique = unique && !own_table;
                let kind = parent.kind();
                (
                    kind,
                    Generator::ForeignKey(Reference {
                        parent,
                        index,
                        own_table,
                    }),
                )
            }
            Self::Uuid { start_ms, binary } => {
                let kind = if *binary { CellKind::Bytes } else { CellKind::Clean };
                let (start_ms, binary) = (*start_ms, *binary);
                (kind, Generator::Uuid { start_ms, binary })
            }
            Self::Time {
                low,
                high,
                digits,
                distribution,
            } => {
                let index = drawn((*low).into(), (*high).into(), distribution)?;
                let (low, digits) = (*low, *digits);
                check(digits <= 6, || format!("digits is {digits}; it takes 0 to 6"))?;
                (CellKind::Clean, Generator::Time { low, digits, index })
            }
            Self::Python { function } => (CellKind::Text, Generator::Given(function.clone())),
            Self::Person { what, locale } => {
                let found = LOCALES.iter().find(|known| known.name == *locale);
                let known = found.ok_or_else(|| Error::new(format!("there is no locale {locale}")))?;
                let pattern = Pattern::person(known, *what)?;
                (pattern.kind(), Generator::Pattern(pattern))
            }
            Self::Geometry {
                shape,
                low_x,
                high_x,
                low_y,
                high_y,
                srid,
            } => {
                let geometry = Geometry {
                    shape: *shape,
                    x: (*low_x, *high_x),
                    y: (*low_y, *high_y),
                    srid: *srid,
                };
                (CellKind::Geometry, Generator::Geometry(geometry))
            }
            Self::Bcrypt {
                password,
                cost,
                distinct,
            } => {
                let bcrypt = Bcrypt::new(password, *cost, *distinct, site.key())?;
                (CellKind::Clean, Generator::Bcrypt(bcrypt))
            }
            Self::Bytes { low, high } => {
                let (low, high) = (*low, *high);
                check(low <= high && high <= LONGEST, || {
                    format!("{low} to {high} bytes")
                })?;
                (CellKind::Bytes, Generator::Bytes { low, high })
            }
            Self::Json { fields } => {
                let members = fields.iter().map(|field| {
                    let column = site.inner(&field.name, field.null, &field.generator)?;
                    Member::new(&field.name, column)
                });
                (
                    CellKind::Text,
                    Generator::Json(members.collect::<Result<_, _>>()?),
                )
            }
            Self::Constant { value } => (
                kind_of(std::slice::from_ref(value)),
                Generator::Constant(value.bytes()),
            ),
        };
        Ok(Cell {
            generator,
            kind,
            unique,
        })
    }
}

fn choice(
    values: &[JsonValue],
    weights: &[u64],
    unique: Option<Index>,
) -> Result<(CellKind, Generator), Error> {
    check(!values.is_empty() && values.len() == weights.len(), || {
        format!("{} values have {} weights", values.len(), weights.len())
    })?;
    let mut sum = 0u64;
    let mut sums = Vec::new();
    for (value, weight) in values.iter().zip(weights) {
        sum = sum
            .checked_add(*weight)
            .ok_or_else(|| Error::new("the weights' sum is too large"))?;
        sums.push((sum, value.bytes()));
    }
    check(sum > 0, || "all weights are 0".to_owned())?;
    let generator = Generator::Choice {
        values: sums.into(),
        unique,
    };
    Ok((kind_of(values), generator))
}

fn kind_of(values: &[JsonValue]) -> CellKind {
    let is_number = |value: &JsonValue| matches!(value, JsonValue::Integer(_));
    if values.iter().all(is_number) {
        CellKind::Number
    } else if values
        .iter()
        .map(JsonValue::bytes)
        .all(|value| !value.is_empty() && is_clean(&value))
    {
        CellKind::Clean
    } else {
        CellKind::Text
    }
}

fn span(low: i128, high: i128) -> Result<u64, Error> {
    let span = high.checked_sub(low).and_then(|span| u64::try_from(span).ok());
    span.ok_or_else(|| Error::new(format!("low is {low} and high is {high}")))
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Error> {
    if holds {
        Ok(())
    } else {
        Err(Error::new(otherwise()))
    }
}

/// A number of 64 bits with or without a sign: what serde buffers for tagged enums has no i128.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i128, D::Error> {
    struct Whole;
    impl Visitor<'_> for Whole {
        type Value = i128;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number of 64 bits")
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<i128, E> {
            Ok(number.into())
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<i128, E> {
            Ok(number.into())
        }
    }
    deserializer.deserialize_any(Whole)
}

/// The same, or null.
fn perhaps_whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i128>, D::Error> {
    #[derive(Deserialize)]
    struct Some(#[serde(deserialize_with = "whole")] i128);
    Ok(Option::<Some>::deserialize(deserializer)?.map(|number| number.0))
}
