//! `ipam.kubernetes`: the kubeconfig, folders, the time limit.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use cni::{Error, Object};
use serde_json::Value;

/// Default of `timeout`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest `timeout`.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Default of `cacheDir`: in memory, so that a reboot removes it.
const CACHE_DIR: &str = "/run/cni/ipam-kubernetes";

/// Default of `stateDir`.
const STATE_DIR: &str = "/var/lib/cni/ipam-kubernetes";

/// The path of the object in messages.
const PATH: &str = "ipam.kubernetes";

const KEYS: [&str; 4] = ["kubeconfig", "timeout", "cacheDir", "stateDir"];

/// `ipam.kubernetes`, valid. The kubeconfig is named, and not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// File with the API server's URL and the node's credentials.
    pub kubeconfig: PathBuf,
    /// Bound of time for all requests of a call together.
    pub timeout: Duration,
    /// Folder of what must last: the node's token, and its blocks.
    pub state_dir: PathBuf,
    /// Folder of things that need not last.
    pub cache_dir: PathBuf,
}

impl Settings {
    /// Reads the key `kubernetes` of the `ipam` section.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: one that is missing, unknown or wrong.
    pub fn read(ipam: &Object) -> Result<Self, Error> {
        let example = "{\"kubeconfig\": \"/etc/cni/net.d/ipam-delegated.kubeconfig\"}";
        let object: Object = ipam.read("ipam", "kubernetes")?.ok_or_else(|| {
            Error::config(format!(
                "{PATH} is missing: it must name a kubeconfig, such as {example}"
            ))
        })?;
        if let Some(unknown) = object.keys().find(|key| !KEYS.contains(key)) {
            let known = KEYS.join(", ");
            return Err(wrong(
                unknown,
                format_args!("it is no key of kubernetes; there are {known}"),
            ));
        }
        let folder = |key, default: &str| {
            let path = object.absolute_path(PATH, key)?;
            Ok::<_, Error>(path.unwrap_or_else(|| PathBuf::from(default)))
        };
        Ok(Self {
            kubeconfig: object.absolute_path(PATH, "kubeconfig")?.ok_or_else(|| {
                wrong(
                    "kubeconfig",
                    format_args!("it is missing: it must be the path of a file, such as {example}"),
                )
            })?,
            timeout: timeout(&object)?,
            state_dir: folder("stateDir", STATE_DIR)?,
            cache_dir: folder("cacheDir", CACHE_DIR)?,
        })
    }
}

fn wrong(key: &str, why: impl fmt::Display) -> Error {
    Error::config(format!("{PATH}.{key}: {why}"))
}

fn timeout(object: &Object) -> Result<Duration, Error> {
    let value: Value = object.read(PATH, "timeout")?.unwrap_or(Value::Null);
    let parsed = match &value {
        Value::Null => Some(DEFAULT_TIMEOUT),
        Value::String(text) => humantime::parse_duration(text).ok(),
        Value::Number(seconds) => seconds
            .as_f64()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        _ => None,
    };
    match parsed {
        Some(time) if !time.is_zero() && time <= LONGEST_TIMEOUT => Ok(time),
        _ => Err(wrong(
            "timeout",
            format_args!("{value} is no time such as \"5s\", more than nothing and at most a day"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(kubernetes: &str) -> Result<Settings, String> {
        let ipam = format!(r#"{{"kubernetes":{kubernetes}}}"#);
        let ipam: Object = serde_json::from_str(&ipam).unwrap();
        Settings::read(&ipam).map_err(|error| {
            assert_eq!(error.code, cni::code::INVALID_CONFIG);
            error.msg
        })
    }

    #[test]
    fn a_kubeconfig_is_enough() {
        let read = settings(r#"{"kubeconfig":"/k"}"#).unwrap();
        assert_eq!(read.kubeconfig, PathBuf::from("/k"));
        assert_eq!(read.timeout, DEFAULT_TIMEOUT);
        assert_eq!(
            read.state_dir,
            PathBuf::from("/var/lib/cni/ipam-kubernetes")
        );
        assert_eq!(read.cache_dir, PathBuf::from("/run/cni/ipam-kubernetes"));
    }

    #[test]
    fn every_key_is_read() {
        let read = settings(
            r#"{"kubeconfig":"/k","timeout":"1500ms","stateDir":"/s","cacheDir":"/run/c"}"#,
        );
        let expected = Settings {
            kubeconfig: "/k".into(),
            timeout: Duration::from_millis(1500),
            state_dir: "/s".into(),
            cache_dir: "/run/c".into(),
        };
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (kubernetes, message) in [
            ("null", "ipam.kubernetes is missing"),
            ("{}", "ipam.kubernetes.kubeconfig: it is missing"),
            (
                r#"{"kubeconfig":"k"}"#,
                "ipam.kubernetes.kubeconfig: \"k\" is not an absolute path",
            ),
            (
                r#"{"kubeconfig":7}"#,
                "ipam.kubernetes.kubeconfig: invalid type: integer `7`",
            ),
            (
                r#"{"kubeconfig":"/k","server":"x"}"#,
                "ipam.kubernetes.server: it is no key of kubernetes; there are kubeconfig, ",
            ),
            (
                r#"{"kubeconfig":"/k","timeout":"2days"}"#,
                "ipam.kubernetes.timeout: \"2days\" is no time",
            ),
            (
                r#"{"kubeconfig":"/k","timeout":0}"#,
                "ipam.kubernetes.timeout: 0 is no time",
            ),
            (
                r#"{"kubeconfig":"/k","stateDir":"s"}"#,
                "ipam.kubernetes.stateDir: \"s\" is not an absolute path",
            ),
        ] {
            let msg = settings(kubernetes).unwrap_err();
            assert!(msg.starts_with(message), "{kubernetes}: {msg}");
        }
    }
}
