//! Times for people and for programs: "3 h ago", RFC 3339.

use std::time::{Duration, SystemTime};

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

/// The time for programs: RFC 3339, in UTC, to the second.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
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
}
