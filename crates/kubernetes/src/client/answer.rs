//! Answers of the API server, and whether they mean that the request was executed.

use std::time::{Duration, SystemTime};

use cni::{Excerpt, OneLine};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::request::Request;

/// Most characters of the API server's message that are shown. The message names each invalid
/// field.
const LONGEST_MESSAGE: usize = 1000;

/// An answer, with its whole body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// `Retry-After`, in seconds.
    pub(super) retry_after: Option<Duration>,
    /// `Date`: the API server's clock.
    pub(super) date: Option<SystemTime>,
    pub(super) body: Vec<u8>,
}

/// A `Status` object: the API server's reason for a refusal. Answers of proxies and load balancers
/// have none.
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

/// Outcome of a request, by its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The request was executed.
    Executed,
    /// The request was not executed, and should be sent again later.
    Later,
    /// The request may have been executed.
    Unknown,
    /// The request was refused: the object exists.
    Exists,
    /// The request was refused: the object was changed.
    Changed,
    /// The object doesn't exist.
    Missing,
    /// The token of a list's next page has expired.
    Expired,
    /// The request was refused for another reason.
    Refused,
}

impl Answer {
    pub(super) fn verdict(&self, request: &Request) -> Verdict {
        let said = self.status_object();
        match (self.status.as_u16(), said.reason.as_str()) {
            (200..=299, _) => Verdict::Executed,
            (429, _) => Verdict::Later,
            (503, _) if self.retry_after.is_some() => Verdict::Later,
            // For a while after its start, the API server has not read the policies' parameters.
            _ if said.message.contains("failed to configure policy") => Verdict::Later,
            (408 | 500..=599, _) => Verdict::Unknown,
            (409, "AlreadyExists") => Verdict::Exists,
            (409, "Conflict") => Verdict::Changed,
            (404, "NotFound") if said.is_about(&request.name) => Verdict::Missing,
            (410, "Expired" | "Gone") => Verdict::Expired,
            _ => Verdict::Refused,
        }
    }

    /// The answer as text: the API server's message, or else the start of the body.
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
    /// True if the `Status` names this object; false if the whole resource is missing.
    fn is_about(&self, name: &str) -> bool {
        let details = self.details.as_ref();
        !name.is_empty() && details.is_some_and(|details| details.name == name)
    }
}
