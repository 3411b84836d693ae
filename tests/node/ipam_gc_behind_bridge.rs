//! `ipam-gc` behind `bridge`, called in libcni's order (`libcni/api.go`).
//!
//! Debian 12's `bridge` knows CNI up to 1.0.0, so libcni sends it no GC. For 1.1.0, a
//! stand-in answers as `bridge` 1.9.1 does (`plugins/main/bridge/bridge.go`), and leaves
//! the plumbing to Debian's.

use std::cell::RefCell;
use std::collections::BTreeMap;

use harness::{Call, Node, Output, REFERENCE_PLUGINS, Sandbox, needs};
use serde_json::{Value, json};

use harness::{blocks, document};

/// The stand-in. It answers GC and doesn't pass it on; a STATUS isn't made.
const BRIDGE: &str = r#"case $CNI_COMMAND in
GC) cat > /dev/null; exit 0 ;;
esac
out=$(sed 's/"cniVersion":"1.1.0"/"cniVersion":"1.0.0"/g' | DEBIANS)
status=$?
printf '%s\n' "$out" | sed '/./!d; s/"cniVersion": "1.0.0"/"cniVersion": "1.1.0"/'
exit $status"#;

/// Calls the IPAM plugin.
const HANDED_ON: &str = r#"exec "${0%/*}/ipam-delegated""#;

/// libcni with one network, on a test node.
struct Libcni {
    node: Node,
    sandbox: Sandbox,
    conflist: Value,
    /// The final result of each attachment, by its container.
    cache: RefCell<BTreeMap<String, Value>>,
}

impl Libcni {
    /// The conflist of the documentation with this version.
    fn new(version: &str, sandbox: Sandbox) -> Self {
        let conflists = blocks(&document("docs/operations.md"), "json");
        let mut conflist = conflists
            .iter()
            .map(|block| serde_json::from_str::<Value>(block).unwrap())
            .find(|conflist| conflist["plugins"][1]["type"] == "ipam-gc")
            .unwrap();
        conflist["cniVersion"] = json!(version);
        for plugin in conflist["plugins"].as_array_mut().unwrap() {
            let ipam = &mut plugin["ipam"];
            ipam["ranges"] = json!([[{ "subnet": "10.77.0.0/16" }]]);
            ipam["dataDir"] = json!(sandbox.data_dir());
            ipam["stateDir"] = json!(sandbox.state_dir());
        }
        let node = Node::new();
        node.sh("for n in 1 2 3; do ip netns add c$n; done");
        Self {
            node,
            sandbox,
            conflist,
            cache: RefCell::default(),
        }
    }

    fn plugins(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.conflist["plugins"].as_array().unwrap().iter()
    }

    /// Calls one plugin with further keys. libcni sets every variable, some of them to the empty
    /// string.
    fn call(&self, command: &str, plugin: &Value, container: &str, keys: &Value) -> Output {
        let mut config = plugin.clone();
        config["cniVersion"] = self.conflist["cniVersion"].clone();
        config["name"] = self.conflist["name"].clone();
        let keys = keys.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(keys);
        let name = plugin["type"].as_str().unwrap();
        let path = [self.sandbox.plugins(), REFERENCE_PLUGINS.into()];
        let executable = path.iter().map(|folder| folder.join(name));
        let executable = executable.into_iter().find(|path| path.exists()).unwrap();
        let (netns, ifname) = match container {
            "" => (String::new(), ""),
            _ => (format!("/run/netns/{container}"), "eth0"),
        };
        Call::new(executable)
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", container)
            .env("CNI_NETNS", netns)
            .env("CNI_IFNAME", ifname)
            .env("CNI_ARGS", "")
            .env("CNI_PATH", std::env::join_paths(&path).unwrap())
            .stdin(serde_json::to_vec(&config).unwrap())
            .run_on(&self.node)
    }

    /// `AddNetworkList`: each plugin gets the result of the one before.
    fn add(&self, container: &str) -> Value {
        let mut keys = json!({});
        for plugin in self.plugins() {
            let result = self.call("ADD", plugin, container, &keys).result();
            keys = json!({ "prevResult": result });
        }
        let result = keys["prevResult"].take();
        let mut cache = self.cache.borrow_mut();
        cache.insert(container.to_owned(), result.clone());
        result
    }

    /// `CheckNetworkList`: each plugin gets the cached result.
    fn check(&self, container: &str) {
        let prev_result = self.cache.borrow()[container].clone();
        for plugin in self.plugins() {
            let keys = json!({ "prevResult": prev_result });
            self.call("CHECK", plugin, container, &keys).nothing();
        }
    }

    /// `DelNetworkList`: calls the last plugin first, each with the cached result.
    fn del(&self, container: &str) {
        let keys = match self.cache.borrow_mut().remove(container) {
            Some(prev_result) => json!({ "prevResult": prev_result }),
            None => json!({}),
        };
        for plugin in self.plugins().rev() {
            self.call("DEL", plugin, container, &keys).nothing();
        }
    }

    /// `GCNetworkList`: DEL of the attachments that are cached and not valid; then, from 1.1.0 on,
    /// GC of each plugin. Returns the outputs of GC.
    fn gc(&self, valid: &[&str]) -> Vec<Output> {
        let cached: Vec<String> = self.cache.borrow().keys().cloned().collect();
        for container in cached {
            if !valid.contains(&container.as_str()) {
                self.del(&container);
            }
        }
        if self.conflist["cniVersion"] != "1.1.0" {
            return Vec::new();
        }
        let attachment = |id: &&str| json!({"containerID": id, "ifname": "eth0"});
        let valid: Vec<Value> = valid.iter().map(attachment).collect();
        let keys = json!({"cni.dev/valid-attachments": valid, "cni.dev/attachments": valid});
        self.plugins()
            .map(|plugin| self.call("GC", plugin, "", &keys))
            .collect()
    }

    /// Makes libcni forget an attachment whose container has ended, as after a crash.
    fn forget(&self, container: &str) {
        self.cache.borrow_mut().remove(container).unwrap();
        self.node.sh(&format!("ip netns del {container}"));
    }

    fn reserved(&self) -> Vec<String> {
        self.sandbox.reserved("mynet")
    }
}

/// A sandbox with this stand-in of `bridge`.
fn stand_in(body: &str) -> Sandbox {
    let debians = format!("{REFERENCE_PLUGINS}/bridge");
    Sandbox::default().with_script("bridge", &body.replace("DEBIANS", &debians))
}

#[test]
fn gc_collects_a_forgotten_attachment_though_bridge_swallows_it() {
    needs!("root", "bridge");
    let libcni = Libcni::new("1.1.0", stand_in(BRIDGE));
    for container in ["c1", "c2", "c3"] {
        let result = libcni.add(container);
        assert_eq!(result["cniVersion"], "1.1.0");
        libcni.check(container);
    }
    libcni.forget("c1");
    let main_plugin = &libcni.conflist["plugins"][0];
    let keys = json!({"cni.dev/valid-attachments": []});
    libcni.call("GC", main_plugin, "", &keys).nothing();
    assert_eq!(libcni.reserved().len(), 3, "bridge hands no GC on");

    // c1 is forgotten, c2 is cached and not valid, c3 is valid.
    let outputs = libcni.gc(&["c3"]);
    assert_eq!(outputs.len(), 2);
    outputs.iter().for_each(Output::nothing);
    assert_eq!(libcni.reserved(), ["10.77.0.4"]);
    assert_eq!(libcni.sandbox.records("mynet"), ["c3:eth0.json"]);
    libcni.check("c3");
    libcni.del("c3");
    assert!(libcni.reserved().is_empty());
}

#[test]
fn a_main_plugin_that_hands_gc_on_does_no_harm() {
    needs!("root", "bridge");
    let hands_on = BRIDGE.replace("cat > /dev/null; exit 0", HANDED_ON);
    let libcni = Libcni::new("1.1.0", stand_in(&hands_on));
    for container in ["c1", "c2"] {
        libcni.add(container);
    }
    libcni.forget("c1");
    libcni.gc(&["c2"]).iter().for_each(Output::nothing);
    assert_eq!(libcni.reserved(), ["10.77.0.3"]);
    libcni.check("c2");
}
