//! Objects, and outcomes of requests for them.

use std::collections::BTreeMap;

use cluster::{EngineError, Kind};
use serde_json::{Map, Value, json};

use super::Target;
use super::request::Request;

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
    /// `metadata.finalizers`; null if there are none.
    pub finalizers: Value,
    /// `metadata.ownerReferences`; null if there are none.
    pub owners: Value,
    /// `spec`; null if only metadata was requested.
    pub spec: Value,
    /// `status`; null if there is none, or only metadata was requested.
    pub status: Value,
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
    Done(Box<Item>),
    /// An object of this name exists. Nothing was changed.
    Exists,
}

/// Outcome of a replacement.
#[derive(Clone, Debug, PartialEq)]
pub enum Replaced {
    /// The object was replaced.
    Done(Box<Item>),
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
            finalizers: metadata["finalizers"].clone(),
            owners: metadata["ownerReferences"].clone(),
            spec: object["spec"].take(),
            status: object["status"].take(),
        })
    }

    /// Reads an object of the answer to this request.
    pub(super) fn in_answer(request: &Request, object: Value) -> Result<Self, EngineError> {
        let item = Self::read(request.of.clone(), object)?;
        if request.needs_spec() && !item.spec.is_object() {
            let msg = format!("in the API server's answer, {} has no spec", item.name);
            return Err(EngineError::new(Kind::Unable, msg));
        }
        Ok(item)
    }

    /// Makes `object` a replacement of exactly this object. Everything that others have written
    /// into the metadata is kept.
    pub(crate) fn keep_metadata_in(&self, object: &mut Value) {
        let mut labels: Map<String, Value> = self
            .labels
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect();
        labels.extend(
            object["metadata"]["labels"]
                .as_object()
                .cloned()
                .unwrap_or_default(),
        );
        object["metadata"] = json!({
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.revision.to_string(),
            "labels": labels,
            "annotations": self.annotations,
            "finalizers": self.finalizers,
            "ownerReferences": self.owners,
        });
    }

    /// Identifies the object and its current spec: the UID and the generation.
    pub(crate) fn spec_id(&self) -> String {
        format!("{}/{}", self.uid, self.generation)
    }
}

impl List {
    /// Adds the objects of a page.
    pub(super) fn add(&mut self, request: &Request, page: &mut Value) -> Result<(), EngineError> {
        self.revision = revision(&page["metadata"])?;
        let items = match page.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            // An empty list of metadata has null as `items`.
            Some(Value::Null) => Vec::new(),
            _ => {
                let msg = "the API server's answer has no items";
                return Err(EngineError::new(Kind::Unable, msg));
            }
        };
        for item in items {
            self.items.push(Item::in_answer(request, item)?);
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
