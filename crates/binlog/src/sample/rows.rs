//! The sample's rows of every type: NULLs, usual values, zeros, extremes.

use crate::{Flavor, Json, Value};

pub(super) fn document(flavor: Flavor) -> Vec<u8> {
    let member = |key: &str, value: Json| (key.to_owned(), value);
    let tree = Json::Object(vec![
        member("a", Json::Int(1)),
        member(
            "bb",
            Json::Array(vec![
                Json::Int(-2),
                Json::Double(3.5),
                Json::Null,
                Json::Bool(true),
            ]),
        ),
        member(
            "c",
            Json::Object(vec![
                member("d", Json::Int(70_000)),
                member("e", Json::Int(5_000_000_000)),
                member("f", Json::UInt(u64::MAX)),
                member("g", Json::String("x".to_owned())),
            ]),
        ),
    ]);
    match flavor {
        Flavor::Mysql => tree.to_binary().unwrap_or_default(),
        Flavor::Mariadb => br#"{"a": 1, "bb": [-2, 3.5, null, true]}"#.to_vec(),
    }
}

pub(super) fn null_row<'a>(columns: usize) -> Vec<Value<'a>> {
    let mut row = vec![Value::Null; columns];
    row[0] = Value::Int(1);
    row
}

const fn time(negative: bool, hour: u16, minute: u8, second: u8, micros: u32) -> Value<'static> {
    Value::Time {
        negative,
        hour,
        minute,
        second,
        micros,
    }
}

const fn datetime(date: (u16, u8, u8), micros: u32) -> Value<'static> {
    Value::DateTime {
        year: date.0,
        month: date.1,
        day: date.2,
        hour: 1,
        minute: 2,
        second: 3,
        micros,
    }
}

pub(super) fn usual_row(document: &[u8]) -> Vec<Value<'_>> {
    let text = |text: &'static str| Value::Bytes(text.as_bytes());
    vec![
        Value::Int(2),
        Value::Int(-1),
        Value::UInt(255),
        Value::Int(-2),
        Value::UInt(65_535),
        Value::Int(-3),
        Value::UInt(16_777_215),
        Value::Int(-4),
        Value::UInt(4_294_967_295),
        Value::Int(-5),
        Value::UInt(u64::MAX),
        Value::Float(1.5),
        Value::Double(-2.25),
        Value::Decimal("-12345.67"),
        Value::Decimal("-12345678901234567890.123456789"),
        Value::Decimal("99999"),
        Value::Decimal("0.123456789"),
        Value::UInt(2026),
        Value::Date(2026, 11, 21),
        time(true, 12, 34, 56, 0),
        time(false, 12, 34, 56, 789_000),
        time(true, 838, 59, 58, 999_999),
        datetime((2026, 11, 21), 0),
        datetime((2026, 11, 21), 400_000),
        datetime((2026, 11, 21), 456_789),
        Value::Timestamp(1_795_222_923, 0),
        Value::Timestamp(1_795_222_923, 450_000),
        Value::Timestamp(1_795_222_923, 456_789),
        text("abc"),
        text("a long char"),
        text("lat"),
        text("ab"),
        text("v\u{e4}r"),
        text("v300"),
        text("vb"),
        text("tb"),
        text("tt"),
        text("bl"),
        text("te"),
        text("mb"),
        text("mt"),
        text("lb"),
        text("lt"),
        Value::Bytes(document),
        Value::UInt(2),
        Value::UInt(5),
        Value::UInt(1),
        Value::UInt(0b1_0101_0101),
        Value::UInt(0b1111_0000_1111_0000),
    ]
}

pub(super) fn zero_row<'a>(flavor: Flavor) -> Vec<Value<'a>> {
    let empty = Value::Bytes(&[]);
    let no_time = time(false, 0, 0, 0, 0);
    let midnight = Value::DateTime {
        year: 0,
        month: 0,
        day: 0,
        hour: 0,
        minute: 0,
        second: 0,
        micros: 0,
    };
    let mut row = vec![Value::Int(3)];
    for _ in 0..5 {
        row.extend([Value::Int(0), Value::UInt(0)]);
    }
    row.extend([Value::Float(0.0), Value::Double(0.0)]);
    row.extend([Value::Decimal("0"); 4]);
    row.extend([
        Value::UInt(0),
        Value::Date(0, 0, 0),
        no_time,
        no_time,
        time(true, 0, 0, 0, 1),
    ]);
    row.extend([midnight; 3]);
    row.extend([Value::Timestamp(1, 0), Value::Null, Value::Timestamp(1, 0)]);
    row.extend([empty; 15]);
    row.push(match flavor {
        Flavor::Mysql => Value::Bytes(&[2, 0, 0, 4, 0]),
        Flavor::Mariadb => Value::Bytes(b"[]"),
    });
    row.extend([
        Value::UInt(1),
        Value::UInt(0),
        Value::UInt(0),
        Value::UInt(0),
        Value::UInt(0),
    ]);
    row
}

/// Texts of every length class.
pub(super) struct Long {
    bytes: Vec<u8>,
    document: Vec<u8>,
}

impl Long {
    pub(super) fn new(flavor: Flavor) -> Self {
        let text = "r".repeat(70_000);
        let document = match flavor {
            Flavor::Mysql => Json::Array(vec![Json::String(text)])
                .to_binary()
                .unwrap_or_default(),
            Flavor::Mariadb => format!("[\"{text}\"]").into_bytes(),
        };
        Self {
            bytes: vec![b'l'; 70_000],
            document,
        }
    }
}

pub(super) fn extreme_row(long: &Long) -> Vec<Value<'_>> {
    let of = |length: usize| Value::Bytes(&long.bytes[..length]);
    let last = Value::DateTime {
        year: 9999,
        month: 12,
        day: 31,
        hour: 23,
        minute: 59,
        second: 59,
        micros: 0,
    };
    vec![
        Value::Int(4),
        Value::Int(i64::from(i8::MIN)),
        Value::UInt(1),
        Value::Int(i64::from(i16::MIN)),
        Value::UInt(1),
        Value::Int(-8_388_608),
        Value::UInt(1),
        Value::Int(i64::from(i32::MIN)),
        Value::UInt(1),
        Value::Int(i64::MIN),
        Value::UInt(1),
        Value::Float(-1e30),
        Value::Double(1e300),
        Value::Decimal("99999999.99"),
        Value::Decimal("12345678901234567890123456789012345.123456789012345678901234567890"),
        Value::Decimal("1"),
        Value::Decimal("-0.000000001"),
        Value::UInt(1901),
        Value::Date(9999, 12, 31),
        time(false, 838, 59, 59, 0),
        time(true, 0, 0, 0, 500_000),
        time(false, 0, 0, 0, 500_000),
        last,
        datetime((1000, 1, 1), 0),
        datetime((1000, 1, 1), 0),
        Value::Timestamp(u32::MAX >> 1, 0),
        Value::Timestamp(u32::MAX >> 1, 990_000),
        Value::Timestamp(u32::MAX >> 1, 999_999),
        of(10),
        of(120),
        of(20),
        of(8),
        of(20),
        of(300),
        of(300),
        of(255),
        of(255),
        of(60_000),
        of(300),
        of(70_000),
        of(66_000),
        of(300),
        of(300),
        Value::Bytes(&long.document),
        Value::UInt(3),
        Value::UInt(7),
        Value::UInt(1),
        Value::UInt(0b1_1111_1111),
        Value::UInt(u64::MAX),
    ]
}
