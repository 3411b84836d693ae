//! How etcd is reached: a JSON file, which `ipam.etcd` names. Each call reads it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::DEFAULT_TIMEOUT;
use cni::{Error, Object};

use crate::Url;

/// The default of `prefix`.
const PREFIX: &str = "/ipam";

/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The keys of the file. The installer marks its files with `installedBy`.
const KEYS: [&str; 7] = [
    "endpoints",
    "ca",
    "cert",
    "key",
    "prefix",
    "timeout",
    "installedBy",
];

/// The content of the file, validated. The files that it names have not been read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The file, for messages.
    pub file: PathBuf,
    /// Client URLs of the members; at least one.
    pub endpoints: Vec<Url>,
    /// File of the certificate authorities, PEM.
    pub ca: Option<PathBuf>,
    /// Files of the client's certificate and of its key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Common prefix of all keys: starts with a slash and doesn't end with one.
    pub prefix: String,
    /// Time limit for all requests of a call together.
    pub timeout: Duration,
}

impl Settings {
    /// Reads the file that the key `etcd` of the `ipam` section names.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key `ipam.etcd`, or the file, its key and the reason.
    pub fn of(ipam: &Object) -> Result<Self, Error> {
        Self::read(&Self::file_of(ipam)?)
    }

    /// The file that the key `etcd` names.
    pub(crate) fn file_of(ipam: &Object) -> Result<PathBuf, Error> {
        let wanted = "it must be the absolute path of a JSON file such as /etc/cni/ipam-etcd.json, with the endpoints";
        match ipam.absolute_path("ipam", "etcd") {
            Ok(Some(path)) => Ok(path),
            Ok(None) => Err(Error::config(format!("ipam.etcd is missing: {wanted}"))),
            // The value may hold a password.
            Err(_) => Err(Error::config(format!("ipam.etcd: {wanted}"))),
        }
    }

    /// Reads this file.
    ///
    /// # Errors
    ///
    /// Code 7, naming the file, the key and the reason.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let path = file.display().to_string();
        let refused = |why: &str| Error::config(format!("{path}: {why}"));
        let content = state_files::read_regular(file, MOST_BYTES)
            .map_err(|error| refused(&error.to_string()))?;
        let object: Object = serde_json::from_slice(&content)
            .map_err(|error| refused(&format!("it is no JSON object: {error}")))?;
        object.expect_only(&path, &KEYS)?;
        let endpoints = endpoints(&path, &object)?;
        let ca = object.absolute_path(&path, "ca")?;
        let cert = object.absolute_path(&path, "cert")?;
        let key = object.absolute_path(&path, "key")?;
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(refused("cert and key must be set together")),
        };
        match endpoints.iter().find(|url| !url.is_tls()) {
            Some(plain) if ca.is_some() || identity.is_some() => {
                let plain = plain.as_str();
                let why = format!("{plain} isn't https, so ca, cert and key can't be used");
                return Err(refused(&why));
            }
            None if ca.is_none() => {
                return Err(refused(
                    "ca is missing: https needs the file of the authority that signed etcd's certificates",
                ));
            }
            _ => {}
        }
        Ok(Self {
            endpoints,
            ca,
            identity,
            prefix: prefix(&path, &object)?,
            timeout: object
                .duration(&path, "timeout")?
                .unwrap_or(DEFAULT_TIMEOUT),
            file: file.to_owned(),
        })
    }
}

fn endpoints(path: &str, object: &Object) -> Result<Vec<Url>, Error> {
    let refused = |why: &str| Error::config(format!("{path}.endpoints {why}"));
    // The message of this failure shows the value, which may hold a password.
    let texts = object.read::<Vec<String>>(path, "endpoints");
    let texts = texts.map_err(|_| refused("must be an array of URLs"))?;
    let texts = texts.unwrap_or_default();
    if texts.is_empty() {
        return Err(refused(
            "is missing or empty: it must list etcd's client URLs, such as https://10.0.0.1:2379",
        ));
    }
    let parse = |(i, text): (usize, &String)| {
        Url::parse(text).map_err(|why| Error::config(format!("{path}.endpoints[{i}]: {why}")))
    };
    texts.iter().enumerate().map(parse).collect()
}

fn prefix(path: &str, object: &Object) -> Result<String, Error> {
    let text: Option<String> = object.read(path, "prefix")?;
    let text = text.unwrap_or_else(|| PREFIX.to_owned());
    let is_valid = text.len() > 1
        && text.starts_with('/')
        && !text.ends_with('/')
        && !text.contains("//")
        && !text.chars().any(char::is_control);
    match is_valid {
        true => Ok(text),
        false => Err(Error::config(format!(
            "{path}.prefix: {text:?} must start with a slash and not end with one, as /ipam does"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(content: &str) -> Result<Settings, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("etcd.json");
        std::fs::write(&file, content).unwrap();
        let ipam = serde_json::from_value(json!({"etcd": file})).unwrap();
        Settings::of(&ipam).map_err(|error| {
            assert_eq!(error.code, cni::code::INVALID_CONFIG);
            let text = format!("{} {}", error.msg, error.details);
            text.replace(&*file.to_string_lossy(), "FILE")
        })
    }

    #[test]
    fn endpoints_are_enough() {
        let read = settings(r#"{"endpoints":["http://a","http://[fd00::1]:7/"]}"#).unwrap();
        let urls: Vec<&str> = read.endpoints.iter().map(Url::as_str).collect();
        assert_eq!(urls, ["http://a:2379", "http://[fd00::1]:7"]);
        assert_eq!(read.endpoints[1].host, "fd00::1");
        assert_eq!(read.prefix, "/ipam");
        assert_eq!(read.timeout, DEFAULT_TIMEOUT);
        assert_eq!((read.ca, read.identity), (None, None));
    }

    #[test]
    fn every_key_is_read() {
        let read = settings(
            r#"{"endpoints":["https://a:1"],"ca":"/ca","cert":"/c","key":"/k","prefix":"/a/b",
                "timeout":"1500ms","installedBy":"x"}"#,
        );
        let read = read.unwrap();
        assert_eq!(read.identity, Some(("/c".into(), "/k".into())));
        assert_eq!(
            (read.prefix.as_str(), read.timeout.as_millis()),
            ("/a/b", 1500)
        );
    }

    #[test]
    fn each_refusal_names_the_file_and_the_key() {
        for (content, message) in [
            ("", "FILE: it is no JSON object"),
            ("{}", "FILE.endpoints is missing or empty"),
            (
                r#"{"endpoints":["a:2379"]}"#,
                "FILE.endpoints[0]: it has neither http nor https",
            ),
            (
                r#"{"endpoints":["http://a:99999"]}"#,
                "FILE.endpoints[0]: it ",
            ),
            (
                r#"{"endpoints":["http://a:1/v3"]}"#,
                "FILE.endpoints[0]: it has a path",
            ),
            (r#"{"endpoints":["https://a:1"]}"#, "FILE: ca is missing"),
            (
                r#"{"endpoints":["http://a:1"],"ca":"/ca"}"#,
                "FILE: http://a:1 isn't https",
            ),
            (
                r#"{"endpoints":["http://a:1"],"key":"/k"}"#,
                "FILE: cert and key must be set",
            ),
            (
                r#"{"endpoints":["http://a:1"],"prefix":"/"}"#,
                "FILE.prefix: \"/\" must start",
            ),
            (
                r#"{"endpoints":["http://a:1"],"timeout":"0s"}"#,
                "FILE.timeout: \"0s\" is neither",
            ),
            (
                r#"{"endpoints":["http://a:1"],"user":"x"}"#,
                "FILE.user: there is no such key, only endpoints",
            ),
        ] {
            let msg = settings(content).unwrap_err();
            assert!(msg.starts_with(message), "{content}: {msg}");
        }
    }

    #[test]
    fn no_refusal_shows_a_password() {
        for content in [
            r#"{"endpoints":["http://u:SECRET@a:1"]}"#,
            r#"{"endpoints":["u:SECRET@a:1"]}"#,
            r#"{"endpoints":["http://a:1?password=SECRET"]}"#,
            r#"{"endpoints":["http://a b/SECRET"]}"#,
            r#"{"endpoints":"http://u:SECRET@a:1"}"#,
        ] {
            let msg = settings(content).unwrap_err();
            assert!(!msg.contains("SECRET"), "{content}: {msg}");
        }
        let ipam = json!({"etcd": {"endpoints": ["http://u:SECRET@a:1"]}});
        let refused = Settings::of(&serde_json::from_value(ipam).unwrap()).unwrap_err();
        assert!(!refused.to_string().contains("SECRET"), "{refused}");
    }
}
