//! Answer to a call, and what is to be done when Docker has it, or can't get it any more.

use std::fmt;

use serde::Serialize;
use tokio::runtime::{Handle, RuntimeFlavor};

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
    pub(crate) delivery: Delivery,
}

impl Answer {
    /// An answer after which nothing is to be done.
    pub(crate) fn plain(body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            delivery: Delivery(None),
        }
    }

    /// An answer, and what is to be done after it.
    pub(crate) fn then(body: impl Into<String>, then: impl FnOnce(bool) + Send + 'static) -> Self {
        Self {
            body: body.into(),
            delivery: Delivery(Some(Box::new(then))),
        }
    }
}

/// What is to be done once an answer is delivered. If this is dropped, it wasn't.
pub(crate) struct Delivery(Option<OnDelivery>);

impl Delivery {
    /// Docker has the answer. What is to be done is done now: until then, a kill would make
    /// it doubtful whether Docker has it.
    pub(crate) fn delivered(mut self) {
        let Some(then) = self.0.take() else {
            return;
        };
        match Handle::try_current().map(|it| it.runtime_flavor()) {
            // It writes a file: other connections go on in another thread.
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| then(true)),
            _ => then(true),
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let Some(then) = self.0.take() else {
            return;
        };
        // Undoing runs a chain, for which nobody waits.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || then(false))),
            Err(_) => then(false),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.body)
    }
}
