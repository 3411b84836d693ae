//! The handshake: which drivers the daemon has.

use serde_json::json;

use crate::answer::Answer;

/// `Plugin.Activate`.
pub(crate) fn manifest() -> Answer {
    Answer::plain(json!({"Implements": ["IpamDriver", "NetworkDriver"]}).to_string())
}
