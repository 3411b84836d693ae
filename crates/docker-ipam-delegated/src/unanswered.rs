//! Calls of an earlier daemon whose answers Docker may not have.
//!
//! If the daemon is killed before Docker has its answer, Docker calls again, with the same
//! bytes: after one second, then after two, and so on, for half a minute
//! (`pkg/plugins/client.go`). Three calls must not be done twice then: `RequestAddress`,
//! whose first address would be nobody's, and the two releases, which would take what
//! somebody else has got meanwhile. All others are told by the IDs in them, or
//! can be done twice.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::journal::Call;
use crate::state::lock;

/// The time after the start in which a call can be a repeated one; twice as long as
/// Docker goes on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A call that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// The name of the object's file.
    pub(crate) file: String,
    /// The answer, if the call made the object; `None` if it ended it.
    pub(crate) made: Option<String>,
}

/// The calls, each with what it did.
pub(crate) struct UnansweredCalls {
    since: Instant,
    calls: Mutex<HashMap<Call, Vec<Unanswered>>>,
}

impl Default for UnansweredCalls {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            calls: Mutex::default(),
        }
    }
}

impl UnansweredCalls {
    /// Notes a call that made an object, with its answer.
    pub(crate) fn put_made(&self, call: Call, file: &str, answer: String) {
        let (file, made) = (file.to_owned(), Some(answer));
        self.put(call, Unanswered { file, made });
    }

    /// Notes a call that ended an object.
    pub(crate) fn put_ended(&self, call: Call, file: &str) {
        let (file, made) = (file.to_owned(), None);
        self.put(call, Unanswered { file, made });
    }

    fn put(&self, call: Call, unanswered: Unanswered) {
        lock(&self.calls).entry(call).or_default().push(unanswered);
    }

    /// What a call did, if it is a repeated one; each is returned once.
    pub(crate) fn take(&self, call: &Call) -> Option<Unanswered> {
        if self.since.elapsed() > PATIENCE {
            return None;
        }
        let mut calls = lock(&self.calls);
        let done = calls.get_mut(call)?;
        let first = (!done.is_empty()).then(|| done.remove(0));
        if done.is_empty() {
            calls.remove(call);
        }
        first
    }

    /// Forgets the call that made an object, which has ended.
    pub(crate) fn forget(&self, file: &str) {
        let mut calls = lock(&self.calls);
        if calls.is_empty() {
            return;
        }
        calls.retain(|_, done| {
            done.retain(|it| it.file != file || it.made.is_none());
            !done.is_empty()
        });
    }

    /// Forgets all calls; returns those that ended objects.
    pub(crate) fn forget_all(&self) -> Vec<(Call, Unanswered)> {
        let all = lock(&self.calls).drain().collect::<Vec<_>>();
        let ended = |(call, done): (Call, Vec<Unanswered>)| {
            let ended = done.into_iter().filter(|it| it.made.is_none());
            ended.map(|it| (call.clone(), it)).collect::<Vec<_>>()
        };
        all.into_iter().flat_map(ended).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(path: &str) -> Call {
        Call {
            path: path.to_owned(),
            body: "{}".to_owned(),
        }
    }

    #[test]
    fn a_call_is_a_repeated_one_as_often_as_it_was_unanswered() {
        let calls = UnansweredCalls::default();
        calls.put_made(call("/a"), "1", "{}".to_owned());
        calls.put_made(call("/a"), "2", "{}".to_owned());
        let files: Vec<_> = (0..3)
            .map(|_| calls.take(&call("/a")).map(|it| it.file))
            .collect();
        assert_eq!(files, [Some("1".to_owned()), Some("2".to_owned()), None]);
        assert_eq!(calls.take(&call("/b")), None);
    }

    #[test]
    fn what_has_ended_since_is_not_handed_out() {
        let calls = UnansweredCalls::default();
        calls.put_made(call("/a"), "1", "{}".to_owned());
        calls.put_ended(call("/b"), "1");
        calls.forget("1");
        assert_eq!(calls.take(&call("/a")), None);
        let (file, made) = ("1".to_owned(), None);
        assert_eq!(
            calls.forget_all(),
            [(call("/b"), Unanswered { file, made })]
        );
        assert_eq!(calls.take(&call("/b")), None);
    }
}
