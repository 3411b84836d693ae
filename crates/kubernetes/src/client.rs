//! The client: requests to the API server, and the time limit for all of them together.

mod answer;
mod connection;
mod exchange;
mod failures;
mod item;
mod patience;
mod proxy;
mod request;
mod resource;
mod tls;

pub use item::{Created, Deleted, Item, List, Replaced};
pub use resource::{GROUP, OtherResource, Resource, Target, VERSION};

use std::time::SystemTime;

use cluster::{EngineError, Kind, TimeLimit};
use cni::{Cancellation, Environment};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::Settings;
use answer::{Answer, Verdict};
use exchange::Started;
use failures::{kept, refusal, unreadable};
use request::Request;

/// Most times that a list starts again after its page token has expired.
const MOST_STARTS: u32 = 3;

/// A client for one call. All of its requests together take no longer than
/// `ipam.kubernetes.timeout`.
pub struct Client<'a> {
    settings: &'a Settings,
    cancellation: Option<&'a dyn Cancellation>,
    environment: Option<&'a Environment>,
    /// Time limit of the requests.
    pub time: TimeLimit,
    /// `None` before the first request.
    started: Option<Started>,
    /// The API server's clock in the last answer.
    date: Option<SystemTime>,
}

impl<'a> Client<'a> {
    /// A client. The kubeconfig is read, and a connection is made, with the first request.
    pub fn new(settings: &'a Settings, cancellation: Option<&'a dyn Cancellation>) -> Self {
        Self {
            settings,
            cancellation,
            environment: None,
            time: TimeLimit::new(settings.timeout),
            started: None,
            date: None,
        }
    }

    /// The same client, with the proxy that these variables name, if the kubeconfig names none:
    /// `HTTPS_PROXY` and `NO_PROXY`.
    #[must_use]
    pub fn with_environment(mut self, environment: &'a Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Identifies the cluster: a hash of the API server's URL and of its authorities.
    ///
    /// # Errors
    ///
    /// [`cluster::Kind::Settings`]: the kubeconfig can't be read.
    pub fn cluster_id(&mut self) -> Result<u64, EngineError> {
        let kubeconfig = &self.start()?.kubeconfig;
        let mut hash = Sha256::new_with_prefix(kubeconfig.server.to_string());
        hash.update([0]);
        hash.update(kubeconfig.authorities.as_deref().unwrap_or_default());
        let hash = hash.finalize();
        Ok(hash
            .iter()
            .take(8)
            .fold(0, |id, byte| id << 8 | u64::from(*byte)))
    }

    /// The API server's clock in its last answer. Processes on different machines compare times by
    /// this clock.
    ///
    /// # Errors
    ///
    /// [`cluster::Kind::Unable`]: the answer had no time.
    pub fn server_time(&self) -> Result<SystemTime, EngineError> {
        self.date.ok_or_else(|| {
            let msg =
                "Kubernetes' API doesn't say what time it is: its answers have no header Date";
            EngineError::new(Kind::Unable, msg)
        })
    }

    /// Reads an object as it is now; `None` if it doesn't exist.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn get(
        &mut self,
        resource: impl Into<Target>,
        name: &str,
    ) -> Result<Option<Item>, EngineError> {
        let request = Request::get(resource, name);
        match self.call(&request)? {
            (answer, Verdict::Executed) => Self::item(&request, &answer).map(Some),
            (_, Verdict::Missing) => Ok(None),
            (answer, _) => Err(refusal(self.settings, &request, &answer)),
        }
    }

    /// Reads the objects of a resource, by pages, as they are when the first page is read.
    /// `labels` is a selector such as `ipam-delegated.io/pool=blue`. With `only_metadata`, the
    /// specs are null.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn list(
        &mut self,
        resource: impl Into<Target>,
        labels: Option<&str>,
        only_metadata: bool,
    ) -> Result<List, EngineError> {
        let resource = resource.into();
        let mut list = List::default();
        let mut token: Option<String> = None;
        let mut starts = 1;
        loop {
            let request = Request::list(resource.clone(), labels, only_metadata, token.as_deref());
            match self.call(&request)? {
                (answer, Verdict::Executed) => {
                    let mut page = Self::object(&request, &answer)?;
                    list.add(&request, &mut page)?;
                    let next = page["metadata"]["continue"].as_str();
                    match next.filter(|next| !next.is_empty()) {
                        None => return Ok(list),
                        // For example, a cache before the API server ignores the token.
                        Some(next) if token.as_deref() == Some(next) => {
                            let why = "its next page is the same page";
                            return Err(unreadable(&request, why));
                        }
                        Some(next) => token = Some(next.to_owned()),
                    }
                }
                (_, Verdict::Expired) if starts < MOST_STARTS => {
                    starts += 1;
                    (list, token) = (List::default(), None);
                }
                (answer, _) => return Err(refusal(self.settings, &request, &answer)),
            }
        }
    }

    /// Creates an object. With `dry_run`, the API server only checks the creation.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`]. With [`cluster::Kind::Lost`] and [`cluster::Kind::Cancelled`], it may have been
    /// created.
    pub fn create(
        &mut self,
        resource: Resource,
        object: &Value,
        dry_run: bool,
    ) -> Result<Created, EngineError> {
        let request = Request::create(resource, object, dry_run);
        match self.call(&request)? {
            (answer, Verdict::Executed) => Self::item(&request, &answer)
                .map(Box::new)
                .map(Created::Done),
            (_, Verdict::Exists) => Ok(Created::Exists),
            (answer, _) => Err(refusal(self.settings, &request, &answer)),
        }
    }

    /// Replaces an object, if it still has the `metadata.resourceVersion` (and `uid`) of the new
    /// object.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn replace(
        &mut self,
        resource: Resource,
        object: &Value,
        dry_run: bool,
    ) -> Result<Replaced, EngineError> {
        self.replace_by(&Request::replace(resource, object, dry_run))
    }

    /// Sets annotations of an object, if the object still has this revision. A value of `None`
    /// removes the annotation.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn annotate(
        &mut self,
        resource: Resource,
        item: &Item,
        annotations: &[(&str, Option<&str>)],
    ) -> Result<Replaced, EngineError> {
        let annotations: Map<String, Value> = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
            .collect();
        let patch = json!({"metadata": {
            "name": item.name,
            "uid": item.uid,
            "resourceVersion": item.revision.to_string(),
            "annotations": annotations,
        }});
        self.replace_by(&Request::merge(resource, &patch))
    }

    /// Replaces the status of an object, if the object still has the `metadata.resourceVersion` of
    /// the new one.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn replace_status(
        &mut self,
        resource: Resource,
        object: &Value,
    ) -> Result<Replaced, EngineError> {
        self.replace_by(&Request::replace_status(resource, object))
    }

    /// Sets keys of an object's status. If the patch has a `metadata.resourceVersion`, the object
    /// must have it. A value of null removes the key.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn merge_status(
        &mut self,
        resource: Resource,
        patch: &Value,
    ) -> Result<Replaced, EngineError> {
        self.replace_by(&Request::merge_status(resource, patch))
    }

    fn replace_by(&mut self, request: &Request) -> Result<Replaced, EngineError> {
        match self.call(request)? {
            (answer, Verdict::Executed) => Self::item(request, &answer)
                .map(Box::new)
                .map(Replaced::Done),
            (_, Verdict::Changed) => Ok(Replaced::Changed),
            (_, Verdict::Missing) => Ok(Replaced::Missing),
            (answer, _) => Err(refusal(self.settings, request, &answer)),
        }
    }

    /// Deletes an object. If `uid` or `resourceVersion` is given, the object must have it.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn delete(
        &mut self,
        resource: impl Into<Target>,
        name: &str,
        uid: Option<&str>,
        revision: Option<i64>,
    ) -> Result<Deleted, EngineError> {
        let request = Request::delete(resource, name, uid, revision);
        match self.call(&request)? {
            (answer, Verdict::Executed) => {
                let object = Self::object(&request, &answer)?;
                let finalizers = &object["metadata"]["finalizers"];
                if object["status"] == "Success" {
                    Ok(Deleted::Done)
                } else if object["metadata"]["name"] == name && finalizers.is_array() {
                    Err(kept(&request, finalizers))
                } else {
                    Err(unreadable(&request, &answer.said()))
                }
            }
            (_, Verdict::Changed) => Ok(Deleted::Changed),
            (_, Verdict::Missing) => Ok(Deleted::Missing),
            (answer, _) => Err(refusal(self.settings, &request, &answer)),
        }
    }

    fn item(request: &Request, answer: &Answer) -> Result<Item, EngineError> {
        let mut object = Self::object(request, answer)?;
        if !request.changes
            && !request.body.is_empty()
            && object["metadata"]["resourceVersion"].is_null()
        {
            // The object of a dry run has no revision.
            object["metadata"]["resourceVersion"] = "0".into();
        }
        let item = Item::in_answer(request, object);
        let item = item.map_err(|error| unreadable(request, &error.msg))?;
        match item.name == request.name {
            true => Ok(item),
            false => Err(unreadable(request, &answer.said())),
        }
    }

    /// The object in an answer. An answer without an object of the expected kind is an error: it
    /// may not be from an API server.
    fn object(request: &Request, answer: &Answer) -> Result<Value, EngineError> {
        let is_expected = |object: &Value| {
            let kind = object["kind"].as_str();
            kind.is_some_and(|kind| request.expects(kind))
        };
        let object = answer.object().filter(is_expected);
        object.ok_or_else(|| {
            let said = answer.said();
            let why = format!("{said}; the kubeconfig's server may be no API server");
            unreadable(request, &why)
        })
    }
}
