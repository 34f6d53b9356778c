//! Values: how a row's columns stand in row events, and how they are read back.

use crate::bytes::{Malformed, Put, Reader};
use crate::decimal;
use crate::format::Flavor;
use crate::json;
use crate::table::{Column, ColumnType, BINARY};

/// A column's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// NULL, in a nullable column.
    Null,
    /// For integer columns.
    Int(i64),
    /// For integer columns, in particular BIGINT UNSIGNED; for YEAR (0, 1901 to 2155); a BIT's bits,
    /// an ENUM's number (0 is the empty error value) and a SET's bits.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL as text: `-12345.67`.
    Decimal(&'a str),
    /// DECIMAL as it stands in rows; see [`decimal_text`](crate::decimal_text).
    Packed(&'a [u8]),
    /// DATE: year, month, day, zeros allowed.
    Date(u16, u8, u8),
    /// TIME.
    Time {
        /// Below zero.
        negative: bool,
        /// Up to 838.
        hour: u16,
        /// Up to 59.
        minute: u8,
        /// Up to 59.
        second: u8,
        /// Microseconds.
        micros: u32,
    },
    /// DATETIME.
    DateTime {
        /// Up to 9999.
        year: u16,
        /// Up to 12.
        month: u8,
        /// Up to 31.
        day: u8,
        /// Up to 23.
        hour: u8,
        /// Up to 59.
        minute: u8,
        /// Up to 59.
        second: u8,
        /// Microseconds.
        micros: u32,
    },
    /// TIMESTAMP: seconds since 1970 and microseconds.
    Timestamp(u32, u32),
    /// CHAR, VARCHAR, TEXT and their binary kin, in the column's own character set; JSON in its
    /// binary form ([`Json::to_binary`](crate::Json::to_binary)); GEOMETRY and VECTOR as stored.
    Bytes(&'a [u8]),
    /// Changes inside a JSON document, as PARTIAL_UPDATE_ROWS has them: read and checked, not written.
    JsonChanges(&'a [u8]),
}

/// Fraction digits that microseconds are cut to, and the bytes that hold them.
fn fraction_of(micros: u32, digits: u8) -> (u32, usize) {
    match digits {
        0 => (0, 0),
        1 => (micros / 100_000 * 10, 1),
        2 => (micros / 10_000, 1),
        3 => (micros / 1_000 * 10, 2),
        4 => (micros / 100, 2),
        5 => (micros / 10 * 10, 3),
        _ => (micros, 3),
    }
}

fn micros_of(fraction: u32, bytes: usize) -> u32 {
    match bytes {
        0 => 0,
        1 => fraction * 10_000,
        2 => fraction * 100,
        _ => fraction,
    }
}

fn fraction_bytes(digits: u8) -> usize {
    usize::from(digits.div_ceil(2))
}

/// Appends `value` as `column` holds it.
#[inline]
pub(crate) fn put_value(
    out: &mut impl Put,
    column: ColumnType,
    value: &Value<'_>,
) -> Result<(), &'static str> {
    match (column, *value) {
        (ColumnType::Int { bytes, unsigned }, Value::Int(value)) => {
            let bits = u32::from(bytes) * 8;
            let fits = match unsigned {
                true => value >= 0 && (bits == 64 || value >> bits == 0),
                false => bits == 64 || (value >> (bits - 1) == 0 || value >> (bits - 1) == -1),
            };
            checked(fits)?;
            out.put_uint(value as u64, usize::from(bytes));
        }
        (ColumnType::Int { bytes, unsigned }, Value::UInt(value)) => {
            let bits = u32::from(bytes) * 8 - u32::from(!unsigned);
            checked(bits == 64 || value >> bits == 0)?;
            out.put_uint(value, usize::from(bytes));
        }
        (ColumnType::Char { max_bytes, collation }, Value::Bytes(bytes)) => {
            put_char(out, max_bytes, collation, bytes)?;
        }
        (ColumnType::VarChar { max_bytes, .. }, Value::Bytes(bytes)) => {
            checked_length(bytes.len() <= usize::from(max_bytes))?;
            out.put_uint(bytes.len() as u64, length_width(max_bytes));
            out.put(bytes);
        }
        (ColumnType::Blob { length_bytes, .. }, Value::Bytes(bytes)) => {
            put_blob(out, length_bytes, bytes)?;
        }
        (ColumnType::Json, Value::Bytes(bytes)) => {
            json::check(bytes).map_err(|_| "is no binary JSON document")?;
            put_blob(out, 4, bytes)?;
        }
        (ColumnType::Geometry | ColumnType::Vector, Value::Bytes(bytes)) => put_blob(out, 4, bytes)?,
        (ColumnType::Float, Value::Float(value)) => out.put(&value.to_le_bytes()),
        (ColumnType::Double, Value::Double(value)) => out.put(&value.to_le_bytes()),
        (
            ColumnType::Decimal {
                precision,
                scale,
                unsigned,
            },
            Value::Decimal(text),
        ) => {
            if unsigned && text.starts_with('-') && text.bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
                return Err("is negative in an unsigned column");
            }
            decimal::put_packed(out, text, precision, scale)?;
        }
        (ColumnType::Decimal { precision, scale, .. }, Value::Packed(packed)) => {
            checked_length(packed.len() == decimal::packed_size(precision, scale))?;
            decimal::check(packed, precision, scale)?;
            out.put(packed);
        }
        (ColumnType::Year, Value::UInt(year)) => match year {
            0 => out.put_u8(0),
            1901..=2155 => out.put_u8((year - 1900) as u8),
            _ => return Err("is no year from 1901 to 2155"),
        },
        (ColumnType::Enum { bytes } | ColumnType::Set { bytes }, Value::UInt(value)) => {
            checked(bytes == 8 || value >> (u32::from(bytes) * 8) == 0)?;
            out.put_uint(value, usize::from(bytes));
        }
        (ColumnType::Bit { bits }, Value::UInt(value)) => {
            checked(bits == 64 || value >> bits == 0)?;
            out.put_uint_be(value, usize::from(bits.div_ceil(8)));
        }
        (column, value) => put_temporal(out, column, &value)?,
    }
    Ok(())
}

fn checked(fits: bool) -> Result<(), &'static str> {
    if fits {
        Ok(())
    } else {
        Err("is out of its column's range")
    }
}

fn checked_length(fits: bool) -> Result<(), &'static str> {
    if fits {
        Ok(())
    } else {
        Err("is longer than its column")
    }
}

fn length_width(max_bytes: u16) -> usize {
    if max_bytes > 255 {
        2
    } else {
        1
    }
}

/// Without its padding, as the servers write it: blanks, zero bytes in BINARY.
fn put_char(out: &mut impl Put, max_bytes: u16, collation: u16, bytes: &[u8]) -> Result<(), &'static str> {
    let padding = if collation == BINARY { 0 } else { b' ' };
    let kept = bytes
        .iter()
        .rposition(|byte| *byte != padding)
        .map_or(0, |last| last + 1);
    checked_length(kept <= usize::from(max_bytes))?;
    out.put_uint(kept as u64, length_width(max_bytes));
    out.put(&bytes[..kept]);
    Ok(())
}

fn put_blob(out: &mut impl Put, length_bytes: u8, bytes: &[u8]) -> Result<(), &'static str> {
    let length = bytes.len() as u64;
    checked_length(length >> (u32::from(length_bytes) * 8) == 0)?;
    out.put_uint(length, usize::from(length_bytes));
    out.put(bytes);
    Ok(())
}

fn put_temporal(out: &mut impl Put, column: ColumnType, value: &Value<'_>) -> Result<(), &'static str> {
    match (column, *value) {
        (ColumnType::Date, Value::Date(year, month, day)) => {
            checked(year <= 9999 && month <= 12 && day <= 31)?;
            let packed = u64::from(day) | u64::from(month) << 5 | u64::from(year) << 9;
            out.put_uint(packed, 3);
        }
        (
            ColumnType::Time { fraction },
            Value::Time {
                negative,
                hour,
                minute,
                second,
                micros,
            },
        ) => {
            checked(hour <= 838 && minute <= 59 && second <= 59 && micros <= 999_999)?;
            let (part, bytes) = fraction_of(micros, fraction);
            let whole = i64::from(hour) << 12 | i64::from(minute) << 6 | i64::from(second);
            let shift = 8 * bytes as u32;
            let magnitude = whole << shift | i64::from(part);
            let value = (0x80_0000 << shift) + if negative { -magnitude } else { magnitude };
            out.put_uint_be(value as u64, 3 + bytes);
        }
        (
            ColumnType::DateTime { fraction },
            Value::DateTime {
                year,
                month,
                day,
                hour,
                minute,
                second,
                micros,
            },
        ) => {
            checked(
                year <= 9999
                    && month <= 12
                    && day <= 31
                    && hour <= 23
                    && minute <= 59
                    && second <= 59
                    && micros <= 999_999,
            )?;
            let months = u64::from(year) * 13 + u64::from(month);
            let date = months << 5 | u64::from(day);
            let time = u64::from(hour) << 12 | u64::from(minute) << 6 | u64::from(second);
            out.put_uint_be(0x80_0000_0000 + (date << 17 | time), 5);
            let (part, bytes) = fraction_of(micros, fraction);
            out.put_uint_be(u64::from(part), bytes);
        }
        (ColumnType::Timestamp { fraction }, Value::Timestamp(seconds, micros)) => {
            checked(micros <= 999_999)?;
            out.put_uint_be(u64::from(seconds), 4);
            let (part, bytes) = fraction_of(micros, fraction);
            out.put_uint_be(u64::from(part), bytes);
        }
        (_, Value::Null) => return Err("is NULL in a column that is NOT NULL"),
        _ => return Err("is not of its column's type"),
    }
    Ok(())
}

/// Appends a row: the bits of its NULLs, then its other values.
#[inline]
pub(crate) fn put_row(
    out: &mut Vec<u8>,
    flavor: Flavor,
    columns: &[Column],
    values: &[Value<'_>],
) -> Result<(), (usize, &'static str)> {
    let bits_at = out.len();
    let bits = columns.len().div_ceil(8);
    out.resize(bits_at + bits, 0);
    if flavor == Flavor::Mariadb && !columns.len().is_multiple_of(8) {
        // The bits that no column uses are ones there.
        out[bits_at + bits - 1] = 0xff << (columns.len() % 8);
    }
    for (index, (column, value)) in columns.iter().zip(values).enumerate() {
        if column.nullable && matches!(value, Value::Null) {
            out[bits_at + index / 8] |= 1 << (index % 8);
            continue;
        }
        put_value(out, column.column_type, value).map_err(|reason| (index, reason))?;
    }
    Ok(())
}

/// Reads one value of a column that is not NULL.
pub(crate) fn read_value<'a>(reader: &mut Reader<'a>, column: ColumnType) -> Result<Value<'a>, Malformed> {
    let what = "a value";
    Ok(match column {
        ColumnType::Int { bytes, unsigned } => {
            let raw = reader.uint(usize::from(bytes), what)?;
            match unsigned {
                true => Value::UInt(raw),
                false => {
                    let unused = 64 - u32::from(bytes) * 8;
                    Value::Int((raw << unused) as i64 >> unused)
                }
            }
        }
        ColumnType::Float => Value::Float(f32::from_bits(reader.u32(what)?)),
        ColumnType::Double => Value::Double(f64::from_bits(reader.uint(8, what)?)),
        ColumnType::Decimal { precision, scale, .. } => {
            let packed = reader.bytes(decimal::packed_size(precision, scale), what)?;
            decimal::check(packed, precision, scale)
                .map_err(|reason| Malformed::new(format!("a DECIMAL {reason}")))?;
            Value::Packed(packed)
        }
        ColumnType::Year => match reader.u8(what)? {
            0 => Value::UInt(0),
            year => Value::UInt(1900 + u64::from(year)),
        },
        ColumnType::Char { max_bytes, .. } | ColumnType::VarChar { max_bytes, .. } => {
            let length = reader.uint(length_width(max_bytes), "a string's length")?;
            if length > u64::from(max_bytes) {
                return Err(Malformed::new(format!(
                    "a string of {length} bytes in a column of {max_bytes}"
                )));
            }
            Value::Bytes(reader.bytes(length as usize, "a string")?)
        }
        ColumnType::Blob { length_bytes, .. } => read_blob(reader, length_bytes)?,
        ColumnType::Json => {
            let document = read_blob(reader, 4)?;
            if let Value::Bytes(bytes) = document {
                json::check(bytes)?;
            }
            document
        }
        ColumnType::Geometry | ColumnType::Vector => read_blob(reader, 4)?,
        ColumnType::Enum { bytes } | ColumnType::Set { bytes } => {
            Value::UInt(reader.uint(usize::from(bytes), what)?)
        }
        ColumnType::Bit { bits } => {
            let value = reader.uint_be(usize::from(bits.div_ceil(8)), what)?;
            if bits < 64 && value >> bits != 0 {
                return Err(Malformed::new(format!("a BIT({bits}) has more bits than that")));
            }
            Value::UInt(value)
        }
        ColumnType::Date => {
            let packed = reader.uint(3, what)?;
            let (year, month, day) = (packed >> 9, packed >> 5 & 15, packed & 31);
            in_range(month <= 12 && year <= 9999, "DATE")?;
            Value::Date(year as u16, month as u8, day as u8)
        }
        ColumnType::Time { fraction } => read_time(reader, fraction)?,
        ColumnType::DateTime { fraction } => read_datetime(reader, fraction)?,
        ColumnType::Timestamp { fraction } => {
            let seconds = reader.uint_be(4, what)? as u32;
            Value::Timestamp(seconds, read_fraction(reader, fraction)?)
        }
    })
}

fn read_blob<'a>(reader: &mut Reader<'a>, length_bytes: u8) -> Result<Value<'a>, Malformed> {
    let length = reader.uint(usize::from(length_bytes), "a blob's length")?;
    Ok(Value::Bytes(reader.bytes(length as usize, "a blob")?))
}

/// Reads the changes inside a document, each an operation, a path and, unless it removes, a value
/// (MySQL, `Json_diff_vector::read_binary` in `sql/json_diff.cc`).
pub(crate) fn read_json_changes<'a>(reader: &mut Reader<'a>) -> Result<Value<'a>, Malformed> {
    const INSERT: u8 = 1;
    const REMOVE: u8 = 2;
    let length = reader.uint(4, "the size of changes")?;
    let bytes = reader.bytes(length as usize, "changes of a document")?;
    let mut changes = Reader::new(bytes);
    while !changes.is_empty() {
        let operation = changes.u8("a change's operation")?;
        if operation > REMOVE {
            return Err(Malformed::new(format!("{operation} is no operation of a change")));
        }
        let path = changes.lenenc("the length of a path")? as usize;
        changes.bytes(path, "a path")?;
        if operation <= INSERT {
            let size = changes.lenenc("the size of a change's value")? as usize;
            json::check(changes.bytes(size, "a change's value")?)?;
        }
    }
    Ok(Value::JsonChanges(bytes))
}

fn in_range(holds: bool, what: &str) -> Result<(), Malformed> {
    match holds {
        true => Ok(()),
        false => Err(Malformed::new(format!("a {what} is out of range"))),
    }
}

fn read_fraction(reader: &mut Reader<'_>, digits: u8) -> Result<u32, Malformed> {
    let bytes = fraction_bytes(digits);
    let part = reader.uint_be(bytes, "a fraction of a second")? as u32;
    let micros = micros_of(part, bytes);
    in_range(micros <= 999_999, "fraction of a second")?;
    Ok(micros)
}

fn read_time<'a>(reader: &mut Reader<'a>, fraction: u8) -> Result<Value<'a>, Malformed> {
    let bytes = fraction_bytes(fraction);
    let shift = 8 * bytes as u32;
    let packed = reader.uint_be(3 + bytes, "a TIME")? as i64 - (0x80_0000 << shift);
    let (negative, magnitude) = (packed < 0, packed.unsigned_abs());
    let whole = magnitude >> shift;
    let micros = micros_of((magnitude & ((1 << shift) - 1)) as u32, bytes);
    let (hour, minute, second) = (whole >> 12, whole >> 6 & 63, whole & 63);
    in_range(
        hour <= 838 && minute <= 59 && second <= 59 && micros <= 999_999,
        "TIME",
    )?;
    Ok(Value::Time {
        negative,
        hour: hour as u16,
        minute: minute as u8,
        second: second as u8,
        micros,
    })
}

fn read_datetime<'a>(reader: &mut Reader<'a>, fraction: u8) -> Result<Value<'a>, Malformed> {
    let raw = reader.uint_be(5, "a DATETIME")?;
    let Some(packed) = raw.checked_sub(0x80_0000_0000) else {
        return Err(Malformed::new("a DATETIME is below zero"));
    };
    let (date, time) = (packed >> 17, packed & 0x1_ffff);
    let (year, month, day) = ((date >> 5) / 13, (date >> 5) % 13, date & 31);
    let (hour, minute, second) = (time >> 12, time >> 6 & 63, time & 63);
    in_range(
        year <= 9999 && hour <= 23 && minute <= 59 && second <= 59,
        "DATETIME",
    )?;
    Ok(Value::DateTime {
        year: year as u16,
        month: month as u8,
        day: day as u8,
        hour: hour as u8,
        minute: minute as u8,
        second: second as u8,
        micros: read_fraction(reader, fraction)?,
    })
}
