//! The client URL of a member.

use std::fmt;

use http::Uri;

/// The client URL of a member: `http` or `https`, a host, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: String,
    host: String,
    tls: bool,
}

impl Endpoint {
    /// Reads `http[s]://HOST[:PORT][/]`. The default port is 2379.
    ///
    /// # Errors
    ///
    /// The reason why the text can't be used. It shows no user, password, path or query.
    pub fn parse(text: &str) -> Result<Self, String> {
        let example = "it must be like https://10.0.0.1:2379";
        let shown = without_secrets(text);
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("{shown:?} is no URL ({error}); {example}"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(format!("{shown:?} is no http or https URL; {example}")),
        };
        let authority = uri
            .authority()
            .ok_or_else(|| format!("{shown:?} has no host"))?;
        if authority.as_str().contains('@') {
            return Err(format!(
                "{shown:?} holds a user; username and passwordFile are for that"
            ));
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(format!("{shown:?} has no host; {example}"));
        }
        // `port` leaves out a number that is too large.
        let has_port = authority.as_str() != authority.host();
        if has_port && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(format!("{shown:?} has no valid port; {example}"));
        }
        if uri
            .path_and_query()
            .is_some_and(|path| !matches!(path.as_str(), "/" | ""))
        {
            return Err(format!("{shown:?} has a path; {example}"));
        }
        let (scheme, host) = (if tls { "https" } else { "http" }, authority.host());
        let port = authority.port_u16().unwrap_or(2379);
        Ok(Self {
            url: format!("{scheme}://{host}:{port}"),
            host: host.trim_matches(['[', ']']).to_owned(),
            tls,
        })
    }

    /// The URL, with its port.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// True for https.
    pub fn is_tls(&self) -> bool {
        self.tls
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// The text without the parts that may contain a password: the part before the last `@`, and the
/// part after the host.
fn without_secrets(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("…@", rest),
        None => ("", rest),
    };
    let (host, path) = match rest.split_once(['/', '?', '#']) {
        Some((host, "")) => (host, ""),
        Some((host, _)) => (host, "/…"),
        None => (rest, ""),
    };
    format!("{scheme}{user}{host}{path}")
}
