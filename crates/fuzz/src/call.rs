//! Calls of a plugin within this process, and checks that hold for every answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use cni::Plugin;
use serde_json::Value;
use serde_json::value::RawValue;

/// The environment of a call.
#[derive(Clone, Debug)]
pub struct Variables(BTreeMap<String, OsString>);

impl Variables {
    /// The variables that a runtime sets for this command, for `eth0` of `c1`.
    pub fn new(command: &str, path: &Path) -> Self {
        Self(BTreeMap::new())
            .with("CNI_COMMAND", command)
            .with("CNI_CONTAINERID", "c1")
            .with("CNI_IFNAME", "eth0")
            .with("CNI_NETNS", "/run/netns/c1")
            .with("CNI_PATH", path)
    }

    /// Adds a variable, or replaces it.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }
}

/// Outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success, with this stdout.
    Success(Vec<u8>),
    /// Failure, with this CNI error.
    Failure {
        /// Its code.
        code: u64,
        /// Its message.
        msg: String,
        /// Its details, or nothing.
        details: String,
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

/// Calls the plugin.
///
/// # Panics
///
/// If the answer is invalid: stdout that is not empty and no JSON object, an error
/// without a code or a message, or the error that a panic becomes.
pub fn call(plugin: &dyn Plugin, variables: &Variables, stdin: &[u8]) -> Outcome {
    let variables = variables.0.iter();
    let environment = variables
        .map(|(name, value)| (name.into(), value.clone()))
        .collect();
    let response = plugin::respond(plugin, &environment, &mut || Ok(stdin.to_vec()), None);
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
        details: text("details"),
    }
}
