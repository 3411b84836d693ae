use http::Uri;

/// The client URL of a member: `http` or `https`, a host, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    text: String,
    /// The host, without brackets.
    pub(crate) host: String,
}

impl Url {
    /// Reads `http[s]://HOST[:PORT][/]`. The default port is 2379.
    ///
    /// # Errors
    ///
    /// The reason. It doesn't show the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused = |why: &str| Err(format!("{why}; it must be like https://10.0.0.1:2379"));
        let Ok(uri) = text.parse::<Uri>() else {
            return refused("it is no URL");
        };
        let Some(scheme @ ("http" | "https")) = uri.scheme_str() else {
            return refused("it has neither http nor https");
        };
        let Some(authority) = uri.authority().filter(|of| !of.host().is_empty()) else {
            return refused("it has no host");
        };
        if authority.as_str().contains('@') {
            return refused("it has a user");
        }
        // `port_u16` is `None` for a number that is too large.
        let has_port = authority.as_str() != authority.host();
        let port = authority.port_u16().filter(|port| *port > 0);
        if has_port && port.is_none() {
            return refused("it has no valid port");
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return refused("it has a path");
        }
        Ok(Self {
            text: format!("{scheme}://{}:{}", authority.host(), port.unwrap_or(2379)),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
        })
    }

    /// The URL, with its port.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True for https.
    pub(crate) fn is_tls(&self) -> bool {
        self.text.starts_with("https:")
    }
}
