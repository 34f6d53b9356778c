//! Numbers as decimal digits.

/// 00 to 99.
pub(crate) const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// Most digits of 64 bits.
const MOST: usize = 20;

/// The digits of a number below 10^8, with leading zeros: all at once, in lanes of one word. Quotients by 100 and 10
/// come from multiplying by 5243 / 2^19 and 103 / 2^10, exact for all numbers below 10,000 and 100.
#[inline]
pub fn eight_digits(number: u32) -> [u8; 8] {
    debug_assert!(number < 100_000_000);
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 5243) >> 19) & 0x7f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - 10 * tens) << 8;
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

/// Appends a number as it is usually written.
#[inline]
pub fn put_whole(text: &mut Vec<u8>, number: i128) {
    if number < 0 {
        text.push(b'-');
    }
    put_unsigned(text, number.unsigned_abs() as u64);
}

/// Appends a number without leading zeros.
#[inline]
pub fn put_unsigned(text: &mut Vec<u8>, mut number: u64) {
    if number < 100_000_000 {
        let digits = eight_digits(number as u32);
        let zeros = (u64::from_le_bytes(digits) ^ 0x3030_3030_3030_3030).trailing_zeros() as usize / 8;
        text.extend_from_slice(&digits[zeros.min(7)..]);
        return;
    }
    let mut digits = [0; MOST];
    let mut from = MOST;
    while number >= 10 {
        from -= 2;
        digits[from..from + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number > 0 {
        from -= 1;
        digits[from] = b'0' + number as u8;
    }
    text.extend_from_slice(&digits[from..]);
}

/// Appends the last `count` digits of a number, with leading zeros.
#[inline]
pub fn put_digits(text: &mut Vec<u8>, mut number: u64, count: u32) {
    let from = text.len();
    text.resize(from + count as usize, b'0');
    for digit in text[from..].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Appends a number that counts the last of `digits` places behind the point.
pub fn put_decimal(text: &mut Vec<u8>, number: i64, digits: u32) {
    if number < 0 {
        text.push(b'-');
    }
    let unit = 10u64.pow(digits);
    let size = number.unsigned_abs();
    put_unsigned(text, size / unit);
    if digits > 0 {
        text.push(b'.');
        put_digits(text, size % unit, digits);
    }
}

/// Appends a UUID as text.
pub fn put_uuid(text: &mut Vec<u8>, uuid: &[u8; 16]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (place, byte) in uuid.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push(b'-');
        }
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_digits_are_those_of_every_kind_of_number() {
        let every = (0..10_000).flat_map(|few| [few, few * 10_000 + 9999 - few, few * 9973]);
        for number in every.chain([99_999_999]) {
            assert_eq!(eight_digits(number).as_slice(), format!("{number:08}").as_bytes());
        }
    }

    #[test]
    fn numbers_are_written_as_rust_writes_them() {
        let ends = [
            0,
            1,
            9,
            10,
            99,
            100,
            101,
            12345,
            i128::from(u64::MAX),
            i128::from(i64::MIN),
        ];
        for number in ends.into_iter().flat_map(|number| [number, -number / 2]) {
            let mut text = Vec::new();
            put_whole(&mut text, number);
            assert_eq!(text, number.to_string().into_bytes());
        }
    }
}
