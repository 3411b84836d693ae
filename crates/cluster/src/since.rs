//! The time in a value: for people, and to tell two values apart.

use std::time::SystemTime;

/// The node's time, `2026-11-21T14:38:21.800225123Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since(String);

impl Since {
    /// Now, to the nanosecond. A wrong clock does no harm.
    pub fn now() -> Self {
        // Times from before 1970 can't be written, and no clock needs them.
        let now = SystemTime::now().max(SystemTime::UNIX_EPOCH);
        Self(humantime::format_rfc3339_nanos(now).to_string())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
