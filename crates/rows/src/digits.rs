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
    let mut digits = [0; MOST];
    let mut from = MOST;
    while number >= 100 {
        from -= 2;
        digits[from..from + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number >= 10 {
        from -= 2;
        digits[from..from + 2].copy_from_slice(&PAIRS[number as usize]);
    } else {
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

#[cfg(test)]
mod tests {
    use super::*;

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
