//! Answers of the API server, and what they say of the request.

use std::time::Duration;

use cni::{Excerpt, OneLine};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::request::Request;

/// Characters of the API server's message that are shown. It names each field that is wrong.
const LONGEST_MESSAGE: usize = 1000;

/// An answer, with its whole body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// `Retry-After`, in seconds.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

/// A `Status` object, in which the API server says why it refuses. Proxies and load balancers
/// answer without.
#[derive(Default, Deserialize)]
struct StatusObject {
    kind: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    name: String,
}

/// What an answer says of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was executed.
    Executed,
    /// It was not executed: it is to be sent again after a while.
    Later,
    /// It may have been executed.
    Unknown,
    /// It was refused: the object exists.
    Exists,
    /// It was refused: the object is in another state.
    Changed,
    /// The object doesn't exist.
    Missing,
    /// The token of a list's next page has expired.
    Expired,
    /// It was refused for another reason.
    Refused,
}

impl Answer {
    pub(super) fn verdict(&self, request: &Request) -> Verdict {
        let said = self.status_object();
        match (self.status.as_u16(), said.reason.as_str()) {
            (200..=299, _) => Verdict::Executed,
            (429, _) => Verdict::Later,
            (503, _) if self.retry_after.is_some() => Verdict::Later,
            // After a start, the API server hasn't read the policies' parameters yet.
            _ if said.message.contains("failed to configure policy") => Verdict::Later,
            (408 | 500..=599, _) => Verdict::Unknown,
            (409, "AlreadyExists") => Verdict::Exists,
            (409, "Conflict") => Verdict::Changed,
            (404, "NotFound") if said.is_about(&request.name) => Verdict::Missing,
            (410, "Expired" | "Gone") => Verdict::Expired,
            _ => Verdict::Refused,
        }
    }

    /// The answer in words: the API server's message, or the start of what came instead.
    pub(super) fn said(&self) -> String {
        let message: String = self.status_object().message;
        let status = self.status.as_u16();
        if message.is_empty() {
            return format!(
                "{status}: {}",
                Excerpt(&String::from_utf8_lossy(&self.body))
            );
        }
        let message: String = message.chars().take(LONGEST_MESSAGE).collect();
        format!("{status}: {}", OneLine(message.as_bytes()))
    }

    /// The object in the body.
    pub(super) fn object(&self) -> Option<Value> {
        let object: Option<Value> = serde_json::from_slice(&self.body).ok();
        object.filter(Value::is_object)
    }

    fn status_object(&self) -> StatusObject {
        if self.status.is_success() {
            return StatusObject::default();
        }
        let read: Option<StatusObject> = serde_json::from_slice(&self.body).ok();
        read.filter(|object| object.kind == "Status")
            .unwrap_or_default()
    }
}

impl StatusObject {
    /// False for a resource that is missing as a whole.
    fn is_about(&self, name: &str) -> bool {
        let details = self.details.as_ref();
        !name.is_empty() && details.is_some_and(|details| details.name == name)
    }
}
