//! Days and seconds since 1970 as texts of the proleptic Gregorian calendar.

use crate::digits::{eight_digits, PAIRS};

const DAY: i64 = 86_400;

/// `YYYY-MM-DD HH:MM:SS` of years 0 to 9999.
#[inline]
pub fn put_datetime(text: &mut Vec<u8>, seconds: i64) {
    let rest = seconds.rem_euclid(DAY) as u32;
    let mut moment = [b' '; 19];
    moment[..10].copy_from_slice(&date(seconds.div_euclid(DAY)));
    let clock = eight_digits(rest / 3600 * 1_000_000 + rest / 60 % 60 * 1000 + rest % 60);
    moment[11..].copy_from_slice(&clock);
    (moment[13], moment[16]) = (b':', b':');
    text.extend_from_slice(&moment);
}

/// `YYYY-MM-DD`.
#[inline]
pub fn put_date(text: &mut Vec<u8>, days: i64) {
    text.extend_from_slice(&date(days));
}

#[inline]
fn date(days: i64) -> [u8; 10] {
    let (year, month, day) = civil(days);
    let mut date = [b'-'; 10];
    date[..4].copy_from_slice(&eight_digits(year as u32)[4..]);
    date[5..7].copy_from_slice(&PAIRS[month as usize]);
    date[8..].copy_from_slice(&PAIRS[day as usize]);
    date
}

/// Year, month and day of a number of days since 1970-01-01 (Howard Hinnant, "chrono-compatible low-level
/// date algorithms", `civil_from_days`).
fn civil(days: i64) -> (i64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u64, day as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datetime(seconds: i64) -> String {
        let mut text = Vec::new();
        put_datetime(&mut text, seconds);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn known_moments_are_written_as_the_calendar_has_them() {
        for (seconds, due) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (4_102_444_800, "2100-01-01 00:00:00"),
            (253_402_300_799, "9999-12-31 23:59:59"),
            (-30_610_224_000, "1000-01-01 00:00:00"),
        ] {
            assert_eq!(datetime(seconds), due);
        }
    }
}
