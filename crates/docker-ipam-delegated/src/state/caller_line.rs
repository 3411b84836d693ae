//! The daemon's lines in the record of an attachment, and the stage that a record tells.

use chain::record::{AttachmentRecord, RecordState};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::state::stage::Stage;

/// A line of the daemon's in the record of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallerLine {
    /// The ID of the pool that the address is of.
    Pool(String),
    /// The endpoint that the attachment is.
    Endpoint(Plugged),
    /// The namespace of the container that joins the endpoint.
    Sandbox(String),
}

impl CallerLine {
    /// The line as it is written.
    pub(crate) fn to_raw(&self) -> Box<RawValue> {
        to_raw_value(self).expect("a line is JSON")
    }

    /// The daemon's lines in a record. One that another program has written is left out.
    pub(crate) fn all(record: &AttachmentRecord) -> Vec<Self> {
        let lines = record.caller_lines.iter();
        lines
            .filter_map(|line| serde_json::from_str(line.get()).ok())
            .collect()
    }
}

impl From<RecordState> for Stage {
    fn from(state: RecordState) -> Self {
        match state {
            RecordState::Adding => Self::Begun,
            RecordState::Added => Self::Made,
            RecordState::Deleting => Self::Ending,
        }
    }
}

/// Docker's part of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plugged {
    /// Docker's ID of the endpoint.
    pub(crate) id: String,
    /// Docker's ID of its network.
    pub(crate) network: String,
    /// The MAC address that Docker gives it, or an empty text.
    pub(crate) mac: String,
    /// The addresses that Docker gives it, each with its gateway, which may be empty.
    pub(crate) addresses: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_that_people_can_read() {
        let text = |line: CallerLine| line.to_raw().get().to_owned();
        assert_eq!(
            text(CallerLine::Sandbox("/s".to_owned())),
            r#"{"sandbox":"/s"}"#
        );
        assert_eq!(
            text(CallerLine::Pool("a/b".to_owned())),
            r#"{"pool":"a/b"}"#
        );
    }
}
