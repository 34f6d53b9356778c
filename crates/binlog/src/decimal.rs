//! DECIMAL's packed form: nine digits in four bytes, high digits first, negative ones inverted,
//! the first bit flipped, so that values compare as bytes do.

use crate::bytes::Put;

const DIGITS_PER_GROUP: usize = 9;
/// Bytes of a group that has fewer than nine digits.
const BYTES_OF_DIGITS: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
/// Largest value of a group by its digits.
const LIMIT_OF_DIGITS: [u32; 10] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// Longest packed value: DECIMAL(65,30) has 30 bytes, (65,0) has 29; 32 holds any.
const MAX_PACKED: usize = 32;

/// Bytes of a packed value.
pub(crate) fn packed_size(precision: u8, scale: u8) -> usize {
    groups(precision, scale)
        .map(|digits| BYTES_OF_DIGITS[digits])
        .sum()
}

/// Digits of each group: those before the point begin with the odd one, those behind end with it.
fn groups(precision: u8, scale: u8) -> impl Iterator<Item = usize> {
    let (before, behind) = (usize::from(precision - scale), usize::from(scale));
    let whole = |digits: usize| std::iter::repeat_n(DIGITS_PER_GROUP, digits / DIGITS_PER_GROUP);
    let odd = |digits: usize| {
        Some(digits % DIGITS_PER_GROUP)
            .filter(|digits| *digits > 0)
            .into_iter()
    };
    odd(before)
        .chain(whole(before))
        .chain(whole(behind))
        .chain(odd(behind))
}

/// Packs decimal text: an optional sign, digits, and perhaps a point with digits.
///
/// Fraction digits beyond the scale must be zeros: a server would have rounded before it stored.
pub(crate) fn put_packed(
    out: &mut impl Put,
    text: &str,
    precision: u8,
    scale: u8,
) -> Result<(), &'static str> {
    let (negative, text) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let before = &text[..point];
    let behind = text.get(point + 1..).unwrap_or_default();
    let digits = || before.iter().chain(behind);
    if digits().next().is_none() || !digits().all(u8::is_ascii_digit) {
        return Err("is no decimal number");
    }
    let zeros = before.iter().take_while(|byte| **byte == b'0').count();
    let before = &before[zeros..];
    let (whole, fraction) = (usize::from(precision - scale), usize::from(scale));
    if before.len() > whole {
        return Err("has more digits before the decimal point than its column");
    }
    if behind.iter().skip(fraction).any(|byte| *byte != b'0') {
        return Err("has more digits after the decimal point than its column");
    }
    // Digit `index` of the column, counted from its first one.
    let digit = |index: usize| -> u32 {
        let found = match index.checked_sub(whole) {
            None => (index + before.len())
                .checked_sub(whole)
                .and_then(|at| before.get(at)),
            Some(at) => behind.get(at),
        };
        found.map_or(0, |byte| u32::from(byte - b'0'))
    };
    // Zero has no sign.
    let negative = negative && digits().any(|byte| *byte != b'0');
    let mask = if negative { u32::MAX } else { 0 };
    let mut packed = [0_u8; MAX_PACKED];
    let (mut size, mut at) = (0, 0);
    for count in groups(precision, scale) {
        let group = (at..at + count).fold(0, |value, index| value * 10 + digit(index));
        let bytes = BYTES_OF_DIGITS[count];
        packed[size..size + bytes].copy_from_slice(&(group ^ mask).to_be_bytes()[4 - bytes..]);
        (size, at) = (size + bytes, at + count);
    }
    packed[0] ^= 0x80;
    out.put(&packed[..size]);
    Ok(())
}

/// Whether `packed` is a value: every group below its limit.
pub(crate) fn check(packed: &[u8], precision: u8, scale: u8) -> Result<(), &'static str> {
    let mut all = values(packed, precision, scale);
    match all.all(|(digits, value)| value < LIMIT_OF_DIGITS[digits]) {
        true => Ok(()),
        false => Err("is not a packed decimal number"),
    }
}

fn values(packed: &[u8], precision: u8, scale: u8) -> impl Iterator<Item = (usize, u32)> + '_ {
    let negative = packed.first().is_some_and(|byte| byte & 0x80 == 0);
    let mut at = 0;
    groups(precision, scale).map(move |digits| {
        let mut value = [0_u8; 4];
        let bytes = BYTES_OF_DIGITS[digits];
        for (index, byte) in packed.iter().skip(at).take(bytes).enumerate() {
            let flipped = if at + index == 0 { byte ^ 0x80 } else { *byte };
            value[4 - bytes + index] = if negative { !flipped } else { flipped };
        }
        at += bytes;
        (digits, u32::from_be_bytes(value))
    })
}

/// The text of a packed value, with all digits of its scale.
///
/// `None` if the bytes are no value of a DECIMAL(precision, scale).
pub fn decimal_text(packed: &[u8], precision: u8, scale: u8) -> Option<String> {
    if !(1..=65).contains(&precision) || scale > 30 || scale > precision {
        return None;
    }
    if packed.len() != packed_size(precision, scale) || check(packed, precision, scale).is_err() {
        return None;
    }
    let digits: String = values(packed, precision, scale)
        .map(|(digits, value)| format!("{value:0digits$}"))
        .collect();
    let (before, behind) = digits.split_at(usize::from(precision - scale));
    let before = before.trim_start_matches('0');
    let sign = if packed[0] & 0x80 == 0 { "-" } else { "" };
    let before = if before.is_empty() { "0" } else { before };
    let point = if scale == 0 { "" } else { "." };
    Some(format!("{sign}{before}{point}{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(text: &str, precision: u8, scale: u8) -> Result<Vec<u8>, &'static str> {
        let mut bytes = Vec::new();
        put_packed(&mut bytes, text, precision, scale).map(|()| bytes)
    }

    #[test]
    fn it_is_the_servers_form() {
        // Read off a row that MySQL 9.7.4 wrote: DECIMAL(10,2), (65,30), (5,0) and (9,9).
        assert_eq!(packed("-12345.67", 10, 2), Ok(vec![0x7f, 0xff, 0xcf, 0xc6, 0xbc]));
        assert_eq!(packed("99999", 5, 0), Ok(vec![0x81, 0x86, 0x9f]));
        assert_eq!(packed("0.123456789", 9, 9), Ok(vec![0x87, 0x5b, 0xcd, 0x15]));
        let long = packed("-12345678901234567890.123456789", 65, 30);
        let bytes = [
            0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf3, 0xeb, 0x65, 0x5b, 0xca, 0xf2, 0x04, 0xc7, 0x2d,
            0xf8, 0xa4, 0x32, 0xea, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ];
        assert_eq!(long, Ok(bytes.to_vec()));
    }

    #[test]
    fn every_shape_comes_back() {
        for precision in 1..=65_u8 {
            for scale in 0..=precision.min(30) {
                let whole = usize::from(precision - scale);
                for digit in ["0", "1", "9"] {
                    let before = if whole == 0 {
                        "0".to_owned()
                    } else {
                        digit.repeat(whole)
                    };
                    let behind = digit.repeat(usize::from(scale));
                    let text = match (digit, scale) {
                        ("0", 0) => "0".to_owned(),
                        ("0", _) => format!("0.{behind}"),
                        (_, 0) => format!("-{before}"),
                        _ => format!("-{before}.{behind}"),
                    };
                    let bytes = packed(&text, precision, scale).unwrap_or_default();
                    assert_eq!(bytes.len(), packed_size(precision, scale));
                    assert_eq!(decimal_text(&bytes, precision, scale), Some(text));
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (text, precision, scale) in [("100", 2, 0), ("1.005", 5, 2), ("", 5, 2), ("1e5", 9, 0)] {
            assert!(packed(text, precision, scale).is_err(), "{text}");
        }
        assert_eq!(packed("1.500", 5, 1), packed("1.5", 5, 1));
        assert_eq!(packed("-0.0", 5, 1), packed("0", 5, 1));
        assert_eq!(decimal_text(&[0xff; 5], 10, 2), None);
    }
}
