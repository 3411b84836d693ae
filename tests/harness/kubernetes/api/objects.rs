//! Reads and writes objects without kubectl, which takes a quarter of a second for each.

use serde_json::{Value, json};

use super::KubernetesApi;
use crate::kubernetes::requests::Answer;

impl KubernetesApi {
    /// Path of a resource of our API group, or of its object of this name.
    pub fn path(resource: &str, name: &str) -> String {
        let path = format!("/apis/ipam-delegated.io/v1/{resource}");
        match name {
            "" => path,
            name => format!("{path}/{name}"),
        }
    }

    /// Sends a request as the administrator, from any network namespace.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, body: &Value) -> Answer {
        let answer = self.control_plane.request(method, path, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// As [`Self::request`]; returns the body of a successful answer.
    #[track_caller]
    pub fn succeed(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.request(method, path, body);
        assert!(answer.is_success(), "{method} {path} {body}: {answer:?}");
        answer.body
    }

    /// The objects of a resource of our API group.
    #[track_caller]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        let mut list = self.succeed("GET", &Self::path(resource, ""), &Value::Null);
        match list["items"].take() {
            Value::Array(objects) => objects,
            other => panic!("{resource}: {other}"),
        }
    }

    /// Creates an object of our API group, or merges its spec into the existing one.
    #[track_caller]
    pub fn put(&self, resource: &str, object: &Value) {
        let created = self.request("POST", &Self::path(resource, ""), object);
        if created.status == 409 {
            let name = object["metadata"]["name"].as_str().unwrap();
            self.succeed("PATCH", &Self::path(resource, name), object);
        } else {
            assert!(created.is_success(), "{object}: {created:?}");
        }
    }

    /// A token of a service account, bound to a pod if there is one.
    pub(super) fn token(&self, namespace: &str, account: &str, pod: Option<&Value>) -> String {
        let mut request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
        });
        if let Some(pod) = pod {
            let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
            request["spec"]["boundObjectRef"] =
                json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        }
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = self.succeed("POST", &path, &request);
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}
