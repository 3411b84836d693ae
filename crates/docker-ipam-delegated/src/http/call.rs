//! A call of Docker's, and the interface of the code that answers it.

use crate::http::answer::Answer;
use crate::http::refusal::Refusal;

/// A call of Docker's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The path: `/IpamDriver.RequestPool`.
    pub(crate) path: String,
    /// The body, as it came.
    pub(crate) body: String,
}

/// Answers calls.
pub(crate) trait Calls: Send + Sync {
    /// Answers a call that waits for nothing; `None` for any other.
    fn answer_at_once(&self, call: &Call) -> Option<Result<Answer, Refusal>>;

    /// Answers any other call. It may wait for files and processes.
    ///
    /// # Errors
    ///
    /// The path is unknown, the body can't be decoded, or the call can't be done.
    fn answer(&self, call: &Call) -> Result<Answer, Refusal>;
}
