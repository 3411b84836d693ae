//! ID of a call: the mark of the processes that it starts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cni::{CHAIN_CALL, Environment, ROLLBACK};
use rustix::process::getpid;
use serde::{Deserialize, Serialize};

/// The ID of a call: `<pid>-<nanoseconds since 1970>-<number>`. Every process that the
/// call starts has it in its environment, as [`CHAIN_CALL`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct CallId(String);

impl CallId {
    /// The ID of a new call of this process.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let pid = getpid();
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(format!("{pid}-{now}-{number}"))
    }

    /// Start of the call.
    pub(crate) fn started(&self) -> SystemTime {
        let nanoseconds = nanoseconds(&self.0).expect("an ID has it");
        UNIX_EPOCH + Duration::from_nanos(nanoseconds)
    }

    /// The environment of the call's delegates.
    pub(crate) fn mark(&self, environment: Environment) -> Environment {
        environment.with(CHAIN_CALL, self.0.as_str())
    }

    /// The environment of delegates that undo this call, which may be an earlier one.
    pub(crate) fn mark_rollback(&self, environment: Environment) -> Environment {
        environment.with(ROLLBACK, self.0.as_str())
    }
}

impl TryFrom<String> for CallId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let pid = text.split_once('-').map(|(pid, _)| pid.parse::<i32>());
        match pid {
            Some(Ok(pid)) if pid > 0 && nanoseconds(&text).is_some() && !text.contains('\0') => {
                Ok(Self(text))
            }
            _ => Err(format!("{text:?} is not the ID of a call")),
        }
    }
}

/// The second part of an ID.
fn nanoseconds(id: &str) -> Option<u64> {
    id.split('-').nth(1)?.parse().ok()
}

impl From<CallId> for String {
    fn from(id: CallId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_itself() {
        let id = CallId::new();
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<CallId>(&json).unwrap(), id);
        let bad = [
            "\"\"",
            "\"1\"",
            "\"1-\"",
            "\"1-x-1\"",
            "\"x-1-2\"",
            "\"-1-1\"",
            "\"1-1-1\\u0000\"",
        ];
        for bad in bad {
            assert!(serde_json::from_str::<CallId>(bad).is_err(), "{bad}");
        }
    }
}
