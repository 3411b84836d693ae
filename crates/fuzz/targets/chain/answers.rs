//! Generator of a delegate's answers: stdout, stderr, exit.

use bolero::TypeGenerator;
use fuzz::{Bytes, Document};
use serde_json::json;

use crate::delegates::Answer;
use crate::seeds;

/// One delegate.
#[derive(Clone, Debug, TypeGenerator)]
pub(super) struct Delegate {
    add: Said,
    del: Said,
    version: Option<Document>,
    /// With most values, DEL is answered with nothing.
    harmful: u8,
}

/// Output of a delegate, and its end.
#[derive(Clone, Debug, TypeGenerator)]
struct Said {
    /// With some values, it is an error, or nothing.
    kind: u8,
    document: Document,
    stderr: Option<Bytes>,
    end: u8,
}

impl Said {
    fn answer(&self) -> Answer {
        let mut stderr = self
            .stderr
            .iter()
            .flat_map(|text| text.of(&["why\n"]))
            .collect::<Vec<u8>>();
        // It reaches the terminal of whoever runs the tests.
        stderr.retain(|byte| *byte == b'\n' || *byte >= b' ' && *byte != 0x7f);
        let end = match self.end {
            0..=31 => "exit 1",
            32..=47 => "exit 255",
            48..=63 => "kill -9 $$",
            _ => "",
        };
        let stdout = match self.kind {
            0..=15 => Vec::new(),
            16..=47 => self.document.of(&seeds::errors()),
            _ => self.document.of(&seeds::results()),
        };
        Answer {
            stdout,
            stderr,
            end,
        }
    }
}

impl Delegate {
    /// True if it answers DEL with nothing, which is success.
    pub(super) fn is_harmless(&self) -> bool {
        !self.harmful.is_multiple_of(4)
    }

    /// The delegate's answer to each command.
    pub(super) fn answers(&self) -> [(&'static str, Answer); 3] {
        let versions = [json!({"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]})];
        let version = self.version.as_ref().map(|index| index.of(&versions));
        let stdout = version.unwrap_or_default();
        let del = if self.is_harmless() {
            Answer::default()
        } else {
            self.del.answer()
        };
        let version = Answer {
            stdout,
            ..Answer::default()
        };
        [
            ("ADD", self.add.answer()),
            ("DEL", del),
            ("VERSION", version),
        ]
    }
}
