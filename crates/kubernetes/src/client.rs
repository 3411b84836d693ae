//! The client: requests to the API server, and the time that they may take together.

mod item;
mod resource;

pub use item::{Created, Deleted, Item, List, Replaced};
pub use resource::{GROUP, Resource, VERSION};

use cluster::{EngineError, Kind, TimeLimit};
use cni::{Cancellation, Environment};
use serde_json::Value;

use crate::Settings;

/// A client for one call. All of its requests together take no longer than
/// `ipam.kubernetes.timeout`.
pub struct Client<'a> {
    settings: &'a Settings,
    cancellation: Option<&'a dyn Cancellation>,
    environment: Option<&'a Environment>,
    /// Time limit of the requests.
    pub time: TimeLimit,
}

impl<'a> Client<'a> {
    /// A client. The kubeconfig is read, and a connection is made, with the first request.
    pub fn new(settings: &'a Settings, cancellation: Option<&'a dyn Cancellation>) -> Self {
        Self {
            settings,
            cancellation,
            environment: None,
            time: TimeLimit::new(settings.timeout),
        }
    }

    /// The same client, with the proxy that these variables name, if the kubeconfig names none:
    /// `HTTPS_PROXY` and `NO_PROXY`.
    #[must_use]
    pub fn with_environment(mut self, environment: &'a Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Number of the cluster: a hash of the API server's URL and of its authorities.
    ///
    /// # Errors
    ///
    /// [`Kind::Settings`]: the kubeconfig can't be read.
    pub fn cluster_id(&mut self) -> Result<u64, EngineError> {
        self.unfinished()
    }

    /// Reads an object as it is now; `None` if it doesn't exist.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn get(&mut self, resource: Resource, name: &str) -> Result<Option<Item>, EngineError> {
        let _ = (resource, name);
        self.unfinished()
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
        resource: Resource,
        labels: Option<&str>,
        only_metadata: bool,
    ) -> Result<List, EngineError> {
        let _ = (resource, labels, only_metadata);
        self.unfinished()
    }

    /// Creates an object. With `dry_run`, the API server only says whether it would.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`]. With [`Kind::Lost`] and [`Kind::Cancelled`], it may have been
    /// created.
    pub fn create(
        &mut self,
        resource: Resource,
        object: &Value,
        dry_run: bool,
    ) -> Result<Created, EngineError> {
        let _ = (resource, object, dry_run);
        self.unfinished()
    }

    /// Replaces an object, if it has the `metadata.resourceVersion` (and `uid`) of the new one.
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
        let _ = (resource, object, dry_run);
        self.unfinished()
    }

    /// Replaces the status of an object, if it has the `metadata.resourceVersion` of the new one.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn replace_status(
        &mut self,
        resource: Resource,
        object: &Value,
    ) -> Result<Replaced, EngineError> {
        let _ = (resource, object);
        self.unfinished()
    }

    /// Deletes an object, if it has this `uid` and, if one is given, this `resourceVersion`.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn delete(
        &mut self,
        resource: Resource,
        name: &str,
        uid: Option<&str>,
        revision: Option<i64>,
    ) -> Result<Deleted, EngineError> {
        let _ = (resource, name, uid, revision);
        self.unfinished()
    }

    fn unfinished<T>(&mut self) -> Result<T, EngineError> {
        self.time.start_request();
        let _ = (self.cancellation, self.environment);
        let path = self.settings.kubeconfig.display();
        let msg = format!("{path}: requests to Kubernetes' API can't be made yet");
        Err(EngineError::new(Kind::Unable, msg))
    }
}
