//! `ipam.etcd`: endpoints, certificates, user, the prefix of the keys, folders, the time limit.

use std::path::PathBuf;
use std::time::Duration;

use cluster::EngineSettings;
use cni::{Error, Object};

use crate::Endpoint;

/// Default of `prefix`.
const PREFIX: &str = "/ipam";

/// The path of the object in messages.
const PATH: &str = "ipam.etcd";

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

/// `ipam.etcd`, validated. The files that it names have not been read yet.
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
    /// Common prefix of all keys: starts with a slash and doesn't end with one.
    pub prefix: String,
    /// Time limit for all requests of a call together.
    pub timeout: Duration,
    /// Folder of the token and of other files that may be lost.
    pub cache_dir: PathBuf,
    /// Folder of files that must persist: the node's token, and its blocks.
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
    /// Code 7, naming the key and the value: a key is missing, unknown or invalid, or two keys
    /// contradict or need each other.
    pub fn read(ipam: &Object) -> Result<Self, Error> {
        let purpose = r#"it must have endpoints, such as {"endpoints": ["https://10.0.0.1:2379"]}"#;
        let settings = EngineSettings::read(ipam, "etcd", purpose, &KEYS)?;
        let object = &settings.object;
        let endpoints = endpoints(object)?;
        let ca = file(&settings, "ca")?;
        let cert = file(&settings, "cert")?;
        let key = file(&settings, "key")?;
        let identity = both(("cert", cert), ("key", key))?;
        if let Some(plain) = endpoints.iter().find(|endpoint| !endpoint.is_tls()) {
            let tls_key = [("ca", ca.is_some()), ("cert", identity.is_some())];
            if let Some((key, _)) = tls_key.iter().find(|(_, is_set)| *is_set) {
                let why = format!("{plain} isn't https, so it can't be used");
                return Err(settings.wrong(key, why));
            }
        } else if ca.is_none() {
            return Err(Error::config(format!(
                "{PATH}.ca is missing: https needs the file of the authority that signed etcd's certificates"
            )));
        }
        let username: Option<String> = object.read(PATH, "username")?;
        let username = username.filter(|name| !name.is_empty());
        let password_file = file(&settings, "passwordFile")?;
        let login = both(("username", username), ("passwordFile", password_file))?;
        Ok(Self {
            endpoints,
            ca,
            identity,
            login: login.map(|(username, password_file)| Login {
                username,
                password_file,
            }),
            prefix: prefix(&settings)?,
            timeout: settings.timeout()?,
            cache_dir: settings.cache_dir()?,
            state_dir: settings.state_dir()?,
        })
    }
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
        // A duplicate would be tried twice.
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    Ok(endpoints)
}

/// The path of a file with a secret. Messages don't show the value: somebody may have written the
/// secret itself there.
fn file(settings: &EngineSettings, key: &str) -> Result<Option<PathBuf>, Error> {
    let path = settings.object.absolute_path(PATH, key);
    path.map_err(|_| {
        let why = "it must be the absolute path of a file; the value isn't shown, since it may be a secret";
        settings.wrong(key, why)
    })
}

/// Two keys that must be set together.
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

fn prefix(settings: &EngineSettings) -> Result<String, Error> {
    let text: Option<String> = settings.object.read(PATH, "prefix")?;
    let text = text.unwrap_or_else(|| PREFIX.to_owned());
    let is_valid = text.len() > 1
        && text.starts_with('/')
        && !text.ends_with('/')
        && !text.contains("//")
        && !text.chars().any(char::is_control);
    if is_valid {
        Ok(text)
    } else {
        let why = format!("{text:?} must start with a slash and not end with one, as /ipam does");
        Err(settings.wrong("prefix", why))
    }
}

#[cfg(test)]
mod tests {
    use cluster::DEFAULT_TIMEOUT;

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
                "ipam.etcd.ca: http://a:1 isn't https, so it can't",
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
                "ipam.etcd.password: there is no such key",
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
