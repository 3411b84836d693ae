//! Reads and writes objects without kubectl, which takes a quarter of a second for each.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{KubernetesApi, PATIENCE};
use crate::kubernetes::control_plane::ADMINISTRATOR;
use crate::kubernetes::requests::Answer;

/// Path of our API group.
const GROUP: &str = "/apis/ipam-delegated.io/v1";

impl KubernetesApi {
    /// Sends a request with a user's token, from any network namespace. The body of a `PATCH` is a
    /// JSON merge patch.
    ///
    /// # Errors
    ///
    /// The API server can't be reached, or doesn't answer.
    pub fn request_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> io::Result<Answer> {
        self.control_plane.request_as(token, method, path, body)
    }

    /// Sends a request as the administrator, from any network namespace. Like kubectl, sends it
    /// again if the API server asks for that, as it does after a start.
    ///
    /// # Panics
    ///
    /// If the API server can't be reached.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, body: &Value) -> Answer {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.request_as(ADMINISTRATOR, method, path, body);
            let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
            if answer.status != 429 || Instant::now() > until {
                return answer;
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// As [`Self::request`]; returns the body of a successful answer.
    ///
    /// # Panics
    ///
    /// If the request is refused.
    #[track_caller]
    pub fn succeed(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.request(method, path, body);
        assert!(answer.is_success(), "{method} {path} {body}: {answer:?}");
        answer.body
    }

    /// The objects of a resource of our API group.
    ///
    /// # Panics
    ///
    /// If they can't be listed.
    #[track_caller]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        let mut list = self.succeed("GET", &format!("{GROUP}/{resource}"), &Value::Null);
        match list["items"].take() {
            Value::Array(objects) => objects,
            other => panic!("{resource}: {other}"),
        }
    }

    /// Creates an object of our API group, or merges its spec into the existing one.
    ///
    /// # Panics
    ///
    /// If the API server refuses it.
    #[track_caller]
    pub fn put(&self, resource: &str, object: &Value) {
        let path = format!("{GROUP}/{resource}");
        let created = self.request("POST", &path, object);
        if created.status == 409 {
            let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
            self.succeed("PATCH", &path, object);
        } else {
            assert!(created.is_success(), "{object}: {created:?}");
        }
    }

    /// A token of a service account, bound to a pod if there is one.
    ///
    /// # Panics
    ///
    /// If the API server refuses it.
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
