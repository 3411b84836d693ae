//! Objects, and outcomes of requests for them.

use std::collections::BTreeMap;

use cluster::{EngineError, Kind};
use serde_json::Value;

use super::Target;

/// An object as the API server keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its resource.
    pub resource: Target,
    /// `metadata.namespace`; empty for an object of the whole cluster.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`: unique among all objects that ever existed.
    pub uid: String,
    /// `metadata.resourceVersion`: revision of the last change.
    pub revision: i64,
    /// `metadata.generation`: it grows with each change of the spec only. 0 if the resource has
    /// none.
    pub generation: i64,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec`; null if only metadata was requested.
    pub spec: Value,
}

/// Objects of one resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    /// The objects, in the order of their names.
    pub items: Vec<Item>,
    /// `metadata.resourceVersion` of the list: the revision of the state that it shows.
    pub revision: i64,
}

/// Outcome of a creation.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// The object was created.
    Done(Item),
    /// An object of this name exists. Nothing was changed.
    Exists,
}

/// Outcome of a replacement.
#[derive(Clone, Debug, PartialEq)]
pub enum Replaced {
    /// The object was replaced.
    Done(Item),
    /// The object has another `resourceVersion` or `uid`. Nothing was changed.
    Changed,
    /// The object doesn't exist.
    Missing,
}

/// Outcome of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object was deleted.
    Done,
    /// The object has another `resourceVersion` or `uid`. Nothing was changed.
    Changed,
    /// The object doesn't exist.
    Missing,
}

impl Item {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// [`Kind::Unable`]: the JSON isn't an object of Kubernetes' API.
    pub(crate) fn read(resource: Target, mut object: Value) -> Result<Self, EngineError> {
        let metadata = &object["metadata"];
        let text = |key: &str| {
            let text = metadata[key].as_str();
            text.map(str::to_owned).ok_or_else(|| {
                let msg = format!("the API server's answer has no metadata.{key}");
                EngineError::new(Kind::Unable, msg)
            })
        };
        let texts = |key: &str| {
            let pairs = metadata[key].as_object().into_iter().flatten();
            let pair =
                |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.into()));
            pairs.filter_map(pair).collect()
        };
        Ok(Self {
            resource,
            namespace: text("namespace").unwrap_or_default(),
            name: text("name")?,
            uid: text("uid")?,
            revision: revision(metadata)?,
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            labels: texts("labels"),
            annotations: texts("annotations"),
            spec: object["spec"].take(),
        })
    }

    /// Identifies the object and its current spec: the UID and the generation.
    pub(crate) fn spec_id(&self) -> String {
        format!("{}/{}", self.uid, self.generation)
    }
}

impl List {
    /// Adds the objects of a page.
    pub(super) fn add(&mut self, resource: &Target, page: &mut Value) -> Result<(), EngineError> {
        self.revision = revision(&page["metadata"])?;
        let is_list = page["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("List"));
        let items = match page["items"].take() {
            Value::Array(items) => items,
            // An empty list of metadata has null as `items`.
            Value::Null if is_list => Vec::new(),
            _ => {
                let msg = "the API server's answer has no items";
                return Err(EngineError::new(Kind::Unable, msg));
            }
        };
        for item in items {
            self.items.push(Item::read(resource.clone(), item)?);
        }
        Ok(())
    }
}

/// `resourceVersion` as a number. Since Kubernetes 1.35, the API guarantees that it is a number
/// that grows.
fn revision(metadata: &Value) -> Result<i64, EngineError> {
    let text = metadata["resourceVersion"].as_str().unwrap_or_default();
    text.parse().map_err(|_| {
        let msg = format!(
            "the API server's answer has {text:?} as metadata.resourceVersion, not a number"
        );
        EngineError::new(Kind::Unable, msg)
    })
}
