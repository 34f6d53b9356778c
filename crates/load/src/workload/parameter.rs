//! Values of the parameters of a user's own statements.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flushlab_generate::Template;
use flushlab_rows::digits::{put_decimal, put_digits, put_uuid};
use flushlab_rows::distribution::Distribution;
use flushlab_rows::shape::write_groups;
use flushlab_rows::{calendar, Bits, Random};

use super::event::Rank;

/// A drawn value; its text's memory is used again.
#[derive(Debug, Default, Clone)]
pub(crate) struct Value {
    integer: i64,
    text: Vec<u8>,
    form: Form,
}

#[derive(Debug, Default, Clone, Copy)]
enum Form {
    #[default]
    Integer,
    Text,
    Bytes,
    Null,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// A whole number.
    Integer(i64),
    /// A text in the connection's character set.
    Text(&'a [u8]),
    /// Bytes as a column holds them, or NULL.
    Bytes(Option<&'a [u8]>),
}

/// Longest of the texts whose length no option decides: a date with microseconds, a UUID, a number.
const SHORT: usize = 40;

impl Value {
    /// One that takes whatever `generator` draws without allocating.
    pub fn with_room_for(generator: &Generator) -> Self {
        let longest = match generator {
            Generator::Pattern { template } => template.longest(),
            Generator::RowText { groups } => *groups as usize * 12,
            Generator::Choice { values } => {
                let lengths = values.iter().map(|(_, choice)| match choice {
                    Choice::Text(text) => text.len(),
                    Choice::Integer(_) => 0,
                });
                lengths.max().unwrap_or(0)
            }
            Generator::Column { rows, column, .. } => {
                let lengths = rows.columns[*column].iter().map(|cell| match cell {
                    Cell::Bytes(bytes) => bytes.len(),
                    Cell::Integer(_) | Cell::Null => 0,
                });
                lengths.max().unwrap_or(0)
            }
            _ => SHORT,
        };
        Self {
            text: Vec::with_capacity(longest),
            ..Self::default()
        }
    }

    /// What it is.
    pub fn content(&self) -> Content<'_> {
        match self.form {
            Form::Integer => Content::Integer(self.integer),
            Form::Text => Content::Text(&self.text),
            Form::Bytes => Content::Bytes(Some(&self.text)),
            Form::Null => Content::Bytes(None),
        }
    }

    fn set(&mut self, integer: i64) {
        self.form = Form::Integer;
        self.integer = integer;
    }

    /// Takes a cell of a row.
    pub fn take(&mut self, cell: &Cell) {
        match cell {
            Cell::Integer(integer) => self.set(*integer),
            Cell::Bytes(bytes) => {
                self.begin().extend_from_slice(bytes);
                self.form = Form::Bytes;
            }
            Cell::Null => self.form = Form::Null,
        }
    }

    /// Its text, emptied.
    fn begin(&mut self) -> &mut Vec<u8> {
        self.form = Form::Text;
        self.text.clear();
        &mut self.text
    }
}

/// One of the values that a choice has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A whole number.
    Integer(i64),
    /// Bytes as the column holds them.
    Bytes(Vec<u8>),
    /// NULL.
    Null,
}

/// Rows, one of which all columns of an event come from.
#[derive(Debug)]
pub(crate) struct Rows {
    /// By column; each has `count` cells.
    pub columns: Vec<Vec<Cell>>,
    /// At least one.
    pub count: u32,
    /// Each connection has rows of its own, if there are enough.
    pub own: bool,
    /// How they are drawn.
    pub distribution: Distribution,
}

impl Rows {
    /// The number of a row for a connection.
    pub fn draw(&self, rank: Rank, random: &mut Random) -> usize {
        if !self.own || self.count < rank.of {
            return self.distribution.draw(random, 0, self.count - 1) as usize;
        }
        let mine = (self.count - rank.number).div_ceil(rank.of);
        (rank.number + rank.of * self.distribution.draw(random, 0, mine - 1)) as usize
    }
}

/// Makes the values of one parameter on one connection.
#[derive(Debug, Clone)]
pub(crate) enum Generator {
    /// A whole number of a range.
    Integer {
        /// Smallest.
        low: i64,
        /// Largest.
        high: i64,
        /// How they are drawn.
        distribution: Distribution,
    },
    /// A number of a range with that many digits behind the point; the bounds are whole multiples of the
    /// last of these digits.
    Decimal {
        /// Smallest.
        low: i64,
        /// Largest.
        high: i64,
        /// Digits behind the point.
        digits: u32,
        /// How they are drawn.
        distribution: Distribution,
    },
    /// One of several, by weight.
    Choice {
        /// Each with the sum of all weights up to its own.
        values: Arc<[(u64, Choice)]>,
    },
    /// 1, 2, 3, … for one connection.
    Sequence {
        /// The next.
        next: i64,
        /// From one to the next.
        step: i64,
    },
    /// The same for all connections together.
    SharedSequence {
        /// The next.
        next: Arc<AtomicI64>,
        /// From one to the next.
        step: i64,
    },
    /// The number of the connection, from 1.
    Connection {
        /// It.
        number: i64,
    },
    /// Texts of a pattern, or characters of an alphabet.
    Pattern {
        /// Their template.
        template: Arc<Template>,
    },
    /// Groups of eleven digits, joined by dashes: sysbench's `c` has ten, its `pad` five.
    RowText {
        /// How many.
        groups: u32,
    },
    /// A UUID of version 4 (random) or 7 (ascending with time), RFC 9562.
    Uuid {
        /// Of version 7.
        ascending: bool,
        /// 16 bytes instead of 36 characters.
        binary: bool,
    },
    /// A date and time of a range, in seconds since 1970.
    DateTime {
        /// Earliest.
        low: i64,
        /// Latest.
        high: i64,
    },
    /// A date of a range, in days since 1970.
    Date {
        /// Earliest.
        low: i64,
        /// Latest.
        high: i64,
    },
    /// The client's clock in UTC, to the microsecond.
    Now,
    /// A column of the row that the event has drawn.
    Column {
        /// Its rows.
        rows: Arc<Rows>,
        /// Their number among all sets of rows.
        set: usize,
        /// The number of the column.
        column: usize,
    },
}

impl Generator {
    /// Leaves numbers that all connections share to the other ones of `of` load generators.
    pub fn divide(&mut self, number: i64, of: i64) {
        if let Self::SharedSequence { next, step } = self {
            next.fetch_add(step.wrapping_mul(number), Ordering::Relaxed);
            *step = step.wrapping_mul(of);
        }
    }

    /// Draws the next value. Allocates nothing if `value` has room for it.
    pub fn draw(&mut self, random: &mut Random, value: &mut Value) {
        match self {
            Self::Integer {
                low,
                high,
                distribution,
            } => value.set(between(random, distribution, *low, *high)),
            Self::Decimal {
                low,
                high,
                digits,
                distribution,
            } => put_decimal(value.begin(), between(random, distribution, *low, *high), *digits),
            Self::Choice { values } => {
                let total = values.last().map_or(0, |(sum, _)| *sum);
                let drawn = random.below(total);
                let chosen = values.iter().find(|(sum, _)| drawn < *sum);
                match chosen.map(|(_, choice)| choice) {
                    Some(Choice::Text(text)) => value.begin().extend_from_slice(text.as_bytes()),
                    Some(Choice::Integer(integer)) => value.set(*integer),
                    None => value.set(0),
                }
            }
            Self::Sequence { next, step } => {
                value.set(*next);
                *next = next.wrapping_add(*step);
            }
            Self::SharedSequence { next, step } => value.set(next.fetch_add(*step, Ordering::Relaxed)),
            Self::Connection { number } => value.set(*number),
            Self::Pattern { template } => template.put(random, value.begin()),
            Self::RowText { groups } => {
                let text = value.begin();
                text.resize(*groups as usize * 12 - 1, 0);
                write_groups(text, random);
            }
            Self::Uuid { ascending, binary } => {
                let uuid = uuid(*ascending, random);
                let text = value.begin();
                if *binary {
                    text.extend_from_slice(&uuid);
                } else {
                    put_uuid(text, &uuid);
                }
            }
            Self::DateTime { low, high } => {
                let seconds = between(random, &Distribution::Uniform, *low, *high);
                calendar::put_datetime(value.begin(), seconds);
            }
            Self::Date { low, high } => {
                let days = between(random, &Distribution::Uniform, *low, *high);
                calendar::put_date(value.begin(), days);
            }
            Self::Now => {
                let now = since_epoch();
                let text = value.begin();
                calendar::put_datetime(text, now.as_secs() as i64);
                text.push(b'.');
                put_digits(text, u64::from(now.subsec_micros()), 6);
            }
            Self::Column { .. } => unreachable!("the event draws its row"),
        }
    }
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

#[inline]
fn between(random: &mut Random, distribution: &Distribution, low: i64, high: i64) -> i64 {
    low.wrapping_add(distribution.offset(random, high.wrapping_sub(low) as u64) as i64)
}

fn uuid(ascending: bool, random: &mut Random) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random.bits().to_be_bytes());
    bytes[8..].copy_from_slice(&random.bits().to_be_bytes());
    if ascending {
        let millis = since_epoch().as_millis() as u64;
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    }
    let version = if ascending { 0x70 } else { 0x40 };
    bytes[6] = (bytes[6] & 0x0f) | version;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(mut generator: Generator, count: usize) -> Vec<String> {
        let (mut random, mut value) = (Random::new(1), Value::default());
        let mut draw = || {
            generator.draw(&mut random, &mut value);
            match value.content() {
                Content::Integer(integer) => integer.to_string(),
                Content::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
                Content::Bytes(_) => unreachable!("no row was drawn"),
            }
        };
        (0..count).map(|_| draw()).collect()
    }

    fn decimal(low: i64, high: i64, digits: u32) -> Generator {
        Generator::Decimal {
            low,
            high,
            digits,
            distribution: Distribution::Uniform,
        }
    }

    #[test]
    fn integers_reach_both_ends_of_their_range() {
        for (low, high) in [(-2, 2), (i64::MIN, i64::MIN + 4), (i64::MAX - 4, i64::MAX)] {
            let generator = Generator::Integer {
                low,
                high,
                distribution: Distribution::Uniform,
            };
            let mut seen: Vec<i64> = texts(generator, 500)
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen, (low..=high).collect::<Vec<_>>());
        }
    }

    #[test]
    fn decimals_keep_their_digits() {
        assert_eq!(texts(decimal(-5, -5, 2), 1), ["-0.05"]);
        assert_eq!(texts(decimal(1250, 1250, 2), 1), ["12.50"]);
        assert_eq!(texts(decimal(7, 7, 0), 1), ["7"]);
        assert!(texts(decimal(0, 999, 2), 100).iter().all(|text| text.len() == 4));
    }

    #[test]
    fn choices_come_by_weight() {
        let values = [
            (1, Choice::Text("rare".into())),
            (10, Choice::Text("usual".into())),
        ];
        let texts = texts(
            Generator::Choice {
                values: values.into(),
            },
            10_000,
        );
        let rare = texts.iter().filter(|text| *text == "rare").count();
        assert!(
            rare.abs_diff(1000) < 180,
            "{rare}: six sigma of n = 10,000, p = 0.1"
        );
        let one = Generator::Choice {
            values: [(3, Choice::Integer(-7))].into(),
        };
        assert_eq!(self::texts(one, 2), ["-7", "-7"]);
    }

    #[test]
    fn sequences_count_alone_or_together() {
        let alone = Generator::Sequence { next: 5, step: 2 };
        assert_eq!(texts(alone.clone(), 3), ["5", "7", "9"]);
        assert_eq!(texts(alone, 1), ["5"]);
        let together = Generator::SharedSequence {
            next: Arc::new(AtomicI64::new(1)),
            step: 1,
        };
        assert_eq!(texts(together.clone(), 2), ["1", "2"]);
        assert_eq!(texts(together, 2), ["3", "4"]);
    }

    #[test]
    fn a_shared_sequence_is_dealt_out_to_load_generators() {
        let of = |number| {
            let mut shared = Generator::SharedSequence {
                next: Arc::new(AtomicI64::new(10)),
                step: 5,
            };
            shared.divide(number, 2);
            texts(shared, 3)
        };
        assert_eq!([of(0), of(1)], [["10", "20", "30"], ["15", "25", "35"]]);
    }

    #[test]
    fn a_connection_draws_rows_of_its_own_while_there_are_enough() {
        let rows = |own, count| Rows {
            columns: Vec::new(),
            count,
            own,
            distribution: Distribution::Uniform,
        };
        let drawn = |rows: Rows, rank: Rank| {
            let mut random = Random::new(1);
            let mut seen: Vec<_> = (0..500).map(|_| rows.draw(rank, &mut random)).collect();
            seen.sort_unstable();
            seen.dedup();
            seen
        };
        assert_eq!(drawn(rows(true, 8), Rank { number: 1, of: 3 }), [1, 4, 7]);
        assert_eq!(drawn(rows(true, 8), Rank { number: 2, of: 3 }), [2, 5]);
        assert_eq!(drawn(rows(true, 2), Rank { number: 2, of: 3 }), [0, 1]);
        assert_eq!(drawn(rows(false, 3), Rank { number: 1, of: 3 }), [0, 1, 2]);
    }

    #[test]
    fn row_texts_are_groups_of_eleven_digits() {
        let text = &texts(Generator::RowText { groups: 3 }, 1)[0];
        assert_eq!(text.split('-').map(str::len).collect::<Vec<_>>(), [11, 11, 11]);
    }

    #[test]
    fn uuids_say_their_version_and_those_of_time_ascend() {
        let uuids = |ascending| {
            let binary = false;
            texts(Generator::Uuid { ascending, binary }, 50)
        };
        for (version, uuids) in [("4", uuids(false)), ("7", uuids(true))] {
            for uuid in uuids {
                let parts: Vec<&str> = uuid.split('-').collect();
                assert_eq!(
                    parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
                    [8, 4, 4, 4, 12]
                );
                assert!(parts[2].starts_with(version), "{uuid}");
                assert!(parts[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
            }
        }
        let ascending = uuids(true);
        assert!(ascending.windows(2).all(|pair| pair[0][..13] <= pair[1][..13]));
        let mut value = Value::default();
        let mut binary = Generator::Uuid {
            ascending: false,
            binary: true,
        };
        binary.draw(&mut Random::new(1), &mut value);
        assert!(matches!(value.content(), Content::Text(bytes) if bytes.len() == 16));
    }

    #[test]
    fn dates_are_of_their_range() {
        let dates = texts(Generator::Date { low: 0, high: 1 }, 200);
        assert!(dates
            .iter()
            .all(|date| date == "1970-01-01" || date == "1970-01-02"));
        let times = texts(Generator::DateTime { low: 59, high: 60 }, 200);
        assert!(times.contains(&"1970-01-01 00:01:00".to_owned()));
        let now = &texts(Generator::Now, 1)[0];
        assert!(now.len() == 26 && now.as_str() > "2025", "{now}");
    }
}
