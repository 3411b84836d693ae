//! The settings that all engines have: keys of `ipam.<engine>`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use cni::{Error, Object};
use serde_json::Value;

/// Default of `timeout`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest `timeout`.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The object `ipam.<engine>`.
#[derive(Debug)]
pub struct EngineSettings {
    engine: &'static str,
    /// The object.
    pub object: Object,
}

impl EngineSettings {
    /// Reads the engine's key of the `ipam` section. `purpose` says why the object is needed;
    /// `keys` are its possible keys.
    ///
    /// # Errors
    ///
    /// Code 7: the object is missing, or has an unknown key.
    pub fn read(
        ipam: &Object,
        engine: &'static str,
        purpose: &str,
        keys: &[&str],
    ) -> Result<Self, Error> {
        let object: Object = ipam
            .read("ipam", engine)?
            .ok_or_else(|| Error::config(format!("ipam.{engine} is missing: {purpose}")))?;
        let settings = Self { engine, object };
        let unknown = settings.object.keys().find(|name| !keys.contains(name));
        if let Some(unknown) = unknown {
            let why = format!("there is no such key; {engine} has {}", keys.join(", "));
            return Err(settings.wrong(unknown, why));
        }
        Ok(settings)
    }

    /// The path of the object in messages: `ipam.etcd`.
    pub fn path(&self) -> String {
        format!("ipam.{}", self.engine)
    }

    /// Code 7 with this reason, naming the key.
    pub fn wrong(&self, key: &str, why: impl fmt::Display) -> Error {
        Error::config(format!("ipam.{}.{key}: {why}", self.engine))
    }

    /// `timeout`: the time limit for all requests of a call together. A text such as `5s`, or a
    /// number of seconds.
    ///
    /// # Errors
    ///
    /// Code 7, with the value.
    pub fn timeout(&self) -> Result<Duration, Error> {
        let value: Value = self
            .object
            .read(&self.path(), "timeout")?
            .unwrap_or(Value::Null);
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
            _ => Err(self.wrong(
                "timeout",
                format_args!(
                    "{value} is no time such as \"5s\"; it must be more than 0 and at most a day"
                ),
            )),
        }
    }

    /// `cacheDir`: the folder of files that may be lost. The default is in memory, so a boot
    /// empties it.
    ///
    /// # Errors
    ///
    /// Code 7 if it isn't an absolute path.
    pub fn cache_dir(&self) -> Result<PathBuf, Error> {
        self.folder("cacheDir", "/run/cni/ipam-")
    }

    /// `stateDir`: the folder of files that must persist, such as the node's token and its blocks.
    ///
    /// # Errors
    ///
    /// Code 7 if it isn't an absolute path.
    pub fn state_dir(&self) -> Result<PathBuf, Error> {
        self.folder("stateDir", "/var/lib/cni/ipam-")
    }

    fn folder(&self, key: &str, default: &str) -> Result<PathBuf, Error> {
        let path = self.object.absolute_path(&self.path(), key)?;
        Ok(path.unwrap_or_else(|| format!("{default}{}", self.engine).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> Result<EngineSettings, Error> {
        let ipam: Object = serde_json::from_str(json).unwrap();
        let keys = ["timeout", "cacheDir", "stateDir"];
        EngineSettings::read(&ipam, "etcd", "it gives addresses", &keys)
    }

    fn timeout(value: &str) -> Result<Duration, Error> {
        settings(&format!(r#"{{"etcd":{{"timeout":{value}}}}}"#))?.timeout()
    }

    #[test]
    fn a_timeout_is_a_text_or_a_number_of_seconds_up_to_a_day() {
        let none = settings(r#"{"etcd":{}}"#).unwrap().timeout();
        assert_eq!(none.unwrap(), DEFAULT_TIMEOUT);
        for (value, millis) in [
            ("null", 5_000),
            (r#""30s""#, 30_000),
            (r#""1ms""#, 1),
            (r#""24h""#, 86_400_000),
            ("2", 2_000),
            ("0.5", 500),
            ("86400", 86_400_000),
        ] {
            let parsed = timeout(value).unwrap();
            assert_eq!(parsed, Duration::from_millis(millis), "{value}");
        }
        for value in [
            "0",
            r#""0s""#,
            "-1",
            "86401",
            r#""25h""#,
            r#""soon""#,
            "1e+300",
            "true",
            "[]",
        ] {
            let refused = timeout(value).unwrap_err();
            let start = format!("ipam.etcd.timeout: {value} is no time such as \"5s\"");
            assert!(refused.msg.starts_with(&start), "{refused}");
        }
    }

    #[test]
    fn folders_are_absolute_and_each_engine_has_its_own() {
        let defaults = settings(r#"{"etcd":{}}"#).unwrap();
        assert_eq!(
            defaults.cache_dir().unwrap(),
            PathBuf::from("/run/cni/ipam-etcd")
        );
        assert_eq!(
            defaults.state_dir().unwrap(),
            PathBuf::from("/var/lib/cni/ipam-etcd")
        );
        let own = settings(r#"{"etcd":{"cacheDir":"/a","stateDir":"b"}}"#).unwrap();
        assert_eq!(own.cache_dir().unwrap(), PathBuf::from("/a"));
        let refused = own.state_dir().unwrap_err();
        assert!(refused.msg.starts_with("ipam.etcd.stateDir: "), "{refused}");
    }

    #[test]
    fn a_missing_object_and_an_unknown_key_are_refused() {
        let missing = settings("{}").unwrap_err();
        assert_eq!(missing.msg, "ipam.etcd is missing: it gives addresses");
        let unknown = settings(r#"{"etcd":{"timeout":1,"time":1}}"#).unwrap_err();
        let why = "ipam.etcd.time: there is no such key; etcd has timeout, cacheDir, stateDir";
        assert_eq!(unknown.msg, why);
    }
}
