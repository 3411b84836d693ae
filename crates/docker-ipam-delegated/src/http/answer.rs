//! Answer to a call, with an action for the time when Docker has received it or never will.

use std::fmt;

use serde::Serialize;
use tokio::sync::oneshot;

/// The answer to a call that gives nothing.
pub(crate) const NOTHING: &str = "{}";

/// The body of an answer.
pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("an answer is JSON")
}

/// Called once: with true if Docker has the answer, and with false if it never will.
type OnDelivery = Box<dyn FnOnce(bool) + Send>;

/// An answer.
pub(crate) struct Answer {
    /// The body.
    pub(crate) body: String,
    /// What is to be done.
    then: Option<OnDelivery>,
}

/// The body of an answer on its way to Docker. It was not delivered if this is dropped.
pub(crate) struct Sent {
    pub(crate) body: String,
    pub(crate) delivered: oneshot::Sender<()>,
}

impl Answer {
    /// An answer after which nothing is to be done.
    pub(crate) fn plain(body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            then: None,
        }
    }

    /// An answer, and what is to be done after it.
    pub(crate) fn then(body: impl Into<String>, then: impl FnOnce(bool) + Send + 'static) -> Self {
        Self {
            body: body.into(),
            then: Some(Box::new(then)),
        }
    }

    /// Sends the answer on its way, waits until it is delivered or can't be any more, and
    /// does what is to be done then: it writes files, and may run a chain.
    pub(crate) fn send(self, to: impl FnOnce(Sent)) {
        let (delivered, is_delivered) = oneshot::channel();
        let body = self.body;
        to(Sent { body, delivered });
        if let Some(then) = self.then {
            then(is_delivered.blocking_recv().is_ok());
        }
    }
}

impl Sent {
    /// A body whose delivery nobody waits for.
    pub(crate) fn unwatched(body: String) -> Self {
        let (delivered, _) = oneshot::channel();
        Self { body, delivered }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.body)
    }
}
