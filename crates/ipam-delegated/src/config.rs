//! What `ipam-delegated` reads from the `ipam` section.

use std::path::PathBuf;
use std::time::Duration;

use cni::{Call, DelegateName, Error, Object};
use serde_json::Value;

/// Where records are kept by default.
const STATE_DIR: &str = "/var/lib/cni/ipam-delegated";

/// Says another default.
const STATE_DIR_VARIABLE: &str = "IPAM_DELEGATED_STATE_DIR";

/// The orchestrator's settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `ipam.delegates`: the chain, in the order in which it runs.
    pub(crate) delegates: Vec<DelegateName>,
    /// `ipam.delegateTimeout`: how long a delegate may take.
    pub(crate) timeout: Option<Duration>,
    /// `ipam.result`: what the answer to ADD is.
    pub(crate) answer: AnswerIs,
    /// Whether a delegate that is in our own file need not be executed: unless
    /// `ipam.execute` says so, or there is a time after which it is to be ended.
    pub(crate) call_directly: bool,
    /// `ipam.stateDir`: where records are kept.
    pub(crate) state_dir: PathBuf,
}

/// `ipam.result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerIs {
    /// What the last delegate has printed, as it came.
    Last,
    /// What all delegates have printed, joined.
    Merged,
}

impl Settings {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub(crate) fn read(call: &Call<'_>) -> Result<Self, Error> {
        let ipam = call.config.ipam()?;
        let timeout = timeout(&ipam)?;
        Ok(Self {
            delegates: delegates(&ipam)?,
            timeout,
            call_directly: !always_execute(&ipam)? && timeout.is_none(),
            answer: answer(&ipam)?,
            state_dir: state_dir(call, &ipam)?,
        })
    }
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
        Value::Number(seconds) => seconds
            .as_f64()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        Value::String(text) => humantime::parse_duration(text).ok(),
        _ => None,
    };
    match timeout {
        Some(timeout) if !timeout.is_zero() => Ok(Some(timeout)),
        _ => Err(Error::config(format!(
            "ipam.delegateTimeout: {value} is neither a number of seconds nor a text such as \"30s\""
        ))),
    }
}

fn answer(ipam: &Object) -> Result<AnswerIs, Error> {
    match ipam.read::<String>("ipam", "result")?.as_deref() {
        None | Some("last") => Ok(AnswerIs::Last),
        Some("merge") => Ok(AnswerIs::Merged),
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

fn state_dir(call: &Call<'_>, ipam: &Object) -> Result<PathBuf, Error> {
    let configured: Option<String> = ipam.read("ipam", "stateDir")?;
    Ok(configured
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(|| call.variable(STATE_DIR_VARIABLE).map(PathBuf::from))
        .unwrap_or_else(|| STATE_DIR.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::{NetworkConfig, TraceContext};

    fn read(ipam: &str) -> Result<Settings, Error> {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"n"{ipam}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let none = |_: &str| None;
        Settings::read(&Call::new(config, TraceContext::of_call(&none), &none))
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
        assert_eq!(settings.answer, AnswerIs::Last);
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
    fn delegates_are_called_directly_unless_they_are_to_be_executed_or_ended() {
        for (more, directly) in [
            ("", true),
            (r#","execute":"always""#, false),
            (r#","execute":null"#, true),
            (r#","delegateTimeout":1"#, false),
        ] {
            let ipam = format!(r#","ipam":{{"delegates":["a"]{more}}}"#);
            assert_eq!(read(&ipam).unwrap().call_directly, directly, "{more}");
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
