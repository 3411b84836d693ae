//! Plugins that the daemon calls: their environment, and the log of what they write to stderr.

use std::time::Duration;

use chain::{Event, Observer};
use cni::{DELEGATE, Environment, ROLLBACK};

/// The longest that a plugin of either driver may take: the kubelet's default time for a runtime's
/// call (`runtimeRequestTimeout`).
pub(crate) const LONGEST: Duration = Duration::from_secs(120);

/// `PATH` and the project's variables from the daemon's environment, but not those of a single
/// call; and this `CNI_PATH`.
pub(crate) fn for_plugins(cni_path: &str) -> Environment {
    let variables = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        let is_of_a_call = [DELEGATE, ROLLBACK].contains(&name.as_ref());
        name == "PATH" || (name.starts_with("IPAM_DELEGATED_") && !is_of_a_call)
    });
    variables
        .collect::<Environment>()
        .with("CNI_PATH", cni_path)
}

/// An observer that logs.
pub(crate) struct DelegateLog;

impl Observer for DelegateLog {
    fn event(&self, event: &Event<'_>) {
        if let Event::Stderr { delegate, bytes } = event {
            let text = String::from_utf8_lossy(bytes);
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                tracing::warn!(%delegate, "{line}");
            }
        }
    }
}
