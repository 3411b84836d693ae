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
