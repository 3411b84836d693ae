//! Calls of an earlier daemon whose answers Docker may not have.
//!
//! If the daemon is killed before Docker has its answer, Docker calls again, with the same
//! bytes: after one second, then after two, and so on, for half a minute
//! (`pkg/plugins/client.go`). What the first call has done must not be done twice.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::journal::Call;
use crate::state::lock;

/// The time after the start in which a call can be a repeated one; twice as long as
/// Docker goes on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An answer that Docker may not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// The name of the object's file.
    pub(crate) name: String,
    /// The answer.
    pub(crate) answer: String,
    /// True if the call has ended the object, false if it has made it.
    pub(crate) is_end: bool,
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
    /// Notes a call.
    pub(crate) fn put(&self, call: Call, unanswered: Unanswered) {
        lock(&self.calls).entry(call).or_default().push(unanswered);
    }

    /// What a call did, if it is a repeated one. It is one once.
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
    pub(crate) fn forget(&self, name: &str) {
        let mut calls = lock(&self.calls);
        if calls.is_empty() {
            return;
        }
        calls.retain(|_, done| {
            done.retain(|it| it.name != name || it.is_end);
            !done.is_empty()
        });
    }

    /// Forgets all calls; returns the names of files that are of no use any more.
    pub(crate) fn forget_all(&self) -> Vec<(Call, String)> {
        let all = lock(&self.calls).drain().collect::<Vec<_>>();
        let ended = |(call, done): (Call, Vec<Unanswered>)| {
            let ended = done.into_iter().filter(|it| it.is_end);
            ended
                .map(move |it| (call.clone(), it.name))
                .collect::<Vec<_>>()
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

    fn unanswered(name: &str, is_end: bool) -> Unanswered {
        Unanswered {
            name: name.to_owned(),
            answer: "{}".to_owned(),
            is_end,
        }
    }

    #[test]
    fn a_call_is_a_repeated_one_as_often_as_it_was_unanswered() {
        let calls = UnansweredCalls::default();
        calls.put(call("/a"), unanswered("1", false));
        calls.put(call("/a"), unanswered("2", false));
        let names: Vec<_> = (0..3)
            .map(|_| calls.take(&call("/a")).map(|it| it.name))
            .collect();
        assert_eq!(names, [Some("1".to_owned()), Some("2".to_owned()), None]);
        assert_eq!(calls.take(&call("/b")), None);
    }

    #[test]
    fn what_has_ended_since_is_not_handed_out() {
        let calls = UnansweredCalls::default();
        calls.put(call("/a"), unanswered("1", false));
        calls.put(call("/b"), unanswered("1", true));
        calls.forget("1");
        assert_eq!(calls.take(&call("/a")), None);
        assert_eq!(calls.forget_all(), [(call("/b"), "1".to_owned())]);
        assert_eq!(calls.take(&call("/b")), None);
    }
}
