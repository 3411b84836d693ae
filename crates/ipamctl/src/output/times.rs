//! Times for people ("3 h ago") and for programs (RFC 3339).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_seconds;
use serde::Serializer;

/// The age of a time: `12 s ago`, `5 min ago`, `3 h ago`, `2 d ago`; `in the future` if the clock
/// was set back.
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

/// Seconds from 1970 to the year 10000, which RFC 3339 can't write.
const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

/// RFC 3339 in UTC, to the second; `null` without a time, or for one before 1970 or after 9999.
pub(crate) fn serialize<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let is_written = |time: &SystemTime| {
        let since = time.duration_since(UNIX_EPOCH);
        since.is_ok_and(|since| since < YEAR_10000)
    };
    match time.filter(is_written) {
        Some(time) => serializer.collect_str(&format_rfc3339_seconds(time)),
        None => serializer.serialize_none(),
    }
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
    fn a_time_before_1970_or_after_9999_is_not_written() {
        let text = |time| serialize(&Some(time), serde_json::value::Serializer).unwrap();
        let after = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(text(after(1_795_325_696)), "2026-11-22T05:34:56Z");
        assert_eq!(text(after(253_402_300_799)), "9999-12-31T23:59:59Z");
        assert!(text(UNIX_EPOCH - Duration::from_millis(500)).is_null());
        assert!(text(after(253_402_300_800)).is_null());
    }
}
