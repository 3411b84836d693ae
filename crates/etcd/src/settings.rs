//! `ipam.etcd`: endpoints, certificates, user, the prefix of the keys, folders, the time limit.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use cni::{Error, Object};
use serde_json::Value;

use crate::Endpoint;

/// Default of `timeout`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest `timeout`.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Default of `prefix`.
const PREFIX: &str = "/ipam";

/// Default of `cacheDir`: in memory, so that a reboot removes it.
const CACHE_DIR: &str = "/run/cni/ipam-etcd";

/// The path of the object in messages.
const PATH: &str = "ipam.etcd";

/// Default of `stateDir`.
const STATE_DIR: &str = "/var/lib/cni/ipam-etcd";

const KEYS: [&str; 10] = [
    "endpoints",
    "ca",
    "cert",
    "key",
    "username",
    "passwordFile",
    "prefix",
    "timeout",
    "cacheDir",
    "stateDir",
];

/// `ipam.etcd`, valid. Files are named, and not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Client URLs of the members; at least one.
    pub endpoints: Vec<Endpoint>,
    /// File of the certificate authorities, PEM.
    pub ca: Option<PathBuf>,
    /// Files of the client's certificate and of its key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// User and password.
    pub login: Option<Login>,
    /// First part of all keys: starts with a slash and doesn't end with one.
    pub prefix: String,
    /// Bound of time for all requests of a call together.
    pub timeout: Duration,
    /// Folder of the token and of other things that need not last.
    pub cache_dir: PathBuf,
    /// Folder of what must last: the node's token, and its blocks.
    pub state_dir: PathBuf,
}

/// An etcd user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Its name.
    pub username: String,
    /// The file with its password; white space at its end doesn't count.
    pub password_file: PathBuf,
}

impl Settings {
    /// Reads the key `etcd` of the `ipam` section.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: one that is missing, unknown or wrong, and two
    /// that don't go together.
    pub fn read(ipam: &Object) -> Result<Self, Error> {
        let object: Object = ipam.read("ipam", "etcd")?.ok_or_else(|| {
            Error::config(format!(
                "{PATH} is missing: it must have endpoints, such as {{\"endpoints\": [\"https://10.0.0.1:2379\"]}}"
            ))
        })?;
        if let Some(unknown) = object.keys().find(|key| !KEYS.contains(key)) {
            return Err(wrong(
                unknown,
                format_args!("it is no key of etcd; there are {}", KEYS.join(", ")),
            ));
        }
        let endpoints = endpoints(&object)?;
        let ca = file(&object, "ca")?;
        let cert = file(&object, "cert")?;
        let key = file(&object, "key")?;
        let identity = both(("cert", cert), ("key", key))?;
        if let Some(plain) = endpoints.iter().find(|endpoint| !endpoint.is_tls()) {
            let tls_key = [("ca", ca.is_some()), ("cert", identity.is_some())];
            if let Some((key, _)) = tls_key.iter().find(|(_, is_set)| *is_set) {
                return Err(wrong(
                    key,
                    format_args!("it is of no use to {plain}, which isn't https"),
                ));
            }
        } else if ca.is_none() {
            return Err(Error::config(format!(
                "{PATH}.ca is missing: https needs the file of the authority that signed etcd's certificates"
            )));
        }
        let username: Option<String> = object.read(PATH, "username")?;
        let username = username.filter(|name| !name.is_empty());
        let password_file = file(&object, "passwordFile")?;
        let login = both(("username", username), ("passwordFile", password_file))?;
        Ok(Self {
            endpoints,
            ca,
            identity,
            login: login.map(|(username, password_file)| Login {
                username,
                password_file,
            }),
            prefix: prefix(&object)?,
            timeout: timeout(&object)?,
            cache_dir: object
                .absolute_path(PATH, "cacheDir")?
                .unwrap_or_else(|| PathBuf::from(CACHE_DIR)),
            state_dir: object
                .absolute_path(PATH, "stateDir")?
                .unwrap_or_else(|| PathBuf::from(STATE_DIR)),
        })
    }
}

fn wrong(key: &str, why: impl fmt::Display) -> Error {
    Error::config(format!("{PATH}.{key}: {why}"))
}

fn endpoints(object: &Object) -> Result<Vec<Endpoint>, Error> {
    let texts: Vec<String> = object.read(PATH, "endpoints")?.unwrap_or_default();
    if texts.is_empty() {
        return Err(Error::config(format!(
            "{PATH}.endpoints is missing or empty: it must list etcd's client URLs, such as https://10.0.0.1:2379"
        )));
    }
    let parsed = texts.iter().enumerate().map(|(i, text)| {
        Endpoint::parse(text).map_err(|why| Error::config(format!("{PATH}.endpoints[{i}]: {why}")))
    });
    let mut endpoints = Vec::with_capacity(texts.len());
    for endpoint in parsed {
        let endpoint = endpoint?;
        // One that is written twice would be tried twice.
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    Ok(endpoints)
}

/// The path of a secret's file. Messages don't show the value: it may be the secret itself,
/// written there by mistake.
fn file(object: &Object, key: &str) -> Result<Option<PathBuf>, Error> {
    let path = object.absolute_path(PATH, key);
    path.map_err(|_| {
        wrong(
            key,
            "it must be the absolute path of a file; what it is isn't shown",
        )
    })
}

/// Two keys of which neither goes without the other.
fn both<A, B>(
    (a_key, a): (&str, Option<A>),
    (b_key, b): (&str, Option<B>),
) -> Result<Option<(A, B)>, Error> {
    let alone = |there, missing| {
        Err(Error::config(format!(
            "{PATH}.{missing} is missing: {PATH}.{there} is set, and needs it"
        )))
    };
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (Some(_), None) => alone(a_key, b_key),
        (None, Some(_)) => alone(b_key, a_key),
        (None, None) => Ok(None),
    }
}

fn prefix(object: &Object) -> Result<String, Error> {
    let text: Option<String> = object.read(PATH, "prefix")?;
    let text = text.unwrap_or_else(|| PREFIX.to_owned());
    let is_valid = text.len() > 1
        && text.starts_with('/')
        && !text.ends_with('/')
        && !text.contains("//")
        && !text.chars().any(char::is_control);
    if is_valid {
        Ok(text)
    } else {
        Err(wrong(
            "prefix",
            format_args!("{text:?} must start with a slash and not end with one, like /ipam"),
        ))
    }
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
        Some(it) if !it.is_zero() && it <= LONGEST_TIMEOUT => Ok(it),
        _ => Err(wrong(
            "timeout",
            format_args!("{value} is no time such as \"5s\", more than nothing and at most a day"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(etcd: &str) -> Result<Settings, String> {
        let ipam: Object = serde_json::from_str(&format!(r#"{{"etcd":{etcd}}}"#)).unwrap();
        Settings::read(&ipam).map_err(|error| {
            assert_eq!(error.code, cni::code::INVALID_CONFIG);
            error.msg
        })
    }

    #[test]
    fn endpoints_are_enough() {
        let read = settings(r#"{"endpoints":["http://a","http://[fd00::1]:7/","http://a:2379"]}"#);
        let read = read.unwrap();
        let urls: Vec<&str> = read.endpoints.iter().map(Endpoint::url).collect();
        assert_eq!(urls, ["http://a:2379", "http://[fd00::1]:7"]);
        assert_eq!(read.endpoints[1].host(), "fd00::1");
        assert_eq!(
            (read.prefix.as_str(), read.timeout),
            ("/ipam", DEFAULT_TIMEOUT)
        );
        assert_eq!((read.ca, read.identity, read.login), (None, None, None));
    }

    #[test]
    fn every_key_is_read() {
        let read = settings(
            r#"{"endpoints":["https://a:1"],"ca":"/ca","cert":"/c","key":"/k","username":"u",
                "passwordFile":"/p","prefix":"/a/b","timeout":"1500ms","cacheDir":"/run/x"}"#,
        );
        let read = read.unwrap();
        assert_eq!(read.identity, Some(("/c".into(), "/k".into())));
        assert_eq!(read.login.unwrap().password_file, PathBuf::from("/p"));
        assert_eq!(
            (read.prefix.as_str(), read.timeout.as_millis()),
            ("/a/b", 1500)
        );
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        let plain = r#""endpoints":["http://a:1"]"#;
        let tls = r#""endpoints":["https://a:1"],"ca":"/ca""#;
        for (etcd, message) in [
            ("null".to_owned(), "ipam.etcd is missing"),
            ("{}".to_owned(), "ipam.etcd.endpoints is missing or empty"),
            (
                r#"{"endpoints":[]}"#.to_owned(),
                "ipam.etcd.endpoints is missing or empty",
            ),
            (
                r#"{"endpoints":"http://a"}"#.to_owned(),
                "ipam.etcd.endpoints: invalid type",
            ),
            (
                r#"{"endpoints":["http://a",7]}"#.to_owned(),
                "ipam.etcd.endpoints[1]: invalid type: integer `7`",
            ),
            (
                r#"{"endpoints":["10.0.0.1:2379"]}"#.to_owned(),
                "ipam.etcd.endpoints[0]: \"10.0.0.1:2379\" is no http or https URL",
            ),
            (
                r#"{"endpoints":["unix:///x"]}"#.to_owned(),
                "ipam.etcd.endpoints[0]: \"unix:///…\" is no",
            ),
            (
                r#"{"endpoints":["http://a b"]}"#.to_owned(),
                "ipam.etcd.endpoints[0]: \"http://a b\" is no URL",
            ),
            (
                r#"{"endpoints":["http://a:99999"]}"#.to_owned(),
                "ipam.etcd.endpoints[0]: \"http://a:99999\"",
            ),
            (
                r#"{"endpoints":["http://u:p@a:1"]}"#.to_owned(),
                "ipam.etcd.endpoints[0]: \"http://…@a:1\" holds a user",
            ),
            (
                r#"{"endpoints":["http://a:1/v3"]}"#.to_owned(),
                "ipam.etcd.endpoints[0]: \"http://a:1/…\" has a path",
            ),
            (
                r#"{"endpoints":["https://a:1"]}"#.to_owned(),
                "ipam.etcd.ca is missing",
            ),
            (
                format!(r#"{{{plain},"ca":"/ca"}}"#),
                "ipam.etcd.ca: it is of no use to http://a:1",
            ),
            (
                format!(r#"{{{tls},"cert":"/c"}}"#),
                "ipam.etcd.key is missing: ipam.etcd.cert is set",
            ),
            (
                format!(r#"{{{tls},"key":"k","cert":"/c"}}"#),
                "ipam.etcd.key: it must be the absolute path",
            ),
            (
                format!(r#"{{{plain},"username":"u"}}"#),
                "ipam.etcd.passwordFile is missing",
            ),
            (
                format!(r#"{{{plain},"passwordFile":"/p"}}"#),
                "ipam.etcd.username is missing",
            ),
            (
                format!(r#"{{{plain},"password":"x"}}"#),
                "ipam.etcd.password: it is no key of etcd",
            ),
            (
                format!(r#"{{{plain},"prefix":"ipam"}}"#),
                "ipam.etcd.prefix: \"ipam\" must start",
            ),
            (
                format!(r#"{{{plain},"prefix":"/"}}"#),
                "ipam.etcd.prefix: \"/\" must start",
            ),
            (
                format!(r#"{{{plain},"timeout":"soon"}}"#),
                "ipam.etcd.timeout: \"soon\" is no time",
            ),
            (
                format!(r#"{{{plain},"timeout":0}}"#),
                "ipam.etcd.timeout: 0 is no time",
            ),
            (
                format!(r#"{{{plain},"timeout":"2days"}}"#),
                "ipam.etcd.timeout: \"2days\" is no time",
            ),
        ] {
            let msg = settings(&etcd).unwrap_err();
            assert!(msg.starts_with(message), "{etcd}: {msg}");
        }
    }

    #[test]
    fn no_refusal_shows_a_password() {
        let plain = r#""endpoints":["http://a:1"]"#;
        for etcd in [
            r#"{"endpoints":["http://u:SECRET@a:1"]}"#,
            r#"{"endpoints":["http://u:SEC@RET@a:1"]}"#,
            r#"{"endpoints":["http://u:SECRET/x@a:1"]}"#,
            r#"{"endpoints":["http://u:SECRET x@a:1"]}"#,
            r#"{"endpoints":["u:SECRET@a:1"]}"#,
            r#"{"endpoints":["http://a:1?password=SECRET"]}"#,
            r#"{"endpoints":["http://a:1/SECRET"]}"#,
            r#"{"endpoints":"http://u:SECRET@a:1"}"#,
            r#"{"endpoints":{"http://u:SECRET@a:1":1}}"#,
            r#"["http://u:SECRET@a:1"]"#,
            &format!(r#"{{{plain},"username":"u","passwordFile":"SECRET"}}"#),
            &format!(r#"{{{plain},"username":"u","passwordFile":["SECRET"]}}"#),
            &format!(r#"{{{plain},"username":"u","password":"SECRET"}}"#),
            &format!(r#"{{{plain},"cert":"/c","key":"-----BEGIN KEY-----SECRET"}}"#),
        ] {
            let ipam: Object = serde_json::from_str(&format!(r#"{{"etcd":{etcd}}}"#)).unwrap();
            let error = Settings::read(&ipam).unwrap_err();
            for half in ["SEC", "RET"] {
                assert!(!error.msg.contains(half), "{etcd}: {error:?}");
                assert!(!error.details.contains(half), "{etcd}: {error:?}");
            }
        }
    }
}
