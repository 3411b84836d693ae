//! Calls of a plugin within this process, and checks that hold for every answer.

use std::path::Path;

use cni::{Environment, Plugin};
use serde_json::Value;
use serde_json::value::RawValue;

/// The variables that a runtime sets for this command, for `eth0` of `c1`.
pub fn environment(command: &str, plugins: &Path) -> Environment {
    Environment::default()
        .with("CNI_COMMAND", command)
        .with("CNI_CONTAINERID", "c1")
        .with("CNI_IFNAME", "eth0")
        .with("CNI_NETNS", "/run/netns/c1")
        .with("CNI_PATH", plugins)
}

/// Outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success, with this stdout.
    Success(Vec<u8>),
    /// Failure, with this CNI error.
    Failure {
        /// CNI's code, or a plugin's from 100 on.
        code: u64,
        /// Its message.
        msg: String,
    },
}

impl Outcome {
    /// The code of the failure; `None` for a success.
    pub fn code(&self) -> Option<u64> {
        match self {
            Self::Success(_) => None,
            Self::Failure { code, .. } => Some(*code),
        }
    }

    /// The result, if the call succeeded with one.
    pub fn result(&self) -> Option<Value> {
        match self {
            Self::Success(stdout) => serde_json::from_slice(stdout).ok(),
            Self::Failure { .. } => None,
        }
    }

    /// The addresses of the result, without prefixes.
    pub fn ips(&self) -> Vec<String> {
        let result = self.result().unwrap_or_default();
        let ips = result["ips"].as_array().cloned().unwrap_or_default();
        ips.iter()
            .filter_map(|ip| Some(ip["address"].as_str()?.split('/').next()?.to_owned()))
            .collect()
    }
}

/// Calls the plugin in this process.
///
/// # Panics
///
/// If the answer is invalid: stdout that is not empty and no JSON object, an error
/// without a code or a message, or the error that a panic becomes.
pub fn call(plugin: &dyn Plugin, environment: &Environment, stdin: &[u8]) -> Outcome {
    let response = plugin::respond(plugin, environment, &mut || Ok(stdin.to_vec()), None);
    let stdout = response.stdout;
    let shown = String::from_utf8_lossy(&stdout);
    if response.success {
        let is_object = serde_json::from_slice::<Box<RawValue>>(&stdout)
            .is_ok_and(|value| value.get().starts_with('{'));
        assert!(stdout.is_empty() || is_object, "no result: {shown:?}");
        return Outcome::Success(stdout);
    }
    let error: Value =
        serde_json::from_slice(&stdout).unwrap_or_else(|e| panic!("no CNI error: {e}: {shown:?}"));
    let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    let (code, msg) = (error["code"].as_u64(), text("msg"));
    assert!(!text("cniVersion").is_empty(), "no version: {shown}");
    assert!(!msg.is_empty(), "no message: {shown}");
    assert!(
        !msg.starts_with("this is a defect"),
        "the plugin panicked: {shown}"
    );
    Outcome::Failure {
        code: code.unwrap_or_else(|| panic!("no code: {shown}")),
        msg,
    }
}
