//! MySQL's binary JSON: documents are written from a tree, and checked without building one.

use crate::bytes::{Malformed, Put, Reader};

/// Deepest nesting that MySQL takes.
const MAX_DEPTH: usize = 100;

const SMALL_OBJECT: u8 = 0x00;
const LARGE_OBJECT: u8 = 0x01;
const SMALL_ARRAY: u8 = 0x02;
const LARGE_ARRAY: u8 = 0x03;
const LITERAL: u8 = 0x04;
const INT16: u8 = 0x05;
const UINT16: u8 = 0x06;
const INT32: u8 = 0x07;
const UINT32: u8 = 0x08;
const INT64: u8 = 0x09;
const UINT64: u8 = 0x0a;
const DOUBLE: u8 = 0x0b;
const STRING: u8 = 0x0c;
const OPAQUE: u8 = 0x0f;

/// A JSON value to be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number that fits 64 bits with a sign.
    Int(i64),
    /// A larger whole number.
    UInt(u64),
    /// A number with a fraction.
    Double(f64),
    /// A string.
    String(String),
    /// Values in order.
    Array(Vec<Json>),
    /// Values by key; of a key that comes twice the last value counts.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The document's binary form, as it stands behind its length in a row.
    ///
    /// # Errors
    /// It is nested deeper than 100, a key has 64 KiB or more, or it has 4 GiB or more.
    pub fn to_binary(&self) -> Result<Vec<u8>, &'static str> {
        let mut out = vec![0];
        out[0] = self.put(&mut out, 0)?;
        match u32::try_from(out.len()) {
            Ok(_) => Ok(out),
            Err(_) => Err("has 4 GiB or more"),
        }
    }

    /// Appends the value and returns its type.
    fn put(&self, out: &mut Vec<u8>, depth: usize) -> Result<u8, &'static str> {
        if depth > MAX_DEPTH {
            return Err("is nested deeper than 100");
        }
        Ok(match self {
            Self::Null => put_literal(out, 0),
            Self::Bool(true) => put_literal(out, 1),
            Self::Bool(false) => put_literal(out, 2),
            Self::Int(value) => put_int(out, *value),
            Self::UInt(value) => match i64::try_from(*value) {
                Ok(value) => put_int(out, value),
                Err(_) => {
                    out.put_u64(*value);
                    UINT64
                }
            },
            Self::Double(value) => {
                out.put(&value.to_le_bytes());
                DOUBLE
            }
            Self::String(text) => {
                put_length(out, text.len());
                out.put(text.as_bytes());
                STRING
            }
            Self::Array(values) => {
                let values: Vec<&Json> = values.iter().collect();
                put_container(out, None, &values, depth)?
            }
            Self::Object(members) => {
                // The server keeps keys by length, then by bytes.
                let mut sorted: Vec<(&str, &Json)> = Vec::with_capacity(members.len());
                for (key, value) in members {
                    match sorted.binary_search_by(|(other, _)| key_order(other, key)) {
                        Ok(at) => sorted[at].1 = value,
                        Err(at) => sorted.insert(at, (key, value)),
                    }
                }
                let (keys, values): (Vec<&str>, Vec<&Json>) = sorted.into_iter().unzip();
                put_container(out, Some(&keys), &values, depth)?
            }
        })
    }

    /// The bytes that stand in the container's entry instead of an offset.
    fn inline(&self, large: bool) -> Option<(u8, u32)> {
        match self {
            Self::Null => Some((LITERAL, 0)),
            Self::Bool(true) => Some((LITERAL, 1)),
            Self::Bool(false) => Some((LITERAL, 2)),
            Self::Int(value) => inline_int(*value, large),
            Self::UInt(value) => i64::try_from(*value)
                .ok()
                .and_then(|value| inline_int(value, large)),
            _ => None,
        }
    }
}

fn key_order(one: &str, other: &str) -> std::cmp::Ordering {
    (one.len(), one.as_bytes()).cmp(&(other.len(), other.as_bytes()))
}

fn put_literal(out: &mut Vec<u8>, value: u8) -> u8 {
    out.put_u8(value);
    LITERAL
}

fn put_int(out: &mut Vec<u8>, value: i64) -> u8 {
    let bytes = value.to_le_bytes();
    let (kind, size) = int_type(value);
    out.put(&bytes[..size]);
    kind
}

fn int_type(value: i64) -> (u8, usize) {
    if i16::try_from(value).is_ok() {
        (INT16, 2)
    } else if u16::try_from(value).is_ok() {
        (UINT16, 2)
    } else if i32::try_from(value).is_ok() {
        (INT32, 4)
    } else if u32::try_from(value).is_ok() {
        (UINT32, 4)
    } else {
        (INT64, 8)
    }
}

fn inline_int(value: i64, large: bool) -> Option<(u8, u32)> {
    match int_type(value) {
        (kind, 2) => Some((kind, u32::from(value as u16))),
        (kind, 4) if large => Some((kind, value as u32)),
        _ => None,
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    let mut rest = length;
    while rest >= 0x80 {
        out.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}

/// An array, or an object if there are keys: small with two-byte offsets if it fits.
fn put_container(
    out: &mut Vec<u8>,
    keys: Option<&[&str]>,
    values: &[&Json],
    depth: usize,
) -> Result<u8, &'static str> {
    let start = out.len();
    if put_sized(out, keys, values, depth, false)? {
        return Ok(if keys.is_some() { SMALL_OBJECT } else { SMALL_ARRAY });
    }
    out.truncate(start);
    put_sized(out, keys, values, depth, true)?;
    Ok(if keys.is_some() { LARGE_OBJECT } else { LARGE_ARRAY })
}

/// Whether the container fitted its offsets.
fn put_sized(
    out: &mut Vec<u8>,
    keys: Option<&[&str]>,
    values: &[&Json],
    depth: usize,
    large: bool,
) -> Result<bool, &'static str> {
    let start = out.len();
    let width = if large { 4 } else { 2 };
    let limit = if large {
        u64::from(u32::MAX)
    } else {
        u64::from(u16::MAX)
    };
    let entries = start + 2 * width;
    let key_entries = keys.map_or(0, |keys| keys.len() * (width + 2));
    let value_entries = entries + key_entries;
    out.resize(value_entries + values.len() * (1 + width), 0);
    if (out.len() - start) as u64 > limit || values.len() as u64 > limit {
        return Ok(false);
    }
    for (index, key) in keys.unwrap_or_default().iter().enumerate() {
        let length = u16::try_from(key.len()).map_err(|_| "has a key of 64 KiB or more")?;
        let offset = (out.len() - start) as u64;
        if offset > limit {
            return Ok(false);
        }
        let entry = entries + index * (width + 2);
        out[entry..entry + width].copy_from_slice(&offset.to_le_bytes()[..width]);
        out[entry + width..entry + width + 2].copy_from_slice(&length.to_le_bytes());
        out.put(key.as_bytes());
    }
    for (index, value) in values.iter().enumerate() {
        let (kind, stands) = match value.inline(large) {
            Some((kind, inline)) => (kind, u64::from(inline)),
            None => {
                let offset = (out.len() - start) as u64;
                if offset > limit {
                    return Ok(false);
                }
                (value.put(out, depth + 1)?, offset)
            }
        };
        let entry = value_entries + index * (1 + width);
        out[entry] = kind;
        out[entry + 1..entry + 1 + width].copy_from_slice(&stands.to_le_bytes()[..width]);
    }
    let size = (out.len() - start) as u64;
    out[start..start + width].copy_from_slice(&(values.len() as u64).to_le_bytes()[..width]);
    out[start + width..start + 2 * width].copy_from_slice(&size.to_le_bytes()[..width]);
    Ok(size <= limit)
}

/// Whether `document` is a binary JSON document. The empty one stands for a missing value.
///
/// The work is bounded by the document's size: values that share bytes are refused.
pub(crate) fn check(document: &[u8]) -> Result<(), Malformed> {
    let Some((kind, value)) = document.split_first() else {
        return Ok(());
    };
    let mut budget = 4 * document.len() + 16;
    check_value(*kind, value, 0, &mut budget)
}

fn check_value(kind: u8, value: &[u8], depth: usize, budget: &mut usize) -> Result<(), Malformed> {
    if depth > MAX_DEPTH {
        return Err(Malformed::new("a JSON document is nested deeper than 100"));
    }
    let what = "a JSON value";
    let mut reader = Reader::new(value);
    match kind {
        SMALL_OBJECT => check_container(value, true, false, depth, budget),
        LARGE_OBJECT => check_container(value, true, true, depth, budget),
        SMALL_ARRAY => check_container(value, false, false, depth, budget),
        LARGE_ARRAY => check_container(value, false, true, depth, budget),
        LITERAL => check_literal(reader.u8(what)?),
        INT16 | UINT16 => reader.uint(2, what).map(drop),
        INT32 | UINT32 => reader.uint(4, what).map(drop),
        INT64 | UINT64 | DOUBLE => reader.uint(8, what).map(drop),
        STRING => check_data(&mut reader),
        OPAQUE => {
            reader.u8(what)?;
            check_data(&mut reader)
        }
        _ => Err(Malformed::new(format!(
            "a JSON value has the unknown type {kind}"
        ))),
    }
}

fn check_literal(value: u8) -> Result<(), Malformed> {
    match value {
        0..=2 => Ok(()),
        _ => Err(Malformed::new(format!("the JSON literal {value} is unknown"))),
    }
}

/// A length of up to five bytes, seven bits in each, and as many bytes.
fn check_data(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    let mut length = 0_u64;
    for shift in (0..35).step_by(7) {
        let byte = reader.u8("a JSON string's length")?;
        length |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return reader.bytes(length as usize, "a JSON string").map(drop);
        }
    }
    Err(Malformed::new("a JSON string's length does not end"))
}

fn check_container(
    value: &[u8],
    object: bool,
    large: bool,
    depth: usize,
    budget: &mut usize,
) -> Result<(), Malformed> {
    let what = "a JSON container";
    let width = if large { 4 } else { 2 };
    let mut reader = Reader::new(value);
    let count = reader.uint(width, what)? as usize;
    let size = reader.uint(width, what)? as usize;
    let Some(whole) = value.get(..size) else {
        return Err(Malformed::new("a JSON container is larger than its document"));
    };
    let entry_size = 1 + width + if object { width + 2 } else { 0 };
    if count.checked_mul(entry_size).is_none_or(|entries| entries > size) {
        return Err(Malformed::new("a JSON container has more entries than bytes"));
    }
    match budget.checked_sub(count + 1) {
        Some(rest) => *budget = rest,
        None => return Err(Malformed::new("a JSON document's values share their bytes")),
    }
    if object {
        for _ in 0..count {
            let offset = reader.uint(width, what)? as usize;
            let length = reader.uint(2, what)? as usize;
            if offset.checked_add(length).is_none_or(|end| end > size) {
                return Err(Malformed::new("a JSON key is outside its object"));
            }
        }
    }
    for _ in 0..count {
        let kind = reader.u8(what)?;
        let stands = reader.uint(width, what)?;
        match kind {
            LITERAL => check_literal(stands as u8)?,
            INT16 | UINT16 => {}
            INT32 | UINT32 if large => {}
            _ => match whole.get(stands as usize..) {
                Some(value) => check_value(kind, value, depth + 1, budget)?,
                None => return Err(Malformed::new("a JSON value is outside its container")),
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(members: &[(&str, Json)]) -> Json {
        Json::Object(
            members
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.clone()))
                .collect(),
        )
    }

    #[test]
    fn it_is_the_servers_form() {
        // Read off a row that MySQL 9.7.4 wrote for this very document.
        let document = object(&[
            ("a", Json::Int(1)),
            (
                "bb",
                Json::Array(vec![
                    Json::Int(1),
                    Json::Int(-2),
                    Json::Double(3.5),
                    Json::Null,
                    Json::Bool(true),
                    Json::String("x".to_owned()),
                ]),
            ),
            (
                "c",
                object(&[
                    ("d", Json::Int(70_000)),
                    ("e", Json::Int(5_000_000_000)),
                    ("f", Json::UInt(u64::MAX)),
                ]),
            ),
        ]);
        let binary = document.to_binary();
        assert_eq!(binary.as_ref().map(Vec::len), Ok(0x6e));
        let start = [0x00, 0x03, 0x00, 0x6d, 0x00, 0x19, 0x00, 0x01, 0x00, 0x1a, 0x00];
        assert_eq!(
            binary.as_ref().map(|bytes| bytes[..start.len()].to_vec()),
            Ok(start.to_vec())
        );
        assert_eq!(binary.map(|bytes| check(&bytes)), Ok(Ok(())));
    }

    #[test]
    fn large_documents_take_wide_offsets() {
        let long = Json::Array(vec![Json::String("r".repeat(70_000)), Json::Int(70_000)]);
        let binary = long.to_binary().unwrap_or_default();
        assert_eq!(binary[0], LARGE_ARRAY);
        assert_eq!(check(&binary), Ok(()));
        let nested = object(&[("long", long)]).to_binary().unwrap_or_default();
        assert_eq!(nested[0], LARGE_OBJECT);
        assert_eq!(check(&nested), Ok(()));
    }

    #[test]
    fn too_deep_nesting_is_refused_on_both_sides() {
        let mut deep = Json::Null;
        for _ in 0..100 {
            deep = Json::Array(vec![deep]);
        }
        assert!(deep.to_binary().is_ok());
        for _ in 0..2 {
            deep = Json::Array(vec![deep]);
        }
        assert!(deep.to_binary().is_err());
    }

    #[test]
    fn values_that_share_bytes_do_not_explode() {
        // An array of two entries that both point at the array itself.
        let mut bytes = vec![SMALL_ARRAY, 2, 0, 10, 0];
        for _ in 0..2 {
            bytes.extend([SMALL_ARRAY, 0, 0]);
        }
        assert!(check(&bytes).is_err());
    }
}
