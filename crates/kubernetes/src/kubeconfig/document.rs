//! A kubeconfig as it is written: the keys that are honoured, and those that are refused.

use serde::Deserialize;

/// The file.
#[derive(Deserialize)]
pub(super) struct Document {
    #[serde(default, rename = "current-context")]
    pub(super) current_context: String,
    #[serde(default)]
    pub(super) contexts: Vec<NamedContext>,
    #[serde(default)]
    pub(super) clusters: Vec<NamedCluster>,
    /// kubectl writes null for none.
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
    /// Empty for a cluster that asks for no credentials.
    #[serde(default)]
    pub(super) user: String,
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

/// A value of a key that is refused. It isn't kept: it may be a secret.
struct Present;

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl User {
    /// The first key that is set and can't be honoured, and why.
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
