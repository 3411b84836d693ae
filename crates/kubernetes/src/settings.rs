//! `ipam.kubernetes`: the kubeconfig, folders, the time limit.

use std::path::PathBuf;
use std::time::Duration;

use cluster::{DEFAULT_TIMEOUT, EngineSettings};
use cni::{Error, Object};

const KEYS: [&str; 4] = ["kubeconfig", "timeout", "cacheDir", "stateDir"];

/// `ipam.kubernetes`, validated. The kubeconfig has not been read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// File with the API server's URL and the node's credentials.
    pub kubeconfig: PathBuf,
    /// Time limit for all requests of a call together.
    pub timeout: Duration,
    /// Folder of files that must persist: the node's token, and its blocks.
    pub state_dir: PathBuf,
    /// Folder of files that may be lost.
    pub cache_dir: PathBuf,
}

impl Settings {
    /// The settings of a machine that is no node. They have no folders.
    pub fn of_kubeconfig(kubeconfig: PathBuf) -> Self {
        Self {
            kubeconfig,
            timeout: DEFAULT_TIMEOUT,
            state_dir: PathBuf::new(),
            cache_dir: PathBuf::new(),
        }
    }

    /// Reads the key `kubernetes` of the `ipam` section.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: a key is missing, unknown or invalid.
    pub fn read(ipam: &Object) -> Result<Self, Error> {
        let example = "{\"kubeconfig\": \"/etc/cni/net.d/ipam-delegated.kubeconfig\"}";
        let purpose = format!("it must name a kubeconfig, such as {example}");
        let settings = EngineSettings::read(ipam, "kubernetes", &purpose, &KEYS)?;
        let kubeconfig = settings
            .object
            .absolute_path(&settings.path(), "kubeconfig")?;
        Ok(Self {
            kubeconfig: kubeconfig.ok_or_else(|| {
                let why =
                    format!("it is missing: it must be the path of a file, such as {example}");
                settings.wrong("kubeconfig", why)
            })?,
            timeout: settings.timeout()?,
            state_dir: settings.state_dir()?,
            cache_dir: settings.cache_dir()?,
        })
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
                "ipam.kubernetes.server: there is no such key; kubernetes has kubeconfig, ",
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
