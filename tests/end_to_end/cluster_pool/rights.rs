//! A node's identity has exactly the rights that its plugins need.

use std::path::PathBuf;
use std::process::Output;

use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, needs};
use serde_json::{Value, json};

use super::objects::{
    NODES, address, allowed, block, mark, object, path, pool, refused, registration,
};

/// An API server, and the kubeconfig of a user.
struct User<'a> {
    api: &'a KubernetesApi,
    kubeconfig: PathBuf,
}

impl User<'_> {
    fn kubectl(&self, words: &[&str]) -> Output {
        self.api.kubectl_with(&self.kubeconfig, words)
    }

    fn create(&self, object: &Value) -> Output {
        self.api.try_create(&self.kubeconfig, object)
    }

    fn delete(&self, object: &Value) -> Output {
        self.kubectl(&["delete", &path(object)])
    }

    fn patch_status(&self, pool: &str, status: &Value) -> Output {
        let patch = json!({"status": status}).to_string();
        let words = ["patch", "ipool", pool, "--subresource=status"];
        self.kubectl(&[&words[..], &["--type=merge", "-p", &patch]].concat())
    }

    fn replace(&self, object: &Value) -> Output {
        self.api.try_replace(&self.kubeconfig, object)
    }
}

fn sticky_key(ip: &str) -> Value {
    let spec = json!({"pool": "lan", "key": "db-0", "ip": ip});
    object("StickyKey", "lan.0123456789abcdef0123456789abcdef", &spec)
}

#[test]
fn a_node_changes_its_own_objects_and_nothing_else() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let api = KubernetesApi::start().unwrap();
    api.install();
    api.apply(&json!([
        pool("lan", &json!({"subnet": "10.0.0.0/24"})),
        pool("fast", &json!({"subnet": "10.1.0.0/16", "block": 26})),
        address("10.0.0.2", "worker-2"),
        block("10.1.0.0/26", "worker-2"),
        registration("worker-2", "1"),
    ]));
    let node = User {
        api: &api,
        kubeconfig: api.kubeconfig_of_node("worker-1"),
    };
    what_plugins_need_is_allowed(&node);
    let metrics = api.kubectl(&["get", "--raw", "/metrics"]);
    let is_queued = |line: &str| {
        line.starts_with("apiserver_flowcontrol_dispatched_requests_total")
            && line.contains("flow_schema=\"ipam-delegated\"")
            && line.contains("priority_level=\"ipam-delegated\"")
    };
    assert!(
        metrics.lines().any(is_queued),
        "the node's requests have no queue of their own"
    );
    objects_of_other_nodes_are_refused(&node);
    what_is_an_administrators_is_refused(&node);
    rbac_grants_nothing_else(&node);
    of_a_status_only_the_note_of_a_restore_is_changed(&node);
    marks_are_removed_in_order(&node);
    a_token_without_a_node_changes_nothing(&api);
    administrators_change_objects_of_all_nodes(&api);
}

fn what_plugins_need_is_allowed(node: &User<'_>) {
    for kind in KubernetesApi::RESOURCES {
        allowed(&node.kubectl(&["get", kind]));
    }
    allowed(&node.kubectl(&["get", "ipool", "lan"]));
    allowed(&node.create(&registration("worker-1", "1")));
    allowed(&node.replace(&registration("worker-1", "2")));
    for own in [
        address("10.0.0.5", "worker-1"),
        block("10.1.0.64/26", "worker-1"),
        mark("node.worker-1"),
        mark("cluster"),
    ] {
        allowed(&node.create(&own));
        refused(&node.create(&own), "already exists");
        allowed(&node.delete(&own));
    }
    allowed(&node.create(&sticky_key("10.0.0.5")));
    allowed(&node.replace(&sticky_key("10.0.0.6")));
    allowed(&node.delete(&sticky_key("10.0.0.6")));
}

fn objects_of_other_nodes_are_refused(node: &User<'_>) {
    let of = |path: &str| format!("node worker-1 may not change {path}, which is of node worker-2");
    let existing = [
        (address("10.0.0.2", "worker-2"), "addresses/lan.10.0.0.2"),
        (block("10.1.0.0/26", "worker-2"), "blocks/fast.10.1.0.0-26"),
    ];
    for (object, path) in existing {
        refused(&node.delete(&object), &of(path));
    }
    for (object, path) in [
        (address("10.0.0.3", "worker-2"), "addresses/lan.10.0.0.3"),
        (block("10.1.1.0/26", "worker-2"), "blocks/fast.10.1.1.0-26"),
        (mark("node.worker-2"), "restores/node.worker-2"),
    ] {
        refused(&node.create(&object), &of(path));
    }
    let other = registration("worker-3", "1");
    refused(&node.create(&other), "which is of node worker-3");
    refused(
        &node.replace(&registration("worker-2", "2")),
        &of("ipamnodes/worker-2"),
    );
    // A wrong label would assign an address to another node.
    let mut lies = address("10.0.0.4", "worker-1");
    lies["metadata"]["labels"]["ipam-delegated.io/node"] = json!("worker-2");
    let labels = "the labels must be ";
    refused(&node.create(&lies), labels);
    lies["metadata"]["labels"] = json!({});
    refused(&node.create(&lies), labels);
    let mut lies = address("10.0.0.4", "worker-1");
    lies["metadata"]["labels"]["ipam-delegated.io/prefix"] = json!("10.0.1.0-24");
    let prefix = "the label ipam-delegated.io/prefix must be 10.0.0.0-24";
    refused(&node.create(&lies), prefix);
    let mut lies = address("10.0.0.4", "worker-1");
    lies["metadata"]["labels"]["ipam-delegated.io/pod"] = json!("another");
    refused(
        &node.create(&lies),
        "as the spec says: ipam-delegated.io/pod",
    );
}

fn what_is_an_administrators_is_refused(node: &User<'_>) {
    for name in ["begin", "import"] {
        refused(
            &node.create(&mark(name)),
            &format!("may not change restores/{name}"),
        );
    }
    let own = address("10.0.0.7", "worker-1");
    allowed(&node.create(&own));
    let merge = |resource: &str, name: &str, patch: &str| {
        node.kubectl(&["patch", resource, name, "--type=merge", "-p", patch])
    };
    let all = "/apis/ipam-delegated.io/v1/addresses";
    for output in [
        merge(
            "addresses",
            "lan.10.0.0.7",
            r#"{"metadata":{"labels":null}}"#,
        ),
        node.replace(&own),
        node.kubectl(&["delete", "--raw", all]),
        node.delete(&registration("worker-1", "2")),
        merge("pools", "lan", r#"{"spec":{"routes":[]}}"#),
        node.create(&pool("mine", &json!({"subnet": "10.3.0.0/24"}))),
        node.kubectl(&["delete", "ipool", "lan"]),
        node.kubectl(&["get", "secrets", "-A"]),
        node.kubectl(&["get", "nodes"]),
        node.kubectl(&["get", "pods", "-A"]),
        node.kubectl(&["get", "configmaps", "-n", "kube-system"]),
        node.kubectl(&["-n", "kube-system", "create", "token", NODES]),
        node.kubectl(&["get", "pools", "--as=administrator"]),
        node.kubectl(&[
            "delete",
            "validatingadmissionpolicy",
            "nodes.ipam-delegated.io",
        ]),
        node.kubectl(&["delete", "crd", "addresses.ipam-delegated.io"]),
    ] {
        refused(&output, "orbidden");
    }
    allowed(&node.delete(&own));
}

/// The identity has only these rights, besides those of every service account.
fn rbac_grants_nothing_else(node: &User<'_>) {
    let listed = node.kubectl(&["auth", "can-i", "--list", "--no-headers"]);
    allowed(&listed);
    let text = String::from_utf8(listed.stdout).unwrap();
    let mut rights: Vec<String> = text
        .lines()
        // The other lines are paths, such as /healthz.
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    rights.sort();
    let all = |resource: &str, verbs: &str| format!("{resource}.ipam-delegated.io [] [] [{verbs}]");
    let mut expected = vec![
        all("pools", "get list"),
        "pools.ipam-delegated.io/status [] [] [patch]".to_owned(),
        all("addresses", "get list create delete"),
        all("blocks", "get list create delete"),
        all("restores", "get list create update delete"),
        all("ipamnodes", "get list create update"),
        all("stickykeys", "get list create update delete"),
        all("stickyaddresses", "get list create update delete"),
    ];
    for review in [
        "selfsubjectreviews.authentication.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
    ] {
        expected.push(format!("{review} [] [] [create]"));
    }
    expected.sort();
    assert_eq!(rights, expected);
}

fn of_a_status_only_the_note_of_a_restore_is_changed(node: &User<'_>) {
    // kubectl reads a status before it patches it. Nodes don't.
    let status = "--resource=pools.ipam-delegated.io/status";
    let role = ["create", "clusterrole", "statuses", "--verb=get", status];
    node.api.kubectl(&role);
    let account = format!("--serviceaccount=kube-system:{NODES}");
    let binding = ["create", "clusterrolebinding", "statuses"];
    let binding = [&binding[..], &["--clusterrole=statuses", &account]].concat();
    node.api.kubectl(&binding);
    node.api.wait_for("the rights", || {
        let noted = node.patch_status("lan", &json!({"restore": "1"}));
        noted.status.success()
    });
    allowed(&node.patch_status("lan", &json!({"restore": "2"})));
    let only = "a node may only write restore in the status of a pool";
    for status in [
        json!({"restore": null}),
        json!({"restore": ""}),
        json!(null),
        json!({"reserved": 0}),
        json!({"size": 1, "restore": "3"}),
        json!({"byNode": {"worker-2": 0}}),
        json!({"observedAt": "now"}),
    ] {
        refused(&node.patch_status("lan", &status), only);
    }
    // A patch of the status changes nothing else.
    let words = ["get", "ipool", "lan", "-o", "jsonpath={.spec.subnet}"];
    assert_eq!(node.api.kubectl(&words), "10.0.0.0/24");
}

fn marks_are_removed_in_order(node: &User<'_>) {
    let [cluster, own, other] = ["cluster", "node.worker-1", "node.worker-2"].map(mark);
    node.api.apply(&json!([cluster, own, other]));
    let stays = "restores/cluster stays until restores/node.worker-2 is deleted";
    // The policy reads the marks from a cache, which is updated later.
    node.api.wait_for("the marks are known", || {
        let words = ["delete", "restore", "cluster", "--dry-run=server"];
        String::from_utf8_lossy(&node.kubectl(&words).stderr).contains(stays)
    });
    let others = "may not change restores/node.worker-2";
    refused(&node.delete(&other), others);
    refused(&node.replace(&other), others);
    // A new revision of the object says that a mark was set.
    allowed(&node.replace(&cluster));
    allowed(&node.delete(&own));
    refused(&node.delete(&cluster), stays);
    node.api.kubectl(&["delete", &path(&other)]);
    node.api.wait_for("the last mark is known to be gone", || {
        node.kubectl(&["delete", &path(&cluster)]).status.success()
    });
}

fn a_token_without_a_node_changes_nothing(api: &KubernetesApi) {
    let user = User {
        api,
        kubeconfig: api.kubeconfig_of_account("kube-system", NODES),
    };
    let unbound = "the token isn't bound to a pod on a node";
    refused(&user.create(&address("10.0.0.8", "worker-1")), unbound);
    refused(&user.delete(&address("10.0.0.2", "worker-2")), unbound);
    refused(&user.create(&mark("cluster")), unbound);
}

fn administrators_change_objects_of_all_nodes(api: &KubernetesApi) {
    let role = "--clusterrole=ipam-delegated-administrator";
    api.kubectl(&[
        "create",
        "clusterrolebinding",
        "operators",
        role,
        "--user=operator",
    ]);
    let operator = User {
        api,
        kubeconfig: api.kubeconfig_of_user("operator"),
    };
    api.wait_for("the rights", || {
        operator.kubectl(&["get", "pools"]).status.success()
    });
    allowed(&operator.create(&mark("import")));
    allowed(&operator.delete(&address("10.0.0.2", "worker-2")));
    allowed(&operator.delete(&registration("worker-2", "1")));
    refused(&operator.kubectl(&["get", "secrets", "-A"]), "orbidden");
    let words = ["-n", "kube-system", "create", "serviceaccount", "operator"];
    api.kubectl(&words);
    api.kubectl(&[
        "create",
        "clusterrolebinding",
        "pods",
        role,
        "--serviceaccount=kube-system:operator",
    ]);
    // In a pod, an administrator's token names a node as well.
    let in_pod = User {
        api,
        kubeconfig: api
            .kubeconfig_with_token("operator", &api.token_in_pod("operator", "worker-1")),
    };
    api.wait_for("the rights", || {
        in_pod.kubectl(&["get", "pools"]).status.success()
    });
    allowed(&in_pod.delete(&block("10.1.0.0/26", "worker-2")));
    let stranger = User {
        api,
        kubeconfig: api.kubeconfig_of_user("stranger"),
    };
    refused(&stranger.kubectl(&["get", "pools"]), "orbidden");
}
