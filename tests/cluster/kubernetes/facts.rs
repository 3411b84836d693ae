//! `ipam-df-kubernetes` on a real API server: facts of a pod, its namespace and its node.

use harness::{ApiProxy, Call, KUBECTL, KUBERNETES_PROGRAMS, Output, STRACE, needs};
use serde_json::{Value, json};

use super::Cluster;
use crate::pool_cluster::PoolCluster;

const PLUGIN: &str = "ipam-df-kubernetes";

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "labels": {"app": "web"},
            "annotations": {"kubevirt.io/domain": "vm-1", "other": "x"},
        },
        "spec": {
            "nodeName": "worker-1", "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "none"}],
        },
    })
}

/// A node with rights, and the pod `web` on it.
struct Site {
    cluster: Cluster,
    config: Value,
}

impl Site {
    fn new() -> Self {
        let cluster = Cluster::default();
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "shop"},
        });
        let labelled = |kind: &str, name: &str, labels: Value| {
            let metadata = json!({"name": name, "labels": labels});
            json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})
        };
        cluster
            .api
            .apply(&labelled("Namespace", "shop", json!({"team": "a"})));
        cluster
            .api
            .apply(&labelled("Node", "worker-1", json!({"rack": "r7"})));
        cluster.api.apply(&account);
        let mut ipam = cluster.keys("worker-1", "60s");
        ipam["facts"] = json!(["annotation:kubevirt.io/domain"]);
        let config = cluster.sandbox.config("1.1.0", &[PLUGIN], &ipam);
        Self { cluster, config }
    }

    /// Creates a pod; returns its UID.
    fn create(&self, name: &str) -> String {
        let created = self
            .cluster
            .api
            .succeed("POST", "/api/v1/namespaces/shop/pods", &pod(name));
        created["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    fn call(&self, command: &str, pod: &str, uid: &str) -> Call {
        let args = format!("K8S_POD_NAMESPACE=shop;K8S_POD_NAME={pod};K8S_POD_UID={uid}");
        let call = self.cluster.sandbox.call(PLUGIN, command, &self.config);
        call.env("CNI_ARGS", args)
    }

    fn add(&self, pod: &str, uid: &str) -> Output {
        self.call("ADD", pod, uid).run()
    }

    fn give_rights(&self) {
        self.cluster
            .api
            .apply_folder("docs/kubernetes-cluster-pool/facts");
        self.cluster.api.wait_for("the rights", || {
            self.call("STATUS", "", "").run().status.success()
        });
    }
}

#[test]
fn the_facts_of_a_pod_are_those_of_the_api_server() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL, "trace");
    let mut site = Site::new();
    let uid = site.create("web");
    site.add("web", &uid).refused(113, "forbidden");
    site.call("STATUS", "", "").run().refused(50, "forbidden");
    site.give_rights();

    site.config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [], "facts": {"rack": "r7"}});
    let result = site.add("web", &uid).result();
    let mut facts = result["facts"].clone();
    // The API server adds labels of its own to namespaces and nodes.
    facts
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !name.contains("kubernetes.io/"));
    let expected = json!({
        "rack": "r7", "node": "worker-1", "annotation:kubevirt.io/domain": "vm-1",
        "label:app": "web", "namespace-label:team": "a", "node-label:rack": "r7",
        "label:*": null, "annotation:*": null, "namespace-label:*": null, "node-label:*": null,
    });
    assert_eq!(facts, expected);
    assert_eq!(site.add("web", "").result()["facts"], result["facts"]);

    site.add("web", "another")
        .refused(7, "pod shop/web with the UID another");
    site.add("none", "").refused(7, "pod shop/none");
    site.add("../pods", "").refused(4, "K8S_POD_NAME");
    let nameless = site.cluster.sandbox.call(PLUGIN, "ADD", &site.config);
    nameless.run().refused(4, "K8S_POD_NAMESPACE");
    for command in ["CHECK", "DEL"] {
        site.call(command, "none", "").run().nothing();
    }

    // A pod that the cache may not have yet is found.
    for number in 0..20 {
        let name = format!("new-{number}");
        let uid = site.create(&name);
        site.add(&name, &uid).result();
    }

    let trace = site.cluster.sandbox.root().join("trace");
    let strace = [
        STRACE,
        "-f",
        "-qq",
        "-e",
        "trace=connect",
        "-o",
        trace.to_str().unwrap(),
    ];
    site.call("ADD", "web", &uid)
        .through(&strace)
        .run()
        .result();
    let trace = std::fs::read_to_string(trace).unwrap();
    let connections = trace
        .lines()
        .filter(|line| line.contains("AF_INET"))
        .count();
    assert_eq!(connections, 1, "{trace}");
    facts_cost_three_requests_and_an_api_server_that_is_away_is_told(&mut site, &uid);
}

fn facts_cost_three_requests_and_an_api_server_that_is_away_is_told(site: &mut Site, uid: &str) {
    let proxy = ApiProxy::start(&site.cluster.api);
    let direct = site.config.clone();
    site.config = site.cluster.behind(&proxy, &direct);
    site.add("web", uid).result();
    let mut paths: Vec<String> = proxy
        .take_requests()
        .into_iter()
        .map(|one| one.path)
        .collect();
    paths[1..].sort();
    let cached = [
        "/api/v1/namespaces/shop/pods/web?&resourceVersion=0",
        "/api/v1/namespaces/shop?&resourceVersion=0",
        "/api/v1/nodes/worker-1?&resourceVersion=0",
    ];
    assert_eq!(paths, cached);
    site.config = direct;
    site.config["ipam"]["kubernetes"]["timeout"] = json!("2s");
    site.cluster.api.control_plane.stop_api_server();
    site.add("web", uid).refused(11, "the API server");
    site.call("STATUS", "", "")
        .run()
        .refused(50, "the API server");
    site.call("DEL", "web", uid).run().nothing();
}
