//! How a row is written: what separates, quotes and escapes.

/// What reads the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// LOAD DATA with its defaults: tab, newline, backslash; NULL is `\N`. Bytes are hexadecimal digits.
    LoadData,
    /// A list of rows behind VALUES. Needs backslash escapes, as they are without NO_BACKSLASH_ESCAPES.
    Values,
    /// Parameters of a prepared statement, as strings behind their lengths. NULL is nothing at all.
    Params,
}

/// How a generator's bytes become a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// A number: as it is.
    Number,
    /// A text of at least one byte, none of which means anything to any format.
    Clean,
    /// A text.
    Text,
    /// Bytes.
    Bytes,
    /// Bytes of a geometry.
    Geometry,
}

impl Format {
    #[inline]
    pub(crate) fn begin_row(self, out: &mut Vec<u8>) {
        if self == Self::Values {
            out.push(b'(');
        }
    }

    #[inline]
    pub(crate) fn between_cells(self, out: &mut Vec<u8>) {
        match self {
            Self::LoadData => out.push(b'\t'),
            Self::Values => out.push(b','),
            Self::Params => {}
        }
    }

    #[inline]
    pub(crate) fn end_row(self, out: &mut Vec<u8>) {
        match self {
            Self::LoadData => out.push(b'\n'),
            Self::Values => out.push(b')'),
            Self::Params => {}
        }
    }

    #[inline]
    pub(crate) fn null(self, out: &mut Vec<u8>) {
        match self {
            Self::LoadData => out.extend_from_slice(b"\\N"),
            Self::Values => out.extend_from_slice(b"NULL"),
            Self::Params => {}
        }
    }

    /// Writes what `put` appends as a cell.
    #[inline]
    pub(crate) fn cell(self, kind: CellKind, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
        match (self, kind) {
            (Self::Params, _) => put_with_length(out, put),
            (_, CellKind::Number) | (Self::LoadData, CellKind::Clean) => put(out),
            (Self::Values, CellKind::Clean) => {
                out.push(b'\'');
                put(out);
                out.push(b'\'');
            }
            (Self::Values, CellKind::Bytes | CellKind::Geometry) => {
                out.extend_from_slice(b"X'");
                put_hex(out, put);
                out.push(b'\'');
            }
            (_, CellKind::Bytes | CellKind::Geometry) => put_hex(out, put),
            (Self::Values, CellKind::Text) => {
                out.push(b'\'');
                let from = out.len();
                put(out);
                escape(out, from, |byte| match byte {
                    b'\'' => Some(b'\''),
                    b'\\' => Some(b'\\'),
                    b'\n' => Some(b'n'),
                    0 => Some(b'0'),
                    _ => None,
                });
                out.push(b'\'');
            }
            (Self::LoadData, CellKind::Text) => {
                let from = out.len();
                put(out);
                escape(out, from, |byte| match byte {
                    b'\t' => Some(b't'),
                    b'\n' => Some(b'n'),
                    b'\\' => Some(b'\\'),
                    0 => Some(b'0'),
                    _ => None,
                });
            }
        }
    }
}

/// Whether no format gives any of these bytes a meaning.
pub(crate) fn is_clean(text: &[u8]) -> bool {
    !text
        .iter()
        .any(|byte| matches!(byte, b'\t' | b'\n' | b'\\' | b'\'' | 0))
}

/// Puts a backslash before each byte from there on that is to be written otherwise.
fn escape(out: &mut Vec<u8>, from: usize, otherwise: impl Fn(u8) -> Option<u8>) {
    let Some(first) = out[from..].iter().position(|&byte| otherwise(byte).is_some()) else {
        return;
    };
    let rest = out.split_off(from + first);
    for byte in rest {
        match otherwise(byte) {
            Some(other) => out.extend_from_slice(&[b'\\', other]),
            None => out.push(byte),
        }
    }
}

/// Protocol::LengthEncodedString: most are shorter than 251 bytes, and then are where they belong at once.
#[inline]
fn put_with_length(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.push(0);
    put(out);
    let length = out.len() - at - 1;
    let bytes = (length as u64).to_le_bytes();
    match length {
        0..=250 => out[at] = bytes[0],
        251..=0xFFFF => drop(out.splice(at..=at, [0xFC, bytes[0], bytes[1]])),
        0x1_0000..=0xFF_FFFF => drop(out.splice(at..=at, [0xFD, bytes[0], bytes[1], bytes[2]])),
        _ => drop(out.splice(at..=at, std::iter::once(0xFE).chain(bytes))),
    }
}

fn put_hex(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let from = out.len();
    put(out);
    let count = out.len() - from;
    out.resize(from + 2 * count, 0);
    // From the end: no byte is overwritten before it is read.
    for place in (0..count).rev() {
        let byte = out[from + place];
        out[from + 2 * place] = DIGITS[usize::from(byte >> 4)];
        out[from + 2 * place + 1] = DIGITS[usize::from(byte & 15)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(format: Format, kind: CellKind, text: &[u8]) -> String {
        let mut out = Vec::new();
        format.cell(kind, &mut out, |out| out.extend_from_slice(text));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn load_data_escapes_what_would_end_a_cell() {
        let text = |text| cell(Format::LoadData, CellKind::Text, text);
        assert_eq!(text(b"a\tb\nc\\d\0e'\","), "a\\tb\\nc\\\\d\\0e'\",");
        assert_eq!(text(b"\\N"), "\\\\N", "the text, not NULL");
        assert_eq!(text(b""), "");
    }

    #[test]
    fn values_are_literals() {
        assert_eq!(
            cell(Format::Values, CellKind::Text, b"it's \\ a\n\0"),
            "'it\\'s \\\\ a\\n\\0'"
        );
        assert_eq!(cell(Format::Values, CellKind::Number, b"-7"), "-7");
        assert_eq!(cell(Format::Values, CellKind::Bytes, b"\x00\xffA"), "X'00FF41'");
        assert_eq!(cell(Format::Values, CellKind::Clean, b"x"), "'x'");
    }

    #[test]
    fn parameters_are_as_they_are_behind_their_length() {
        let length = |length: usize| {
            let mut out = b"before".to_vec();
            Format::Params.cell(CellKind::Text, &mut out, |out| {
                out.resize(out.len() + length, b'x')
            });
            assert!(out.ends_with(&vec![b'x'; length]));
            out[6..out.len() - length].to_vec()
        };
        assert_eq!(
            cell(Format::Params, CellKind::Text, b"it's \\\n"),
            "\u{7}it's \\\n"
        );
        assert_eq!(cell(Format::Params, CellKind::Bytes, b"\x00A"), "\u{2}\0A");
        assert_eq!(length(0), b"\x00");
        assert_eq!(length(250), b"\xFA");
        assert_eq!(length(251), b"\xFC\xFB\x00");
        assert_eq!(length(0xFFFF), b"\xFC\xFF\xFF");
        assert_eq!(length(0x1_0000), b"\xFD\x00\x00\x01");
        assert_eq!(length(0x100_0000), b"\xFE\x00\x00\x00\x01\x00\x00\x00\x00");
    }
}
