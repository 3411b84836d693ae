//! Converts between the API's objects and the values of the cluster's rules.
//!
//! A value is a JSON object. Its keys are keys of `spec`; the pool and the address are in the
//! object's name instead.

use cluster::{BlockOwner, HeldKey, Holder, Key, Registration, Stored};
use cni::Attachment;
use serde_json::{Map, Value, json};

use crate::names::{key_of, object_of, prefix};
use crate::{GROUP, Item, Resource, VERSION};

/// Keys of an address's `spec` that are not in its value.
const BESIDE_THE_HOLDER: [&str; 4] = ["pool", "ip", POD_NAMESPACE, POD_NAME];

const POD_NAMESPACE: &str = "podNamespace";
const POD_NAME: &str = "podName";

/// The pod of a call. It is shown to people only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
}

/// The object for this key and value; `None` for a foreign key or an invalid value.
pub(crate) fn object(key: &Key, value: &[u8], pod: &Pod) -> Option<Value> {
    let (kind, name) = object_of(key)?;
    let mut spec = match key {
        Key::Mark(_) => return Some(restore(&name)),
        Key::StickyKey(..) | Key::StickyAddress(..) => Map::new(),
        _ => serde_json::from_slice(value).ok()?,
    };
    let mut labels = Labels::default();
    let text = || str::from_utf8(value).ok();
    match key {
        Key::Address(pool, ip) => {
            let holder = Holder::parse(value)?;
            spec.insert("pool".into(), pool.as_str().into());
            spec.insert("ip".into(), ip.to_string().into());
            for (key, label, text) in [
                (POD_NAMESPACE, "namespace", &pod.namespace),
                (POD_NAME, "pod", &pod.name),
            ] {
                if let Some(text) = text {
                    spec.insert(key.into(), text.as_str().into());
                    labels.add(label, text);
                }
            }
            labels.add("pool", pool);
            labels.add("prefix", &prefix(*ip));
            labels.add("node", &holder.node);
            labels.add("network", &holder.network);
        }
        Key::Block(pool, cidr) => {
            spec.insert("pool".into(), pool.as_str().into());
            spec.insert("cidr".into(), cidr.to_string().into());
            labels.add("pool", pool);
            labels.add("node", &BlockOwner::parse(value)?.node);
        }
        Key::StickyKey(pool, key) => {
            spec.extend(sticky(pool, key, text()?));
            labels.add("pool", pool);
        }
        Key::StickyAddress(pool, ip) => {
            spec.extend(sticky(pool, text()?, &ip.to_string()));
            labels.add("pool", pool);
        }
        Key::Pool(_) | Key::Node(_) | Key::Mark(_) | Key::Held(_) | Key::Foreign(_) => {}
    }
    Some(json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": kind.kind(),
        "metadata": {"name": name, "labels": labels.0},
        "spec": spec,
    }))
}

/// The object's key and value. The value of a foreign object is its whole `spec`, which no rule
/// accepts.
pub(crate) fn stored(kind: Resource, item: &Item) -> Stored {
    let spec = &item.spec;
    let key = match kind {
        Resource::StickyKey => sticky_key(&item.name, spec),
        _ => key_of(kind, &item.name),
    };
    let text = |key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default();
    // Without its spec, only the object's name is checked.
    let key = key.filter(|key| match key {
        Key::Address(pool, ip) if spec.is_object() => {
            text("pool") == pool && text("ip").parse() == Ok(*ip)
        }
        _ => true,
    });
    let value = match &key {
        Some(Key::Address(..)) => holder(spec).map(|holder| holder.to_value()),
        Some(Key::Block(..)) => typed::<BlockOwner>(spec).map(|owner| owner.to_value()),
        Some(Key::Node(_)) => {
            typed::<Registration>(spec).map(|registration| registration.to_value().into_bytes())
        }
        Some(Key::StickyKey(..)) => Some(text("ip").into()),
        Some(Key::StickyAddress(..)) => Some(text("key").into()),
        Some(Key::Mark(_)) => Some(Vec::new()),
        _ => None,
    };
    Stored {
        key: key.unwrap_or_else(|| Key::Foreign(path(kind, &item.name))),
        value: value.unwrap_or_else(|| spec.to_string().into_bytes()),
        revision: item.revision,
    }
}

/// The key by which DEL and GC look for this address; `None` if the object isn't ours.
pub(crate) fn held(item: &Item) -> Option<HeldKey> {
    let Some(Key::Address(pool, ip)) = key_of(Resource::Address, &item.name) else {
        return None;
    };
    let holder = holder(&item.spec)?;
    Some(HeldKey {
        node: holder.node,
        network: holder.network.parse().ok()?,
        attachment: Attachment {
            container_id: holder.container_id.parse().ok()?,
            ifname: holder.ifname.parse().ok()?,
        },
        pool: pool.parse().ok()?,
        ip,
    })
}

/// A restore of this name. No address is given while it exists.
pub(crate) fn restore(name: &str) -> Value {
    let node = name.strip_prefix("node.").unwrap_or_default();
    let mut labels = Labels::default();
    labels.add("node", node);
    let since = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": Resource::Restore.kind(),
        "metadata": {"name": name, "labels": labels.0},
        "spec": {"since": since.to_string(), "call": format!("{:x}", fastrand::u64(..))},
    })
}

/// The path of an object for `kubectl get`: `addresses.ipam-delegated.io/blue.10.0.0.5`.
pub(crate) fn path(kind: Resource, name: &str) -> String {
    format!("{}.{GROUP}/{name}", kind.plural())
}

/// Full name of a label. A selector is this name, `=`, and the value.
pub(crate) fn label(name: &str) -> String {
    format!("{GROUP}/{name}")
}

/// True for a valid value of a label.
pub(crate) fn is_label_value(text: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= 63
        && is_end(text.chars().next())
        && is_end(text.chars().next_back())
        && text.chars().all(is_inner)
}

/// Labels of an object. Invalid label values are left out; they are in `spec`.
#[derive(Default)]
struct Labels(Map<String, Value>);

impl Labels {
    fn add(&mut self, name: &str, value: &str) {
        if is_label_value(value) {
            self.0.insert(label(name), value.into());
        }
    }
}

fn sticky(pool: &str, key: &str, ip: &str) -> Map<String, Value> {
    let pairs = [("pool", pool), ("key", key), ("ip", ip)];
    let pairs = pairs.map(|(name, text)| (name.to_owned(), text.into()));
    pairs.into_iter().collect()
}

fn sticky_key(name: &str, spec: &Value) -> Option<Key> {
    let text = |key: &str| Some(spec.get(key)?.as_str()?.to_owned());
    let key = Key::StickyKey(text("pool")?, text("key")?);
    let (_, ours) = object_of(&key)?;
    (ours == name).then_some(key)
}

fn holder(spec: &Value) -> Option<Holder> {
    let mut own = spec.as_object()?.clone();
    for key in BESIDE_THE_HOLDER {
        own.remove(key);
    }
    serde_json::from_value(own.into()).ok()
}

fn typed<T: serde::de::DeserializeOwned>(spec: &Value) -> Option<T> {
    serde_json::from_value(spec.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, spec: &Value) -> Item {
        let metadata = json!({"name": name, "uid": "u", "resourceVersion": "7"});
        Item::read(
            Resource::Address.into(),
            json!({"metadata": metadata, "spec": spec}),
        )
        .unwrap()
    }

    fn read_back(key: &Key, value: &[u8]) -> Stored {
        let pod = Pod {
            namespace: Some("shop".to_owned()),
            name: Some("a b".to_owned()),
        };
        let object = object(key, value, &pod).unwrap();
        let (kind, name) = object_of(key).unwrap();
        stored(kind, &item(&name, &object["spec"]))
    }

    #[test]
    fn every_value_is_read_back_byte_by_byte() {
        let holder = r#"{"node":"n1","network":"net","containerID":"c1","ifname":"eth0","since":"2026-11-22T00:00:00Z","call":"ab"}"#;
        let owner = r#"{"node":"n1","since":"2026-11-22T00:00:00Z"}"#;
        let registration = r#"{"token":"ab","incarnation":"cd","host":"h","hardware":null,"boot":"b","since":"2026-11-22T00:00:00Z"}"#;
        let ip = "10.0.0.5".parse().unwrap();
        for (key, value) in [
            (Key::Address("blue".into(), ip), holder),
            (
                Key::Block("blue".into(), "10.0.0.64/26".parse().unwrap()),
                owner,
            ),
            (Key::Node("n1".into()), registration),
            (Key::StickyKey("blue".into(), "a/b c".into()), "10.0.0.5"),
            (Key::StickyAddress("blue".into(), ip), "a/b c"),
            (Key::Mark("n1".into()), ""),
            (
                Key::Pool("blue".into()),
                r#"{"ranges":[{"subnet":"10.0.0.0/24"}],"vlan":7}"#,
            ),
        ] {
            let stored = read_back(&key, value.as_bytes());
            assert_eq!(stored.key, key);
            assert_eq!(String::from_utf8(stored.value).unwrap(), value);
        }
    }

    #[test]
    fn an_address_has_labels_for_people_and_only_what_a_label_can_have() {
        let holder =
            br#"{"node":"n1","network":"net","containerID":"c1","ifname":"eth0","since":"x"}"#;
        let key = Key::Address("blue".into(), "fd00::5".parse().unwrap());
        let pod = Pod {
            namespace: Some("shop".to_owned()),
            name: Some("x".repeat(64)),
        };
        let object = object(&key, holder, &pod).unwrap();
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["ipam-delegated.io/namespace"], "shop");
        assert_eq!(labels["ipam-delegated.io/node"], "n1");
        let prefix = &labels["ipam-delegated.io/prefix"];
        assert_eq!(prefix, "fd00-0-0-0-0-0-0-0-64");
        assert!(labels.get("ipam-delegated.io/pod").is_none());
        assert_eq!(object["spec"]["podName"], "x".repeat(64));
        assert_eq!(object["spec"]["ip"], "fd00::5");
        assert_eq!(object["metadata"]["name"], "blue.fd00-0-0-0-0-0-0-5");
    }

    #[test]
    fn an_address_whose_spec_says_another_is_not_ours() {
        let spec = json!({"pool": "red", "ip": "10.0.0.5", "node": "n1", "network": "net",
            "containerID": "c1", "ifname": "eth0", "since": "x"});
        let item = item("blue.10.0.0.5", &spec);
        let foreign = Key::Foreign("addresses.ipam-delegated.io/blue.10.0.0.5".to_owned());
        assert_eq!(stored(Resource::Address, &item).key, foreign);
    }
}
