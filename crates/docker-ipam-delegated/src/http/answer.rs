use serde::Serialize;
use serde_json::json;

/// Called once: with true if Docker has the answer, and with false if it never will.
type OnDelivery = Box<dyn FnOnce(bool) + Send>;

/// An answer to a call, with an action that runs when it is known whether Docker has received it.
pub(crate) struct Answer {
    /// The body, as JSON.
    pub(crate) body: String,
    then: Option<OnDelivery>,
}

impl Answer {
    /// An answer with this body.
    pub(crate) fn of(body: &impl Serialize) -> Self {
        Self {
            body: serde_json::to_string(body).expect("an answer is JSON"),
            then: None,
        }
    }

    /// The answer to a call that returns nothing.
    pub(crate) fn nothing() -> Self {
        Self::of(&json!({}))
    }

    /// The same answer, with an action after it. The action may write files and run a chain.
    pub(crate) fn then(self, then: impl FnOnce(bool) + Send + 'static) -> Self {
        let then: Option<OnDelivery> = Some(Box::new(then));
        Self { then, ..self }
    }

    /// Runs the action.
    pub(crate) fn end(self, is_delivered: bool) {
        if let Some(then) = self.then {
            then(is_delivered);
        }
    }
}
