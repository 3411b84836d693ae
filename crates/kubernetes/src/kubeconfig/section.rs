//! Validates and decodes the values of one part of a kubeconfig.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::EngineError;
use http::Uri;

use super::document::{Cluster, User};
use super::file::{read_file, refused};

/// A client's certificate.
pub(crate) struct Identity {
    /// The certificate with any intermediate certificates, PEM.
    pub(crate) certificate: Vec<u8>,
    /// Its key, PEM.
    pub(crate) key: Vec<u8>,
}

/// A part of a kubeconfig; its path is shown in messages.
pub(super) struct Section<'a> {
    pub(super) path: &'a Path,
    /// Its path in the kubeconfig, such as `users[0].user`.
    pub(super) prefix: String,
}

impl Section<'_> {
    pub(super) fn refused(&self, key: &str, why: impl Display) -> EngineError {
        refused(self.path, &format_args!("{}.{key}: {why}", self.prefix))
    }

    /// A file path relative to the kubeconfig's folder.
    pub(super) fn resolve(&self, file: &str) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        folder.join(file)
    }

    pub(super) fn server(&self, cluster: &Cluster) -> Result<Uri, EngineError> {
        let example = "it must be like https://10.0.0.1:6443";
        let refused = |why: &str| self.refused("server", format_args!("{why}; {example}"));
        let text = set(cluster.server.as_ref()).ok_or_else(|| refused("it is missing"))?;
        let server: Uri = text.parse().map_err(|_| refused("it is no URL"))?;
        match server.scheme_str() {
            Some("http" | "https") => {}
            _ => return Err(refused("it is no http or https URL")),
        }
        let authority = server
            .authority()
            .map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(refused("it holds a user"));
        }
        if server.host().is_none_or(str::is_empty) || server.query().is_some() {
            return Err(refused("it has no host, or a query"));
        }
        Ok(server)
    }

    /// The base64 in the kubeconfig (`…-data`), else the content of the file that it names.
    pub(super) fn content(
        &self,
        key: &str,
        data: Option<&String>,
        file: Option<&String>,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let (key, content) = if let Some(data) = set(data) {
            let data: String = data.split_ascii_whitespace().collect();
            let key = format!("{key}-data");
            match STANDARD.decode(data) {
                Ok(content) => (key, content),
                Err(_) => return Err(self.refused(&key, "it is no base64")),
            }
        } else if let Some(file) = set(file) {
            let file = self.resolve(file);
            match read_file(&file) {
                Ok(content) => (key.to_owned(), content),
                Err(error) => {
                    let why = format_args!("{}: {error}", file.display());
                    return Err(self.refused(key, why));
                }
            }
        } else {
            return Ok(None);
        };
        // An empty list of authorities would trust no server, and the error would not name the
        // reason.
        if !content.windows(11).any(|part| part == b"-----BEGIN ") {
            return Err(self.refused(&key, "it is no PEM"));
        }
        Ok(Some(content))
    }

    pub(super) fn identity(&self, user: &User) -> Result<Option<Identity>, EngineError> {
        let certificate = self.content(
            "client-certificate",
            user.client_certificate_data.as_ref(),
            user.client_certificate.as_ref(),
        )?;
        let key = self.content(
            "client-key",
            user.client_key_data.as_ref(),
            user.client_key.as_ref(),
        )?;
        let missing = |missing, other| {
            let why = format_args!("it is missing: {other} needs it");
            Err(self.refused(missing, why))
        };
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => missing("client-key", "client-certificate"),
            (None, Some(_)) => missing("client-certificate", "client-key"),
        }
    }
}

/// The value of a key. As with kubectl, an empty string counts as missing.
pub(super) fn set(value: Option<&String>) -> Option<&String> {
    value.filter(|text| !text.is_empty())
}
