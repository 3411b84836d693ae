use std::path::PathBuf;
use std::time::Duration;

use cni::{DelegateName, Environment, Error, NetworkConfig, Object};
use serde::Deserialize;

use crate::record::{STATE_DIR, state_dir};

/// The settings of a chain, from the `ipam` section.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `ipam.delegates`, in the order in which they run.
    pub(crate) delegates: Vec<DelegateName>,
    /// `ipam.delegateTimeout`: the longest that a delegate may take.
    pub(crate) timeout: Option<Duration>,
    /// `ipam.result`: the answer to ADD.
    pub(crate) answer: AnswerMode,
    /// `ipam.stateDir`: the folder of the records.
    pub(crate) state_dir: PathBuf,
}

/// The value of `ipam.result`: the chain's answer to ADD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AnswerMode {
    /// The last delegate's output, as it came.
    #[default]
    Last,
    /// All delegates' results, merged.
    Merge,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// Code 7 for a wrong one, with the key and the value; code 4 for a wrong variable.
    pub(crate) fn read(config: &NetworkConfig, environment: &Environment) -> Result<Self, Error> {
        let ipam = config.ipam()?;
        Ok(Self {
            delegates: delegates(&ipam)?,
            timeout: ipam.duration("ipam", "delegateTimeout")?,
            answer: ipam.read("ipam", "result")?.unwrap_or_default(),
            state_dir: state_dir(&ipam, environment)?,
        })
    }

    /// Reads the settings for DEL and GC. A wrong one is logged and counts as missing, since the
    /// record of an attachment has its own.
    ///
    /// # Errors
    ///
    /// Code 7 or 4 if neither delegates nor the folder of the records is known: then nobody knows
    /// what to release.
    pub(crate) fn to_release(
        config: &NetworkConfig,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let ipam = usable(config.ipam());
        let delegates = usable(delegates(&ipam));
        let state_dir = state_dir(&ipam, environment).or_else(|error| {
            if delegates.is_empty() {
                return Err(error);
            }
            warn_of_setting(&error);
            Ok(STATE_DIR.into())
        })?;
        Ok(Self {
            delegates,
            timeout: timeout_to_release(&ipam),
            answer: AnswerMode::Last,
            state_dir,
        })
    }
}

/// `delegateTimeout` for DEL and GC.
pub(crate) fn timeout_to_release(ipam: &Object) -> Option<Duration> {
    usable(ipam.duration("ipam", "delegateTimeout"))
}

/// The value of a setting of DEL and GC; if it is wrong, that of a missing one.
fn usable<T: Default>(setting: Result<T, Error>) -> T {
    setting.unwrap_or_else(|error| {
        warn_of_setting(&error);
        T::default()
    })
}

fn warn_of_setting(error: &Error) {
    tracing::warn!(%error, "ignored on DEL and GC, which go by the records");
}

fn delegates(ipam: &Object) -> Result<Vec<DelegateName>, Error> {
    let names: Vec<DelegateName> = ipam.read("ipam", "delegates")?.ok_or_else(|| {
        Error::config("ipam.delegates is missing: it must list the names of the delegates")
    })?;
    if names.is_empty() {
        return Err(Error::config(
            "ipam.delegates is []: it must list at least one delegate",
        ));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ipam: &str) -> Result<Settings, Error> {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"n"{ipam}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        Settings::read(&config, &Environment::default())
    }

    #[test]
    fn delegates_are_names_in_order() {
        let settings =
            read(r#","ipam":{"delegates":["ipam-ds-ranges","host-local","ipam-ds-ranges"]}"#)
                .unwrap();
        let names: Vec<&str> = settings
            .delegates
            .iter()
            .map(DelegateName::as_str)
            .collect();
        assert_eq!(names, ["ipam-ds-ranges", "host-local", "ipam-ds-ranges"]);
        assert_eq!(settings.timeout, None);
        assert_eq!(settings.answer, AnswerMode::Last);
        assert_eq!(settings.state_dir, PathBuf::from(STATE_DIR));
    }

    #[test]
    fn each_refusal_is_code_7_and_names_the_key_and_the_value() {
        for (ipam, msg) in [
            ("", "ipam is missing"),
            (
                r#","ipam":[]"#,
                "ipam: invalid type: sequence, expected an object",
            ),
            (
                r#","ipam":{}"#,
                "ipam.delegates is missing: it must list the names of the delegates",
            ),
            (
                r#","ipam":{"delegates":"host-local"}"#,
                "ipam.delegates: invalid type: string \"host-local\", expected a sequence",
            ),
            (
                r#","ipam":{"delegates":[]}"#,
                "ipam.delegates is []: it must list at least one delegate",
            ),
            (
                r#","ipam":{"delegates":["a",7]}"#,
                "ipam.delegates[1]: invalid type: integer `7`, expected a string",
            ),
            (
                r#","ipam":{"delegates":["a",""]}"#,
                "ipam.delegates[1]: \"\" is no plugin's name: a plugin's name is not empty",
            ),
            (
                r#","ipam":{"delegates":["../a"]}"#,
                "ipam.delegates[0]: \"../a\" is no plugin's name: it must be a plugin's name, not a path: \
                 delegates run from CNI_PATH only",
            ),
            (
                r#","ipam":{"delegates":["a"],"delegateTimeout":0}"#,
                "ipam.delegateTimeout: 0 is neither a number of seconds nor a text such as \"30s\", \
                 of a millisecond to a day",
            ),
            (
                r#","ipam":{"delegates":["a"],"stateDir":"state"}"#,
                "ipam.stateDir: \"state\" is not an absolute path",
            ),
            (
                r#","ipam":{"delegates":["a"],"result":"first"}"#,
                "ipam.result: unknown variant `first`, expected `last` or `merge`",
            ),
            (
                r#","ipam":{"delegates":["a"],"stateDir":7}"#,
                "ipam.stateDir: invalid type: integer `7`, expected a string",
            ),
        ] {
            let error = read(ipam).unwrap_err();
            assert_eq!((error.code, &*error.msg), (cni::code::INVALID_CONFIG, msg));
        }
    }
}
