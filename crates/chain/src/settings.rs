//! The settings of a chain, from the `ipam` section.

use std::path::PathBuf;
use std::time::Duration;

use cni::{DelegateName, Environment, Error, NetworkConfig, Object};
use serde_json::Value;

/// The default folder of the records.
const STATE_DIR: &str = "/var/lib/cni/ipam-delegated";

/// Variable that names another default folder of the records.
const STATE_DIR_VARIABLE: &str = "IPAM_DELEGATED_STATE_DIR";

/// The largest `delegateTimeout`. Nobody waits longer, and a clock can't be set beyond
/// its end.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of a chain.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `ipam.delegates`, in the order in which they run.
    pub(crate) delegates: Vec<DelegateName>,
    /// `ipam.delegateTimeout`: the longest that a delegate may take.
    pub(crate) timeout: Option<Duration>,
    /// `ipam.result`: the answer to ADD.
    pub(crate) answer: AnswerMode,
    /// True if linked plugins are called without executing a file: unless
    /// `ipam.execute` forbids it, or `delegateTimeout` requires a process to terminate.
    pub(crate) calls_linked_plugins: bool,
    /// `ipam.stateDir`: the folder of the records.
    pub(crate) state_dir: PathBuf,
}

/// `ipam.result`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AnswerMode {
    /// The last delegate's output, as it came.
    #[default]
    Last,
    /// All delegates' results, merged.
    Merged,
}

impl Settings {
    /// Reads the settings. A wrong one counts as missing if `on_error` returns no error.
    ///
    /// # Errors
    ///
    /// Those of `on_error`, which gets code 7 with the key and the value.
    pub(crate) fn read(
        config: &NetworkConfig,
        environment: &Environment,
        on_error: OnError<'_>,
    ) -> Result<Self, Error> {
        let ipam = or_default(config.ipam(), on_error)?;
        let timeout = or_default(timeout(&ipam), on_error)?;
        let is_executed = or_default(always_execute(&ipam), on_error)?;
        let state_dir = state_dir(environment, &ipam).map(Some);
        Ok(Self {
            delegates: or_default(delegates(&ipam), on_error)?,
            timeout,
            calls_linked_plugins: !is_executed && timeout.is_none(),
            answer: or_default(answer(&ipam), on_error)?,
            state_dir: or_default(state_dir, on_error)?.unwrap_or_else(|| STATE_DIR.into()),
        })
    }

    /// The settings of one plugin that is executed, without records.
    pub(crate) fn of_one(plugin: DelegateName) -> Self {
        Self {
            delegates: vec![plugin],
            timeout: None,
            answer: AnswerMode::Last,
            calls_linked_plugins: false,
            state_dir: STATE_DIR.into(),
        }
    }
}

/// Decides whether a wrong setting is refused.
pub(crate) type OnError<'a> = &'a dyn Fn(Error) -> Result<(), Error>;

/// The value, or its default if it is wrong and not refused.
fn or_default<T: Default>(value: Result<T, Error>, on_error: OnError<'_>) -> Result<T, Error> {
    value.or_else(|error| on_error(error).map(|()| T::default()))
}

fn delegates(ipam: &Object) -> Result<Vec<DelegateName>, Error> {
    let names: Vec<String> = ipam.read("ipam", "delegates")?.ok_or_else(|| {
        Error::config("ipam.delegates is missing: it must list the names of the delegates")
    })?;
    if names.is_empty() {
        return Err(Error::config(
            "ipam.delegates is []: it must list at least one delegate",
        ));
    }
    names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            name.parse()
                .map_err(|e| Error::config(format!("ipam.delegates[{i}]: {name:?}: {e}")))
        })
        .collect()
}

/// A number of seconds, or a text such as `30s`.
fn timeout(ipam: &Object) -> Result<Option<Duration>, Error> {
    let Some(value) = ipam.read::<Value>("ipam", "delegateTimeout")? else {
        return Ok(None);
    };
    let timeout = match &value {
        // A number that is larger than any duration is also more than a day.
        Value::Number(seconds) => seconds.as_f64().and_then(|seconds| {
            Duration::try_from_secs_f64(seconds.min(2.0 * LONGEST_TIMEOUT.as_secs_f64())).ok()
        }),
        Value::String(text) => humantime::parse_duration(text).ok(),
        _ => None,
    };
    match timeout.filter(|timeout| !timeout.is_zero()) {
        Some(timeout) if timeout <= LONGEST_TIMEOUT => Ok(Some(timeout)),
        Some(_) => Err(Error::config(format!(
            "ipam.delegateTimeout: {value} is more than a day"
        ))),
        None => Err(Error::config(format!(
            "ipam.delegateTimeout: {value} is neither a number of seconds nor a text such as \"30s\""
        ))),
    }
}

fn answer(ipam: &Object) -> Result<AnswerMode, Error> {
    match ipam.read::<String>("ipam", "result")?.as_deref() {
        None | Some("last") => Ok(AnswerMode::Last),
        Some("merge") => Ok(AnswerMode::Merged),
        Some(other) => Err(Error::config(format!(
            "ipam.result: {other:?} is neither \"last\" nor \"merge\""
        ))),
    }
}

fn always_execute(ipam: &Object) -> Result<bool, Error> {
    match ipam.read::<String>("ipam", "execute")?.as_deref() {
        None => Ok(false),
        Some("always") => Ok(true),
        Some(other) => Err(Error::config(format!(
            "ipam.execute: {other:?} is not \"always\""
        ))),
    }
}

/// `ipam.stateDir`, or its default.
pub(crate) fn state_dir(environment: &Environment, ipam: &Object) -> Result<PathBuf, Error> {
    if let Some(path) = ipam.absolute_path("ipam", "stateDir")? {
        return Ok(path);
    }
    match environment.get(STATE_DIR_VARIABLE).map(PathBuf::from) {
        None => Ok(STATE_DIR.into()),
        Some(path) if path.is_absolute() => Ok(path),
        Some(path) => Err(Error::environment(format!(
            "{STATE_DIR_VARIABLE}: {path:?} is not an absolute path"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ipam: &str) -> Result<Settings, Error> {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"n"{ipam}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        Settings::read(&config, &Environment::default(), &Err)
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
    fn a_timeout_is_a_number_of_seconds_or_a_text() {
        for (text, milliseconds) in [
            ("2", 2_000),
            ("0.5", 500),
            (r#""30s""#, 30_000),
            (r#""1m 30s""#, 90_000),
            (r#""250ms""#, 250),
        ] {
            let ipam = format!(r#","ipam":{{"delegates":["a"],"delegateTimeout":{text}}}"#);
            let timeout = read(&ipam).unwrap().timeout;
            assert_eq!(timeout, Some(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn linked_plugins_are_called_unless_a_process_is_needed() {
        for (more, directly) in [
            ("", true),
            (r#","execute":"always""#, false),
            (r#","execute":null"#, true),
            (r#","delegateTimeout":1"#, false),
        ] {
            let ipam = format!(r#","ipam":{{"delegates":["a"]{more}}}"#);
            assert_eq!(
                read(&ipam).unwrap().calls_linked_plugins,
                directly,
                "{more}"
            );
        }
    }

    #[test]
    fn each_refusal_is_code_7_and_names_the_key_and_the_value() {
        let timeout = |value: &str| {
            format!(
                "ipam.delegateTimeout: {value} is neither a number of seconds nor a text such as \"30s\""
            )
        };
        for (ipam, msg) in [
            ("", "ipam is missing".to_owned()),
            (
                r#","ipam":[]"#,
                "ipam: invalid type: sequence, expected an object".to_owned(),
            ),
            (
                r#","ipam":{}"#,
                "ipam.delegates is missing: it must list the names of the delegates".to_owned(),
            ),
            (
                r#","ipam":{"delegates":"host-local"}"#,
                "ipam.delegates: invalid type: string \"host-local\", expected a sequence"
                    .to_owned(),
            ),
            (
                r#","ipam":{"delegates":[]}"#,
                "ipam.delegates is []: it must list at least one delegate".to_owned(),
            ),
            (
                r#","ipam":{"delegates":["a",7]}"#,
                "ipam.delegates[1]: invalid type: integer `7`, expected a string".to_owned(),
            ),
            (
                r#","ipam":{"delegates":["a",""]}"#,
                "ipam.delegates[1]: \"\": a plugin's name is not empty".to_owned(),
            ),
            (
                r#","ipam":{"delegates":["../a"]}"#,
                "ipam.delegates[0]: \"../a\": it must be a plugin's name, not a path: \
                 delegates run from CNI_PATH only"
                    .to_owned(),
            ),
            (
                r#","ipam":{"delegates":["a"],"delegateTimeout":"soon"}"#,
                timeout("\"soon\""),
            ),
            (
                r#","ipam":{"delegates":["a"],"delegateTimeout":"30"}"#,
                timeout("\"30\""),
            ),
            (
                r#","ipam":{"delegates":["a"],"delegateTimeout":0}"#,
                timeout("0"),
            ),
            (
                r#","ipam":{"delegates":["a"],"delegateTimeout":-1}"#,
                timeout("-1"),
            ),
            (
                r#","ipam":{"delegates":["a"],"delegateTimeout":[1]}"#,
                timeout("[1]"),
            ),
            (
                r#","ipam":{"delegates":["a"],"delegateTimeout":1e19}"#,
                "ipam.delegateTimeout: 1e+19 is more than a day".to_owned(),
            ),
            (
                r#","ipam":{"delegates":["a"],"delegateTimeout":"5000000y"}"#,
                "ipam.delegateTimeout: \"5000000y\" is more than a day".to_owned(),
            ),
            (
                r#","ipam":{"delegates":["a"],"stateDir":"state"}"#,
                "ipam.stateDir: \"state\" is not an absolute path".to_owned(),
            ),
            (
                r#","ipam":{"delegates":["a"],"result":"first"}"#,
                "ipam.result: \"first\" is neither \"last\" nor \"merge\"".to_owned(),
            ),
            (
                r#","ipam":{"delegates":["a"],"execute":"never"}"#,
                "ipam.execute: \"never\" is not \"always\"".to_owned(),
            ),
            (
                r#","ipam":{"delegates":["a"],"stateDir":7}"#,
                "ipam.stateDir: invalid type: integer `7`, expected a string".to_owned(),
            ),
        ] {
            let error = read(ipam).unwrap_err();
            assert_eq!((error.code, error.msg), (cni::code::INVALID_CONFIG, msg));
        }
    }
}
