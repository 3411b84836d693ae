//! Requests: method, path, query, body.

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::resource::{Resource, Target};

/// Characters that are not percent-encoded in a path or a query.
pub(super) const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Objects in a page of a list.
const PAGE: u32 = 1000;

/// `kind` of a list of metadata.
const METADATA_LIST: &str = "PartialObjectMetadataList";

/// `Accept` of a list of metadata.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// `Content-Type` of a JSON merge patch.
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Field manager of imported pools. The admission policy for manual changes of pools exempts it,
/// since an import itself compares the change with the addresses that are reserved.
const IMPORT: &str = "ipamctl-import";

/// A request to the API server.
pub(super) struct Request {
    pub(super) method: Method,
    /// Path and query, below the path of the server's URL.
    pub(super) target: String,
    /// JSON; empty for a request without a body.
    pub(super) body: Vec<u8>,
    /// `Accept`.
    pub(super) accept: &'static str,
    /// `Content-Type` of the body.
    pub(super) content_type: &'static str,
    /// True if the request changes something. A dry run doesn't.
    pub(super) changes: bool,
    /// Name of the object; empty for a list.
    pub(super) name: String,
    /// The resource, perhaps in a namespace.
    pub(super) of: Target,
}

impl Request {
    fn new(method: Method, of: impl Into<Target>, name: &str) -> Self {
        let of = of.into();
        let mut target = of.path();
        if !name.is_empty() && method != Method::POST {
            target.push('/');
            target.extend(utf8_percent_encode(name, UNRESERVED));
        }
        Self {
            method,
            target,
            body: Vec::new(),
            accept: "application/json",
            content_type: "application/json",
            changes: false,
            name: name.to_owned(),
            of,
        }
    }

    pub(super) fn get(of: impl Into<Target>, name: &str) -> Self {
        Self::new(Method::GET, of, name)
    }

    /// One page of a list: the first, or the page of this continue token.
    pub(super) fn list(
        of: impl Into<Target>,
        labels: Option<&str>,
        only_metadata: bool,
        token: Option<&str>,
    ) -> Self {
        let mut list = Self::new(Method::GET, of, "").with("limit", &PAGE.to_string());
        if let Some(labels) = labels {
            list = list.with("labelSelector", labels);
        }
        if let Some(token) = token {
            list = list.with("continue", token);
        }
        if only_metadata {
            list.accept = METADATA;
        }
        list
    }

    pub(super) fn create(of: impl Into<Target>, object: &Value, dry_run: bool) -> Self {
        Self::new(Method::POST, of, name(object)).writing(object, dry_run)
    }

    pub(super) fn replace(of: impl Into<Target>, object: &Value, dry_run: bool) -> Self {
        Self::new(Method::PUT, of, name(object)).writing(object, dry_run)
    }

    /// A JSON merge patch (RFC 7396) of an object without its status.
    pub(super) fn merge(of: impl Into<Target>, patch: &Value) -> Self {
        let request = Self::new(Method::PATCH, of, name(patch));
        Self {
            content_type: MERGE_PATCH,
            ..request.writing(patch, false)
        }
    }

    /// A JSON merge patch of an object's status.
    pub(super) fn merge_status(of: impl Into<Target>, patch: &Value) -> Self {
        let mut request = Self::new(Method::PATCH, of, name(patch));
        request.target.push_str("/status");
        Self {
            content_type: MERGE_PATCH,
            ..request.writing(patch, false)
        }
    }

    pub(super) fn replace_status(of: impl Into<Target>, object: &Value) -> Self {
        let mut request = Self::new(Method::PUT, of, name(object));
        request.target.push_str("/status");
        request.writing(object, false)
    }

    pub(super) fn delete(
        of: impl Into<Target>,
        name: &str,
        uid: Option<&str>,
        revision: Option<i64>,
    ) -> Self {
        let mut preconditions = json!({});
        if let Some(uid) = uid {
            preconditions["uid"] = uid.into();
        }
        if let Some(revision) = revision {
            preconditions["resourceVersion"] = revision.to_string().into();
        }
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        });
        Self::new(Method::DELETE, of, name).writing(&options, false)
    }

    fn writing(mut self, body: &Value, dry_run: bool) -> Self {
        self.body = body.to_string().into_bytes();
        self.changes = !dry_run;
        if self.of == Resource::Pool.into() {
            self = self.with("fieldManager", IMPORT);
        }
        match dry_run {
            true => self.with("dryRun", "All"),
            false => self,
        }
    }

    /// Adds a query parameter.
    fn with(mut self, key: &str, value: &str) -> Self {
        let separator = if self.target.contains('?') { '&' } else { '?' };
        self.target.push(separator);
        self.target.push_str(key);
        self.target.push('=');
        self.target.extend(utf8_percent_encode(value, UNRESERVED));
        self
    }

    /// The request in words, such as `create addresses.ipam-delegated.io blue.10.0.0.5`.
    pub(super) fn in_words(&self) -> String {
        let words = format!("{} {} {}", self.verb(), self.of.full_name(), self.name);
        words.trim_end().to_owned()
    }

    /// True if the API server may answer the request with an object of this kind.
    pub(super) fn expects(&self, kind: &str) -> bool {
        let of = self.of.kind();
        match self.verb() {
            "list" if self.accept == METADATA && kind == METADATA_LIST => true,
            "list" => kind.strip_suffix("List") == Some(of),
            "delete" => kind == "Status" || kind == of,
            _ => kind == of,
        }
    }

    /// True if each object of the answer has a spec. Nothing can be concluded about the holder of
    /// an address from an answer without it.
    pub(super) fn needs_spec(&self) -> bool {
        let is_optional = self.of == Resource::Restore.into();
        matches!(self.of, Target::Own(_)) && !is_optional && self.accept != METADATA
    }

    /// The RBAC verb that the request needs.
    pub(super) fn verb(&self) -> &'static str {
        match self.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ if self.name.is_empty() => "list",
            _ => "get",
        }
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OtherResource;

    #[test]
    fn names_and_parameters_are_encoded() {
        let pool = Resource::Pool;
        let targets = [
            Request::get(pool, "a/../b").target,
            Request::list(pool, Some("ipam-delegated.io/pool=a,x!=b"), false, None).target,
            Request::list(pool, None, true, Some("a+b=")).target,
            Request::create(pool, &json!({"metadata": {"name": "a"}}), true).target,
            Request::replace_status(pool, &json!({"metadata": {"name": "a"}})).target,
            Request::get(OtherResource::Pod.in_namespace("a b"), "c").target,
        ];
        let path = "/apis/ipam-delegated.io/v1/pools";
        let expected = [
            format!("{path}/a%2F..%2Fb"),
            format!("{path}?limit=1000&labelSelector=ipam-delegated.io%2Fpool%3Da%2Cx%21%3Db"),
            format!("{path}?limit=1000&continue=a%2Bb%3D"),
            format!("{path}?fieldManager=ipamctl-import&dryRun=All"),
            format!("{path}/a/status?fieldManager=ipamctl-import"),
            "/api/v1/namespaces/a%20b/pods/c".to_owned(),
        ];
        assert_eq!(targets, expected);
    }

    #[test]
    fn a_deletion_is_of_one_object_in_one_state() {
        let request = Request::delete(Resource::Address, "a", Some("u"), Some(7));
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let expected = json!({"uid": "u", "resourceVersion": "7"});
        assert_eq!(body["preconditions"], expected);
        assert!(request.changes);
    }
}
