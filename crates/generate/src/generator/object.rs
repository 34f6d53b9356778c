//! JSON objects.

use super::column::Column;
use crate::extent::Extent;
use crate::format::CellKind;
use crate::Error;

/// One of an object's members.
#[derive(Debug)]
pub(crate) struct Member {
    /// `"name":`
    name: Box<[u8]>,
    column: Column,
}

impl Member {
    /// # Errors
    /// JSON has no bytes.
    pub fn new(name: &str, column: Column) -> Result<Self, Error> {
        if column.is_given() || matches!(column.kind(), CellKind::Bytes | CellKind::Geometry) {
            return Err(Error::new(format!(
                "{name} has bytes, or comes from Python, which JSON cannot hold"
            )));
        }
        let mut quoted = Vec::new();
        put_text(&mut quoted, |out| out.extend_from_slice(name.as_bytes()));
        quoted.push(b':');
        Ok(Self {
            name: quoted.into(),
            column,
        })
    }
}

/// The widest of the objects of so many rows. Each byte of a text may become six.
pub(crate) fn extent(members: &[Member], rows: u64) -> Extent {
    let lengths = members.iter().map(|member| {
        let (_, bytes) = member.column.extent(rows).length();
        let quoted = match member.column.kind() {
            CellKind::Number | CellKind::Clean => bytes + 2,
            _ => 6 * bytes + 2,
        };
        member.name.len() as u64 + quoted.max(4) + 1
    });
    Extent::Json {
        bytes: lengths.sum::<u64>() + 2,
    }
}

/// Appends an object.
pub(crate) fn put(members: &[Member], row: u64, out: &mut Vec<u8>) {
    out.push(b'{');
    for (number, member) in members.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&member.name);
        if member.column.is_null(row) {
            out.extend_from_slice(b"null");
        } else if member.column.kind() == CellKind::Number {
            member.column.put(row, out);
        } else {
            put_text(out, |out| member.column.put(row, out));
        }
    }
    out.push(b'}');
}

fn put_text(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    let from = out.len();
    put(out);
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    if let Some(first) = out[from..].iter().position(special) {
        let rest = out.split_off(from + first);
        for byte in rest {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => out.push(byte),
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_json() {
        let mut out = Vec::new();
        put_text(&mut out, |out| {
            out.extend_from_slice("a\"b\\c\n\u{1}ä".as_bytes())
        });
        let read: String = serde_json::from_slice(&out).unwrap();
        assert_eq!(read, "a\"b\\c\n\u{1}ä");
    }
}
