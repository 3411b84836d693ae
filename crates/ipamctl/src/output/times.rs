//! Times for people and for programs: "3 h ago", RFC 3339.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time as people say it: `12 s ago`, `5 min ago`, `3 h ago`, `2 d ago`. `in the
/// future` if the clock was set back.
pub(crate) fn ago(time: SystemTime, now: SystemTime) -> String {
    match now.duration_since(time) {
        Ok(age) => format!("{} ago", rounded(age)),
        Err(_) => "in the future".to_owned(),
    }
}

/// A duration in its largest whole unit: `12 s`, `5 min`, `3 h`, `2 d`.
pub(crate) fn rounded(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The time for programs: RFC 3339, in UTC, to the second. A file may have any time, also one
/// before 1970.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let seconds = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i128::from(since.as_secs()),
        Err(before) => {
            let before = before.duration();
            -i128::from(before.as_secs()) - i128::from(before.subsec_nanos() > 0)
        }
    };
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a number of days since 1970: Howard Hinnant's `civil_from_days`,
/// which counts in eras of 400 years that begin in March.
fn civil(days: i128) -> (i128, i128, i128) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year + era * 400 + i128::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        let now = SystemTime::now();
        for (seconds, text) in [
            (0, "0 s ago"),
            (59, "59 s ago"),
            (60, "1 min ago"),
            (3_599, "59 min ago"),
            (3 * 3_600 + 5, "3 h ago"),
            (47 * 3_600, "47 h ago"),
            (3 * 86_400, "3 d ago"),
        ] {
            assert_eq!(ago(now - Duration::from_secs(seconds), now), text);
        }
        assert_eq!(ago(now + Duration::from_secs(9), now), "in the future");
    }

    #[test]
    fn a_time_before_1970_and_one_after_9999_are_written() {
        let at = |seconds: i64| {
            let distance = Duration::from_secs(seconds.unsigned_abs());
            rfc3339(match seconds {
                0.. => UNIX_EPOCH + distance,
                _ => UNIX_EPOCH - distance,
            })
        };
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (-2_208_988_800, "1900-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_325_696, "2026-11-22T05:34:56Z"),
            (253_402_300_800, "10000-01-01T00:00:00Z"),
        ] {
            assert_eq!(at(seconds), text);
        }
        let half = UNIX_EPOCH - Duration::from_millis(500);
        assert_eq!(rfc3339(half), "1969-12-31T23:59:59Z");
        assert!(rfc3339(UNIX_EPOCH + Duration::from_secs(i64::MAX as u64)).ends_with('Z'));
    }
}
