//! Reads the kubeconfig: the API server, its authorities, the node's credentials.
//!
//! Keys have the same meaning as in kubectl (client-go's `tools/clientcmd`). An unsupported key is
//! an error that names the key.

mod document;
mod file;
mod section;

use std::io;
use std::path::{Path, PathBuf};

use cluster::EngineError;
use http::Uri;

use document::{Document, User};
use file::{read_file, warn_if_readable_by_all};
use section::{Section, set};

pub(crate) use file::refused;
pub(crate) use section::Identity;

/// The current context of a kubeconfig. The files that it names have been read, except for
/// `tokenFile`.
pub(crate) struct Kubeconfig {
    /// Path of the kubeconfig.
    pub(crate) path: PathBuf,
    /// URL of the API server: `http` or `https`, a host, an optional port and path.
    pub(crate) server: Uri,
    /// The API server's authorities, PEM; `None` if its certificate isn't verified.
    pub(crate) authorities: Option<Vec<u8>>,
    /// Name in the API server's certificate, if it differs from the URL's host.
    pub(crate) server_name: Option<String>,
    /// The client's certificate.
    pub(crate) identity: Option<Identity>,
    /// The bearer token, if there is no `tokenFile` or it can't be read.
    token: Option<String>,
    /// File of the bearer token. Another program renews it.
    token_file: Option<PathBuf>,
    /// URL of the proxy.
    pub(crate) proxy: Option<String>,
}

/// URL of the API server, as the kubeconfig spells it.
///
/// # Errors
///
/// [`cluster::Kind::Settings`], naming the file and the key.
pub(crate) fn server(path: &Path) -> Result<String, EngineError> {
    let document = Document::read(path)?;
    let (_, cluster) = document.cluster(path)?;
    let server = set(cluster.server.as_ref()).cloned();
    server.ok_or_else(|| refused(path, &"the cluster has no server"))
}

/// The node that the kubeconfig names, if any: `ipam-installer` writes the name of the Node object
/// into an extension of the context.
///
/// # Errors
///
/// [`cluster::Kind::Settings`], naming the file and the key.
pub(crate) fn node(path: &Path) -> Result<Option<String>, EngineError> {
    let document = Document::read(path)?;
    Ok(document.node().filter(|node| !node.is_empty()))
}

impl Kubeconfig {
    /// Reads a kubeconfig and the files that it names. Logs a warning if everybody may read the
    /// kubeconfig.
    ///
    /// # Errors
    ///
    /// [`cluster::Kind::Settings`], naming the file and the key. No secret is shown.
    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        let document = Document::read(path)?;
        warn_if_readable_by_all(path);
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

    /// The current bearer token. As with kubectl, `tokenFile` precedes `token`.
    ///
    /// # Errors
    ///
    /// [`cluster::Kind::Settings`]: the file can't be read, and `token` isn't set.
    pub(crate) fn token(&self) -> Result<Option<String>, EngineError> {
        let Some(file) = &self.token_file else {
            return Ok(self.token.clone());
        };
        let content = read_file(file).and_then(|content| {
            let text = String::from_utf8(content).map_err(io::Error::other)?;
            match text.trim() {
                "" => Err(io::Error::other("it is empty")),
                token => Ok(token.to_owned()),
            }
        });
        match (content, &self.token) {
            (Ok(token), _) => Ok(Some(token)),
            (Err(_), Some(token)) => Ok(Some(token.clone())),
            (Err(error), None) => {
                let why = format_args!("tokenFile: {}: {error}", file.display());
                Err(refused(&self.path, &why))
            }
        }
    }
}
