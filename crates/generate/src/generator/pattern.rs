//! Templates: `user{n}@email.com`, `[A-Z]{3}-\d{4}`, `{first_name} {last_name}`.

use std::sync::Arc;

use flushlab_rows::digits::{put_digits, put_unsigned};
use flushlab_rows::Bits;

use super::column::Column;
use super::person::{Locale, What};
use super::{check_alphabet, in_one_case, put_characters, spell, Site};
use crate::extent::Extent;
use crate::format::{is_clean, CellKind};
use crate::index::Index;
use crate::Error;

/// Longest run of one class.
const LONGEST: u32 = 65_535;

#[derive(Debug)]
pub(crate) struct Pattern {
    pieces: Vec<Part<Arc<Column>>>,
    /// Spelled by the classes, if the texts are to be unique by them.
    spelled: Option<Index>,
}

impl Pattern {
    /// What a person is called, or where one lives: a template in which `<name>` is a list.
    pub fn person(locale: &Locale, what: What) -> Result<Self, Error> {
        let no_column = |name: &str| Err(Error::new(format!("a person has no {name}")));
        let mut pieces = Vec::new();
        for (number, text) in locale.template(what).split(['<', '>']).enumerate() {
            if number % 2 == 1 {
                pieces.push(Part::List(locale.list(text).into()));
            } else {
                for part in parse(text)? {
                    pieces.push(part.built(no_column)?);
                }
            }
        }
        Ok(Self {
            pieces,
            spelled: None,
        })
    }

    /// How many texts its classes can spell; `None` if they need not, for the row's number makes them unique.
    pub fn count(text: &str) -> Result<Option<u64>, Error> {
        let parts = parse(text)?;
        if tells_the_row(&parts) {
            return Ok(None);
        }
        let counts = parts.into_iter().map(|part| match part {
            Part::Class { characters, low, .. } => {
                (in_one_case(&characters).len() as u64).saturating_pow(low)
            }
            _ => 1,
        });
        Ok(Some(counts.fold(1, u64::saturating_mul)))
    }

    /// Reads a template; columns that it names are those of the row. With an index its texts are unique.
    pub fn build(text: &str, spelled: Option<Index>, site: &mut dyn Site) -> Result<Self, Error> {
        let pieces = parse(text)?.into_iter().map(|part| match part {
            Part::Class { characters, low, .. } if spelled.is_some() => Ok(Part::Class {
                characters: in_one_case(&characters),
                low,
                high: low,
            }),
            Part::Column(name) if spelled.is_some() => Err(Error::new(format!(
                "a pattern with {{{name}}} is not unique without {{n}}"
            ))),
            part => part.built(|name| site.sibling(name)),
        });
        Ok(Self {
            pieces: pieces.collect::<Result<_, _>>()?,
            spelled,
        })
    }

    pub fn kind(&self) -> CellKind {
        let clean = self.pieces.iter().all(|piece| match piece {
            Part::Literal(literal) => is_clean(literal),
            Part::Class { characters, .. } => is_clean(characters),
            Part::Row { .. } => true,
            Part::Column(column) => matches!(column.kind(), CellKind::Number | CellKind::Clean),
            Part::List(list) => list.iter().all(|text| is_clean(text)),
        });
        let never_empty = self.pieces.iter().any(|piece| match piece {
            Part::Literal(_) | Part::Row { .. } | Part::List(_) => true,
            Part::Class { low, .. } => *low > 0,
            Part::Column(_) => false,
        });
        if clean && never_empty {
            CellKind::Clean
        } else {
            CellKind::Text
        }
    }

    /// The widest of the texts of so many rows.
    pub fn extent(&self, rows: u64) -> Extent {
        let lengths = self.pieces.iter().map(|piece| match piece {
            Part::Literal(literal) => length(literal),
            Part::List(list) => (
                list.iter().map(|text| length(text).0).max().unwrap_or(0),
                list.iter().map(|text| length(text).1).max().unwrap_or(0),
            ),
            Part::Row { width } => {
                let digits = u64::from((rows.max(1).ilog10() + 1).max(*width));
                (digits, digits)
            }
            Part::Class { high, .. } => (u64::from(*high), u64::from(*high)),
            Part::Column(column) => column.extent(rows).length(),
        });
        let (characters, bytes) = lengths.fold((0, 0), |sum, length| (sum.0 + length.0, sum.1 + length.1));
        Extent::Text { characters, bytes }
    }

    #[inline]
    pub fn put(&self, row: u64, draw: &mut impl Bits, out: &mut Vec<u8>) {
        let mut number = self.spelled.as_ref().map(|index| index.of(row, draw));
        for piece in &self.pieces {
            match piece {
                Part::Literal(literal) => out.extend_from_slice(literal),
                Part::Row { width: 0 } => put_unsigned(out, row + 1),
                Part::Row { width } => {
                    let needed = (row + 1).ilog10() + 1;
                    put_digits(out, row + 1, needed.max(*width));
                }
                Part::Class {
                    characters,
                    low,
                    high,
                } => match &mut number {
                    Some(number) => spell(out, characters, *low, number),
                    None => {
                        let length = *low + draw.below(u64::from(*high - *low) + 1) as u32;
                        put_characters(out, characters, length, draw);
                    }
                },
                Part::List(list) => out.extend_from_slice(&list[draw.below(list.len() as u64) as usize]),
                Part::Column(column) => {
                    if !column.is_null(row) {
                        column.put(row, out);
                    }
                }
            }
        }
    }
}

/// A pattern of literals and classes, which needs no row.
#[derive(Debug)]
pub struct Template(Pattern);

impl Template {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is none, or names a column or the number of a row.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let no_row = |name: &str| {
            Err(Error::new(format!(
                "{{{name}}} is of a row, and there is none here"
            )))
        };
        let pieces = parse(text)?.into_iter().map(|part| match part {
            Part::Row { .. } => Part::Column("n".to_owned()).built(no_row),
            part => part.built(no_row),
        });
        Ok(Self::of(pieces.collect::<Result<_, _>>()?))
    }

    /// `low` to `high` characters of an alphabet.
    ///
    /// # Errors
    /// The alphabet has other characters than those of ASCII, none, or too many.
    pub fn characters(alphabet: &str, low: u32, high: u32) -> Result<Self, Error> {
        let characters = alphabet.as_bytes().to_vec();
        check_alphabet(&characters)?;
        Ok(Self::of(vec![Part::Class {
            characters,
            low,
            high,
        }]))
    }

    fn of(pieces: Vec<Part<Arc<Column>>>) -> Self {
        let spelled = None;
        Self(Pattern { pieces, spelled })
    }

    /// Bytes of the longest text.
    pub fn longest(&self) -> usize {
        self.0.extent(0).length().1 as usize
    }

    /// Appends a text.
    pub fn put(&self, random: &mut impl Bits, out: &mut Vec<u8>) {
        self.0.put(0, random, out);
    }
}

/// Characters and bytes of UTF-8.
fn length(text: &[u8]) -> (u64, u64) {
    let continued = text.iter().filter(|&&byte| byte & 0xc0 == 0x80).count();
    ((text.len() - continued) as u64, text.len() as u64)
}

/// A part of a pattern; a column is its name until the pattern is built.
#[derive(Debug, PartialEq)]
enum Part<C> {
    Literal(Vec<u8>),
    /// The row's number from 1, with zeros up to that width.
    Row {
        width: u32,
    },
    /// Characters of a class.
    Class {
        characters: Vec<u8>,
        low: u32,
        high: u32,
    },
    /// The value that another column of the row has; nothing for NULL.
    Column(C),
    /// One of several texts without digits.
    List(Box<[Box<[u8]>]>),
}

impl Part<String> {
    /// With the column that a name leads to.
    fn built(
        self,
        column: impl FnOnce(&str) -> Result<Arc<Column>, Error>,
    ) -> Result<Part<Arc<Column>>, Error> {
        Ok(match self {
            Self::Literal(text) => Part::Literal(text),
            Self::Row { width } => Part::Row { width },
            Self::Class {
                characters,
                low,
                high,
            } => Part::Class {
                characters,
                low,
                high,
            },
            Self::Column(name) => Part::Column(column(&name)?),
            Self::List(list) => Part::List(list),
        })
    }

    fn has_fixed_length(&self) -> bool {
        match self {
            Self::Literal(_) => true,
            Self::Class { low, high, .. } => low == high,
            Self::Row { .. } | Self::Column(_) | Self::List(_) => false,
        }
    }

    /// Whether it may put a digit next to a number on that side of it.
    fn may_touch_with_a_digit(&self, before: bool) -> bool {
        match self {
            Self::Literal(text) => {
                if before { text.last() } else { text.first() }.is_none_or(u8::is_ascii_digit)
            }
            Self::Class { characters, low, .. } => *low == 0 || characters.iter().any(u8::is_ascii_digit),
            Self::Row { .. } | Self::Column(_) | Self::List(_) => true,
        }
    }
}

/// Whether the row's number can be read off its text: each side of it has a fixed length, or one has and no digit
/// touches the number on the other.
fn tells_the_row(parts: &[Part<String>]) -> bool {
    parts.iter().enumerate().any(|(place, part)| {
        let (before, after) = (&parts[..place], &parts[place + 1..]);
        let fixed = |side: &[Part<String>]| side.iter().all(Part::has_fixed_length);
        let ends_before = fixed(before)
            || !before
                .last()
                .is_some_and(|part| part.may_touch_with_a_digit(true));
        let ends_after = fixed(after)
            || !after
                .first()
                .is_some_and(|part| part.may_touch_with_a_digit(false));
        matches!(part, Part::Row { .. }) && ends_before && ends_after && (fixed(before) || fixed(after))
    })
}

fn parse(text: &str) -> Result<Vec<Part<String>>, Error> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            '{' => {
                let (inside, behind) = rest
                    .split_once('}')
                    .ok_or_else(|| Error::new("the pattern has a { without }"))?;
                rest = behind;
                put_braces(&mut parts, inside)?;
            }
            '[' => {
                let (inside, behind) = rest
                    .split_once(']')
                    .ok_or_else(|| Error::new("the pattern has a [ without ]"))?;
                rest = behind;
                parts.push(one_of(class(inside)?));
            }
            '\\' => {
                let escaped = rest
                    .chars()
                    .next()
                    .ok_or_else(|| Error::new("the pattern ends with \\"))?;
                rest = &rest[escaped.len_utf8()..];
                match escaped {
                    'd' => parts.push(one_of((b'0'..=b'9').collect())),
                    literal => put_literal(&mut parts, literal),
                }
            }
            literal => put_literal(&mut parts, literal),
        }
    }
    Ok(parts)
}

fn one_of(characters: Vec<u8>) -> Part<String> {
    Part::Class {
        characters,
        low: 1,
        high: 1,
    }
}

fn put_literal(parts: &mut Vec<Part<String>>, literal: char) {
    let mut bytes = [0; 4];
    let bytes = literal.encode_utf8(&mut bytes).as_bytes();
    match parts.last_mut() {
        Some(Part::Literal(text)) => text.extend_from_slice(bytes),
        _ => parts.push(Part::Literal(bytes.to_vec())),
    }
}

/// How often the class before comes, the row's number, or a column.
fn put_braces(parts: &mut Vec<Part<String>>, inside: &str) -> Result<(), Error> {
    if inside.starts_with(|first: char| first.is_ascii_digit()) {
        let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
        let wrong = || Error::new(format!("{{{inside}}} is not a number of times up to {LONGEST}"));
        let times = |text: &str| {
            text.parse()
                .ok()
                .filter(|times| *times <= LONGEST)
                .ok_or_else(wrong)
        };
        let (least, most): (u32, u32) = (times(least)?, times(most)?);
        return match parts.last_mut() {
            Some(Part::Class { low, high, .. }) if least <= most => {
                (*low, *high) = (least, most);
                Ok(())
            }
            Some(Part::Class { .. }) => Err(wrong()),
            _ => Err(Error::new(format!(
                "{{{inside}}} stands behind no [class] or \\d"
            ))),
        };
    }
    parts.push(
        match inside
            .strip_prefix('n')
            .map(|format| format.strip_prefix(':').unwrap_or(format))
        {
            Some("") => Part::Row { width: 0 },
            Some(width) if inside.starts_with("n:") => Part::Row {
                width: width.parse().ok().filter(|width| *width <= 20).ok_or_else(|| {
                    Error::new(format!("{{{inside}}}: write a width up to 20, as in {{n:06}}"))
                })?,
            },
            _ => Part::Column(inside.to_owned()),
        },
    );
    Ok(())
}

/// The characters of `[A-Z_]`.
fn class(inside: &str) -> Result<Vec<u8>, Error> {
    let bytes = inside.as_bytes();
    if bytes.is_empty() || !inside.is_ascii() {
        return Err(Error::new(format!(
            "[{inside}] is not a class of ASCII characters, such as [A-Z0-9]"
        )));
    }
    let mut characters = Vec::new();
    let mut place = 0;
    while place < bytes.len() {
        let first = bytes[place];
        let last = match bytes[place + 1..] {
            [b'-', last, ..] => last,
            _ => first,
        };
        if last < first {
            let range = &inside[place..place + 3];
            return Err(Error::new(format!("in [{inside}], {range} goes backwards")));
        }
        characters.extend(first..=last);
        place += if bytes.get(place + 1) == Some(&b'-') && place + 2 < bytes.len() {
            3
        } else {
            1
        };
    }
    characters.sort_unstable();
    characters.dedup();
    Ok(characters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ranges_and_characters() {
        assert_eq!(class("a-cX").unwrap(), b"Xabc");
        assert_eq!(class("a-").unwrap(), b"-a");
        assert_eq!(class("-a").unwrap(), b"-a");
        assert!(class("z-a").is_err() && class("").is_err() && class("ä").is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for (pattern, why) in [
            ("a{2}", "{2} stands behind no [class]"),
            ("[a-z", "a [ without ]"),
            ("{n", "a { without }"),
            ("\\d{3,2}", "{3,2} is not"),
            ("[a]{99999999}", "is not a number of times"),
            ("{n:x}", "write a width"),
            ("\\", "ends with \\"),
        ] {
            let error = parse(pattern).unwrap_err();
            assert!(error.message.contains(why), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_template_makes_texts_of_its_pattern_and_needs_no_row() {
        let mut random = flushlab_rows::Random::new(1);
        let mut draw = |template: Template| {
            let mut out = Vec::new();
            template.put(&mut random, &mut out);
            assert!(out.len() <= template.longest());
            String::from_utf8(out).unwrap()
        };
        for _ in 0..100 {
            let text = draw(Template::parse("ä-[A-C]{2,3}\\d").unwrap());
            let (letters, digit) = text.strip_prefix("ä-").unwrap().split_at(text.len() - 4);
            assert!((2..=3).contains(&letters.len()) && letters.bytes().all(|byte| b"ABC".contains(&byte)));
            assert!(digit.parse::<u8>().is_ok_and(|digit| digit < 10), "{text}");
            let text = draw(Template::characters("xy", 0, 4).unwrap());
            assert!(text.len() <= 4 && text.bytes().all(|byte| b"xy".contains(&byte)));
        }
        for (pattern, why) in [
            ("a{n}", "{n} is of a row"),
            ("{name}", "{name} is of a row"),
            ("[", "without ]"),
        ] {
            assert!(
                Template::parse(pattern).unwrap_err().message.contains(why),
                "{pattern}"
            );
        }
        assert!(Template::characters("", 1, 2).is_err() && Template::characters("ä", 1, 2).is_err());
    }

    #[test]
    fn the_row_can_be_read_off_only_where_no_digit_touches_it() {
        for (pattern, unique) in [
            ("user{n}@email.com", true),
            ("{n}", true),
            ("{name}.{n}", true),
            ("{n}-{name}", true),
            ("{name}{n}", false),
            ("[a-z]{1,3}{n}", true),
            ("\\d{2}{n}", true),
            ("\\d{1,2}{n}", false),
            ("{n}{n}", false),
            ("7{n}\\d{3}", true),
            ("[a-z]{4}", false),
        ] {
            assert_eq!(tells_the_row(&parse(pattern).unwrap()), unique, "{pattern}");
        }
    }
}
