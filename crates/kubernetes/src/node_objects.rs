//! Compares registrations of nodes with `Node` objects, and notes on registrations that their Node
//! is missing.
//!
//! The notes are two annotations of an `IPAMNode`: the UID of the Node that was seen last, and the
//! time since which the Node is missing. If the Node was never seen, nothing is concluded: the
//! registration may have another name than its Node.

use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

use cluster::{EngineError, Kind};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Client, Item, OtherResource, Replaced, Resource};

/// Annotation with the UID of the Node that was seen last.
const NODE_UID: &str = "ipam-delegated.io/node-uid";

/// Annotation with a [`MissingNote`].
pub(crate) const NODE_MISSING: &str = "ipam-delegated.io/node-missing";

/// Most times that a registration is written again, because others change it.
const MOST_TRIES: u32 = 10;

/// A registration of a node, and the state of its Node.
#[derive(Clone, Debug)]
pub struct RegisteredNode {
    /// The node's name.
    pub name: String,
    /// Revision of the registration.
    pub revision: i64,
    /// The Node.
    pub state: NodeState,
    /// Revision of the cluster before the Node was read.
    read_at: i64,
    item: Item,
}

/// State of a Node, by the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The Node exists, with this UID.
    Exists(String),
    /// The Node is missing, and was never seen.
    NeverSeen,
    /// The Node is missing, and the present registration has no note of it.
    Missing,
    /// The Node is missing, and was missing at the time of the note.
    MissingSince(MissingNote),
}

/// A note that a Node is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingNote {
    /// The time of the note, by the API server's clock.
    #[serde(with = "humantime_text")]
    pub since: SystemTime,
    /// The incarnation of the registration at that time.
    pub incarnation: String,
    /// Revision of the cluster at that time. Later claims have a higher revision.
    pub revision: i64,
}

impl RegisteredNode {
    /// All registrations, with their Nodes.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`]. If the API server doesn't answer for one of the Nodes, the whole
    /// call fails.
    pub fn all(client: &mut Client<'_>) -> Result<Vec<Self>, EngineError> {
        let registrations = client.list(Resource::IpamNode, None, false)?;
        let nodes = client.list(OtherResource::Node, None, true)?.items;
        let nodes: HashMap<String, String> = nodes
            .into_iter()
            .map(|node| (node.name, node.uid))
            .collect();
        let mut all = Vec::new();
        for item in registrations.items {
            let mut uid = nodes.get(&item.name).cloned();
            if uid.is_none() {
                // A Node counts as missing only if the API server answers "not found" for its
                // name.
                let node = client.get(OtherResource::Node, &item.name)?;
                uid = node.map(|node| node.uid);
            }
            all.push(Self {
                name: item.name.clone(),
                revision: item.revision,
                state: state(&item, uid),
                read_at: registrations.revision,
                item,
            });
        }
        Ok(all)
    }

    /// Writes the annotations for this state; false if another process has changed the
    /// registration.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn note(&self, client: &mut Client<'_>) -> Result<bool, EngineError> {
        match &self.state {
            NodeState::Exists(uid) => self.annotate(client, Some(uid), None),
            NodeState::NeverSeen | NodeState::MissingSince(_) => Ok(true),
            NodeState::Missing => self.note_missing(client),
        }
    }

    /// Notes that the Node is missing from now on.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn note_missing(&self, client: &mut Client<'_>) -> Result<bool, EngineError> {
        let note = MissingNote {
            since: client.server_time()?,
            incarnation: incarnation(&self.item).to_owned(),
            revision: self.read_at,
        };
        let note = serde_json::to_string(&note).expect("texts and numbers are JSON");
        let uid = annotation(&self.item, NODE_UID);
        self.annotate(client, uid, Some(&note))
    }

    fn annotate(
        &self,
        client: &mut Client<'_>,
        uid: Option<&str>,
        missing: Option<&str>,
    ) -> Result<bool, EngineError> {
        let wanted = [(NODE_UID, uid), (NODE_MISSING, missing)];
        if wanted
            .iter()
            .all(|(key, value)| annotation(&self.item, key) == *value)
        {
            return Ok(true);
        }
        let replaced = client.annotate(Resource::IpamNode, &self.item, &wanted)?;
        Ok(matches!(replaced, Replaced::Done(_)))
    }
}

/// Changes the annotations of a node's registration, if the node has one. With the right of nodes
/// to update theirs.
pub(crate) fn annotate(
    client: &mut Client<'_>,
    node: &str,
    change: impl Fn(&mut BTreeMap<String, String>),
) -> Result<(), EngineError> {
    for _ in 0..MOST_TRIES {
        let Some(mut item) = client.get(Resource::IpamNode, node)? else {
            return Ok(());
        };
        let before = item.annotations.clone();
        change(&mut item.annotations);
        if item.annotations == before {
            return Ok(());
        }
        let mut object = json!({
            "apiVersion": Resource::api_version(),
            "kind": Resource::IpamNode.kind(),
            "spec": item.spec,
        });
        item.keep_metadata_in(&mut object);
        if let Replaced::Done(_) = client.replace(Resource::IpamNode, &object, false)? {
            return Ok(());
        }
    }
    let msg = format!("the registration of {node} is changed by others all the time");
    Err(EngineError::new(Kind::Unable, msg))
}

fn state(registration: &Item, uid: Option<String>) -> NodeState {
    if let Some(uid) = uid {
        return NodeState::Exists(uid);
    }
    if annotation(registration, NODE_UID).is_none() {
        return NodeState::NeverSeen;
    }
    let note = annotation(registration, NODE_MISSING);
    let note: Option<MissingNote> = note.and_then(|note| serde_json::from_str(note).ok());
    match note.filter(|note| note.incarnation == incarnation(registration)) {
        Some(note) => NodeState::MissingSince(note),
        None => NodeState::Missing,
    }
}

fn annotation<'i>(item: &'i Item, key: &str) -> Option<&'i str> {
    item.annotations.get(key).map(String::as_str)
}

fn incarnation(registration: &Item) -> &str {
    registration.spec["incarnation"]
        .as_str()
        .unwrap_or_default()
}

/// A time as text, such as `2026-11-22T13:00:00Z`.
mod humantime_text {
    use std::time::SystemTime;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_rfc3339_seconds(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(from)?;
        humantime::parse_rfc3339(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn registration(annotations: &Value) -> Item {
        let metadata =
            json!({"name": "n1", "uid": "r", "resourceVersion": "7", "annotations": annotations});
        let object = json!({"metadata": metadata, "spec": {"incarnation": "ab"}});
        Item::read(Resource::IpamNode.into(), object).unwrap()
    }

    fn note(incarnation: &str) -> String {
        json!({"since": "2026-11-22T13:00:00Z", "incarnation": incarnation, "revision": 5})
            .to_string()
    }

    #[test]
    fn a_node_that_was_never_seen_is_not_missing() {
        let registered = registration(&Value::Null);
        assert_eq!(state(&registered, None), NodeState::NeverSeen);
        let noted = registration(&json!({NODE_MISSING: note("ab")}));
        assert_eq!(state(&noted, None), NodeState::NeverSeen);
        assert_eq!(
            state(&noted, Some("u".into())),
            NodeState::Exists("u".into())
        );
    }

    #[test]
    fn a_note_counts_for_the_registration_of_its_time() {
        let noted = |note: &str| registration(&json!({NODE_UID: "u", NODE_MISSING: note}));
        let NodeState::MissingSince(read) = state(&noted(&note("ab")), None) else {
            panic!("there is a note");
        };
        assert_eq!((read.incarnation.as_str(), read.revision), ("ab", 5));
        for other in [note("cd").as_str(), "", "{}"] {
            assert_eq!(state(&noted(other), None), NodeState::Missing, "{other}");
        }
    }
}
