//! The kubeconfig: the API server, its authorities, the node's credentials.
//!
//! Keys mean what they mean to kubectl (client-go's `tools/clientcmd`). What isn't supported is
//! refused by name.

mod document;

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{EngineError, Kind};
use http::Uri;

use document::{Cluster, Document, User};

/// A kubeconfig's current context. The files that it names have been read, except for the
/// token's.
pub(crate) struct Kubeconfig {
    /// Path of the kubeconfig.
    pub(crate) path: PathBuf,
    /// URL of the API server: `http` or `https`, a host, perhaps a port and a path.
    pub(crate) server: Uri,
    /// The API server's authorities, PEM; `None` if its certificate isn't verified.
    pub(crate) authorities: Option<Vec<u8>>,
    /// Name in the API server's certificate, if it isn't the URL's host.
    pub(crate) server_name: Option<String>,
    /// The client's certificate.
    pub(crate) identity: Option<Identity>,
    /// The bearer token, if there is no file or the file can't be read.
    token: Option<String>,
    /// File of the bearer token, which is renewed by others.
    token_file: Option<PathBuf>,
    /// URL of the proxy.
    pub(crate) proxy: Option<String>,
}

/// A client's certificate.
pub(crate) struct Identity {
    /// The certificate, and perhaps intermediate ones, PEM.
    pub(crate) certificate: Vec<u8>,
    /// Its key, PEM.
    pub(crate) key: Vec<u8>,
}

/// URL of the API server, as the kubeconfig spells it.
///
/// # Errors
///
/// [`Kind::Settings`], naming the file and the key.
pub(crate) fn server(path: &Path) -> Result<String, EngineError> {
    let document = Document::read(path)?;
    let (_, cluster) = document.cluster(path)?;
    Ok(cluster.server.clone().unwrap_or_default())
}

impl Kubeconfig {
    /// Reads a kubeconfig and the files that it names. A warning is logged if everybody may read
    /// it.
    ///
    /// # Errors
    ///
    /// [`Kind::Settings`], naming the file and the key. No secret is shown.
    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        let document = Document::read(path)?;
        let (at, cluster) = document.cluster(path)?;
        let of_cluster = Section {
            path,
            prefix: format!("clusters[{at}].cluster"),
        };
        let (at, user) = document.user(path)?;
        let nobody = User::default();
        let user = user.unwrap_or(&nobody);
        let of_user = Section {
            path,
            prefix: format!("users[{at}].user"),
        };
        if let Some((key, why)) = user.unsupported() {
            return Err(of_user.refused(key, why));
        }
        let server = of_cluster.server(cluster)?;
        let authorities = of_cluster.content(
            "certificate-authority",
            cluster.certificate_authority_data.as_ref(),
            cluster.certificate_authority.as_ref(),
        )?;
        let is_insecure = cluster.insecure_skip_tls_verify;
        if server.scheme_str() == Some("https") {
            if is_insecure && authorities.is_some() {
                let why = "certificate-authority is set, too: remove one of them";
                return Err(of_cluster.refused("insecure-skip-tls-verify", why));
            }
            if !is_insecure && authorities.is_none() {
                let why = "it is missing: name the file of the authority that signed the API server's certificate, or the system's file of all authorities";
                return Err(of_cluster.refused("certificate-authority", why));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            server,
            authorities,
            server_name: set(cluster.tls_server_name.as_ref()).cloned(),
            identity: of_user.identity(user)?,
            token: set(user.token.as_ref()).cloned(),
            token_file: set(user.token_file.as_ref()).map(|file| of_user.resolve(file)),
            proxy: set(cluster.proxy_url.as_ref()).cloned(),
        })
    }

    /// The bearer token as it is now. As with kubectl, the file counts before `token`.
    ///
    /// # Errors
    ///
    /// [`Kind::Settings`]: the file can't be read, and there is no `token`.
    pub(crate) fn token(&self) -> Result<Option<String>, EngineError> {
        let Some(file) = &self.token_file else {
            return Ok(self.token.clone());
        };
        match (read_file(file), &self.token) {
            (Ok(content), _) => match String::from_utf8(content) {
                Ok(text) => Ok(Some(text.trim().to_owned())),
                Err(_) => Err(self.token_file_refused(file, &"it is no text")),
            },
            (Err(_), Some(token)) => Ok(Some(token.clone())),
            (Err(error), None) => Err(self.token_file_refused(file, &error)),
        }
    }

    fn token_file_refused(&self, file: &Path, why: &dyn Display) -> EngineError {
        let why = format!("tokenFile: {}: {why}", file.display());
        refused(&self.path, &why)
    }
}

impl Document {
    fn read(path: &Path) -> Result<Self, EngineError> {
        let content = read_file(path).map_err(|error| refused(path, &error))?;
        let readable_by_all = 0o004;
        if fs::metadata(path).is_ok_and(|it| it.permissions().mode() & readable_by_all != 0) {
            tracing::warn!(path = %path.display(), "everybody may read this kubeconfig; its mode should be 0600");
        }
        let reader = yaml_serde::Deserializer::from_slice(&content);
        serde_path_to_error::deserialize(reader).map_err(|error| {
            // Without the reason, which may quote a secret.
            let key = match error.path().to_string() {
                top if top == "." => String::new(),
                key => format!("{key}: "),
            };
            let line = match error.inner().location() {
                Some(location) => format!(", line {}", location.line()),
                None => String::new(),
            };
            refused(path, &format_args!("{key}it is no kubeconfig{line}"))
        })
    }

    /// The current context's cluster, and its index.
    fn cluster(&self, path: &Path) -> Result<(usize, &Cluster), EngineError> {
        let name = &self.context(path)?.cluster;
        let mut clusters = self.clusters.iter().enumerate();
        match clusters.find(|(_, named)| named.name == *name) {
            Some((at, named)) => Ok((at, &named.cluster)),
            None => Err(refused(
                path,
                &format_args!("clusters: there is no {name:?}"),
            )),
        }
    }

    /// The current context's user, and its index. A context may have none.
    fn user(&self, path: &Path) -> Result<(usize, Option<&User>), EngineError> {
        let name = &self.context(path)?.user;
        if name.is_empty() {
            return Ok((0, None));
        }
        let mut users = self.users.iter().flatten().enumerate();
        match users.find(|(_, named)| named.name == *name) {
            Some((at, named)) => Ok((at, Some(&named.user))),
            None => Err(refused(path, &format_args!("users: there is no {name:?}"))),
        }
    }

    fn context(&self, path: &Path) -> Result<&document::Context, EngineError> {
        let name = &self.current_context;
        if name.is_empty() {
            return Err(refused(path, &"current-context is missing"));
        }
        let named = self.contexts.iter().find(|named| named.name == *name);
        named.map(|named| &named.context).ok_or_else(|| {
            let why = format_args!("current-context: contexts has no {name:?}");
            refused(path, &why)
        })
    }
}

/// A part of a kubeconfig, for messages.
struct Section<'a> {
    path: &'a Path,
    prefix: String,
}

impl Section<'_> {
    fn refused(&self, key: &str, why: impl Display) -> EngineError {
        refused(self.path, &format_args!("{}.{key}: {why}", self.prefix))
    }

    /// A file that is named relative to the kubeconfig's folder.
    fn resolve(&self, file: &str) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        folder.join(file)
    }

    fn server(&self, cluster: &Cluster) -> Result<Uri, EngineError> {
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

    /// A file's content, or its base64 in the kubeconfig, which counts before the file.
    fn content(
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
        // An empty list of authorities would trust nobody, and say nothing of the reason.
        if !content.windows(11).any(|part| part == b"-----BEGIN ") {
            return Err(self.refused(&key, "it is no PEM"));
        }
        Ok(Some(content))
    }

    fn identity(&self, user: &User) -> Result<Option<Identity>, EngineError> {
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

/// A key that is set to the empty string counts as missing, as with kubectl.
fn set(value: Option<&String>) -> Option<&String> {
    value.filter(|text| !text.is_empty())
}

/// Reads a regular file: a call would wait at a pipe for longer than its timeout.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() || kind.is_dir() {
        fs::read(path)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// The error that a kubeconfig can't be used.
pub(crate) fn refused(path: &Path, why: &dyn Display) -> EngineError {
    let msg = format!("ipam.kubernetes.kubeconfig: {}: {why}", path.display());
    EngineError::new(Kind::Settings, msg)
}
