//! The YAML of a kubeconfig: supported keys and refused keys.

use std::io;
use std::path::Path;

use cluster::EngineError;
use serde::Deserialize;

use super::file::{read_file, refused};
use crate::GROUP;

/// The file.
#[derive(Deserialize)]
pub(super) struct Document {
    #[serde(default, rename = "current-context")]
    pub(super) current_context: String,
    #[serde(default)]
    pub(super) contexts: Vec<NamedContext>,
    #[serde(default)]
    pub(super) clusters: Vec<NamedCluster>,
    /// kubectl writes null if there are no users.
    pub(super) users: Option<Vec<NamedUser>>,
}

#[derive(Deserialize)]
pub(super) struct NamedContext {
    pub(super) name: String,
    pub(super) context: Context,
}

#[derive(Deserialize)]
pub(super) struct Context {
    pub(super) cluster: String,
    /// Empty for a cluster without credentials.
    #[serde(default)]
    pub(super) user: String,
    #[serde(default)]
    extensions: Vec<NamedExtension>,
}

#[derive(Deserialize)]
struct NamedExtension {
    name: String,
    extension: serde_json::Value,
}

#[derive(Deserialize)]
pub(super) struct NamedCluster {
    pub(super) name: String,
    pub(super) cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Cluster {
    pub(super) server: Option<String>,
    pub(super) certificate_authority: Option<String>,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) tls_server_name: Option<String>,
    #[serde(default)]
    pub(super) insecure_skip_tls_verify: bool,
    pub(super) proxy_url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct NamedUser {
    pub(super) name: String,
    pub(super) user: User,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct User {
    pub(super) token: Option<String>,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Option<String>,
    pub(super) client_certificate: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key: Option<String>,
    pub(super) client_key_data: Option<String>,
    exec: Option<Present>,
    auth_provider: Option<Present>,
    username: Option<Present>,
    password: Option<Present>,
    r#as: Option<Present>,
    as_uid: Option<Present>,
    as_groups: Option<Present>,
    as_user_extra: Option<Present>,
}

/// A value of a refused key. It isn't stored: it may be a secret.
struct Present;

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl Document {
    /// The node in our extension of the current context.
    pub(super) fn node(&self) -> Option<String> {
        let is_current = |context: &&NamedContext| context.name == self.current_context;
        let context = &self.contexts.iter().find(is_current)?.context;
        let ours = context
            .extensions
            .iter()
            .find(|found| found.name == GROUP)?;
        Some(ours.extension["node"].as_str()?.to_owned())
    }
}

impl User {
    /// The first unsupported key that is set, and the reason for the refusal.
    pub(super) fn unsupported(&self) -> Option<(&'static str, &'static str)> {
        let command = "no command is executed for credentials; use tokenFile or client-certificate";
        let basic = "the API server knows no passwords; use tokenFile or client-certificate";
        let other = "requests are made as the user itself; give that user the rights";
        let keys = [
            ("exec", &self.exec, command),
            ("auth-provider", &self.auth_provider, command),
            ("username", &self.username, basic),
            ("password", &self.password, basic),
            ("as", &self.r#as, other),
            ("as-uid", &self.as_uid, other),
            ("as-groups", &self.as_groups, other),
            ("as-user-extra", &self.as_user_extra, other),
        ];
        let set = keys.into_iter().find(|(_, value, _)| value.is_some());
        set.map(|(key, _, why)| (key, why))
    }
}

impl Document {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self, EngineError> {
        let content = read_file(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refused(
                path,
                &format_args!(
                    "{error}; on a node, the pod of the DaemonSet ipam-delegated writes it"
                ),
            ),
            _ => refused(path, &error),
        })?;
        let reader = yaml_serde::Deserializer::from_slice(&content);
        serde_path_to_error::deserialize(reader).map_err(|error| {
            // The error's own text is left out: it may quote a secret.
            let place = error.path().to_string();
            // `.` is the whole file, and `?` a key that is no text.
            let key = match place.trim_end_matches(['.', '?']) {
                "" => String::new(),
                key => format!("{key}: "),
            };
            let line = match error.inner().location() {
                Some(location) => format!(", line {}", location.line()),
                None => String::new(),
            };
            refused(path, &format_args!("{key}it is no kubeconfig{line}"))
        })
    }

    /// The cluster of the current context, and its index.
    pub(super) fn cluster(&self, path: &Path) -> Result<(usize, &Cluster), EngineError> {
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

    /// The user of the current context, and its index. A context may have no user.
    pub(super) fn user(&self, path: &Path) -> Result<(usize, Option<&User>), EngineError> {
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

    fn context(&self, path: &Path) -> Result<&Context, EngineError> {
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
