//! The texts of `c` and `pad`: groups of eleven random digits joined by dashes.

use crate::digits::{eight_digits, PAIRS};
use crate::Bits;

/// Length of `c`: ten groups.
pub const C_LENGTH: usize = text_length(10);

/// Length of `pad`: five groups.
pub const PAD_LENGTH: usize = text_length(5);

const DIGITS: usize = 11;
const BOUND: u64 = 100_000_000_000;

const fn text_length(groups: usize) -> usize {
    groups * (DIGITS + 1) - 1
}

/// Writes a fresh `c`.
#[inline]
pub fn write_c(text: &mut [u8; C_LENGTH], random: &mut impl Bits) {
    write_groups(text, random);
}

/// Writes a fresh `pad`.
#[inline]
pub fn write_pad(text: &mut [u8; PAD_LENGTH], random: &mut impl Bits) {
    write_groups(text, random);
}

/// Fills a text of groups and the dashes between them.
#[inline]
pub fn write_groups(text: &mut [u8], random: &mut impl Bits) {
    for group in text.chunks_mut(DIGITS + 1) {
        let number = random.below(BOUND);
        let digits = eleven_digits(number);
        // Of a length that the compiler knows, the copy is two stores; else it would be a call.
        match <&mut [u8; DIGITS + 1]>::try_from(&mut *group) {
            Ok(whole) => *whole = digits,
            Err(_) => group[..DIGITS].copy_from_slice(&digits[..DIGITS]),
        }
    }
}

/// The digits of a number below 10^11, and a dash.
#[inline]
fn eleven_digits(number: u64) -> [u8; DIGITS + 1] {
    let (high, low) = (number / 100_000_000, number % 100_000_000);
    let mut group = [b'-'; DIGITS + 1];
    group[0] = b'0' + (high / 100) as u8;
    group[1..3].copy_from_slice(&PAIRS[(high % 100) as usize]);
    group[3..DIGITS].copy_from_slice(&eight_digits(low as u32));
    group
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn groups(text: &[u8]) -> Vec<usize> {
        let text = std::str::from_utf8(text).unwrap();
        assert!(text.chars().all(|c| c.is_ascii_digit() || c == '-'), "{text}");
        text.split('-').map(str::len).collect()
    }

    #[test]
    fn c_is_ten_and_pad_five_groups_of_eleven_digits() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            let (mut c, mut pad) = ([0; C_LENGTH], [0; PAD_LENGTH]);
            write_c(&mut c, &mut random);
            write_pad(&mut pad, &mut random);
            assert_eq!((c.len(), pad.len()), (119, 59));
            assert_eq!(groups(&c), [11; 10]);
            assert_eq!(groups(&pad), [11; 5]);
        }
    }

    #[test]
    fn every_digit_is_alike_at_every_place() {
        const TEXTS: usize = 20_000;
        let mut random = Random::new(2);
        let mut counts = [[0u32; 10]; PAD_LENGTH];
        let mut pad = [0; PAD_LENGTH];
        for _ in 0..TEXTS {
            write_pad(&mut pad, &mut random);
            for (count, digit) in counts.iter_mut().zip(pad) {
                if digit != b'-' {
                    count[usize::from(digit - b'0')] += 1;
                }
            }
        }
        // 55 places x 10 digits of n = 20,000, p = 0.1: sigma = 42; six sigma is 255.
        for (place, count) in counts.iter().enumerate().filter(|(place, _)| place % 12 != 11) {
            for (digit, &seen) in count.iter().enumerate() {
                assert!(
                    seen.abs_diff(TEXTS as u32 / 10) < 255,
                    "{digit} at {place}: {seen}"
                );
            }
        }
    }

    #[test]
    fn the_seed_decides_the_text() {
        let text = |seed| {
            let mut c = [0; C_LENGTH];
            write_c(&mut c, &mut Random::new(seed));
            c
        };
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }
}
