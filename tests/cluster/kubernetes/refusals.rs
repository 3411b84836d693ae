//! What the API server refuses, what isn't the API server, and what others have written.

use std::fs;
use std::path::Path;

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::{Value, json};

use super::Cluster;
use super::objects::address;
use crate::pool_cluster::PoolCluster;

#[test]
fn a_node_is_told_what_is_wrong_and_no_node_stops_another() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = Cluster::default();
    a_missing_pool_is_named_as_kubectl_names_it(&cluster);
    a_node_with_the_token_of_another_one_is_refused(&cluster);
    a_full_pool_is_listed_once_and_by_names(&cluster);
    what_one_node_writes_stops_no_other_node(&cluster);
    labels_of_others_and_missing_ones_break_nothing(&cluster);
    a_policy_that_adds_labels_breaks_nothing(&cluster);
    an_address_that_a_finalizer_keeps_is_not_released(&cluster);
    a_page_is_no_answer(&cluster);
    a_kubeconfig_is_refused_by_its_key(&cluster);
    without_the_kinds_nothing_is_taken_for_released(&mut cluster);
}

fn blue() -> Value {
    json!([{"name": "blue"}])
}

fn a_missing_pool_is_named_as_kubectl_names_it(cluster: &Cluster) {
    let config = cluster.config("n1", &json!([{"name": "shop"}]));
    let text = "Kubernetes has no pool \"shop\": pools.ipam-delegated.io/shop is missing";
    cluster.add("c1", &config).refused(7, text);
    cluster.define("blue", &json!({"subnet": "10.0.0.0/28"}));
}

fn a_node_with_the_token_of_another_one_is_refused(cluster: &Cluster) {
    let mut config = cluster.config("n1", &blue());
    config["ipam"]["node"] = json!("n2");
    let text =
        "node n1 may not change addresses of node n2; ipam.node must be the node of the token";
    cluster.alone("ADD", "c1", &config).run().refused(113, text);
    config["ipam"]["kubernetes"]["kubeconfig"] =
        json!(cluster.api.kubeconfig_with_token("nobody", "wrong"));
    cluster
        .alone("ADD", "c1", &config)
        .run()
        .refused(113, "(401)");
}

/// The list of a full pool is what its refusal costs the API server.
fn a_full_pool_is_listed_once_and_by_names(cluster: &Cluster) {
    let direct = cluster.config("n1", &blue());
    let proxy = ApiProxy::start(&cluster.api);
    let config = cluster.behind(&proxy, &direct);
    for i in 0..13 {
        cluster
            .alone("ADD", &format!("p{i}"), &direct)
            .run()
            .result();
    }
    proxy.decide(|_| Fate::Answered);
    let full = cluster.alone("ADD", "p13", &config).run();
    full.refused(11, "has no address left: all 13 are reserved");
    let requests = proxy.take_requests().into_iter();
    let paths: Vec<String> = requests.map(|request| request.path).collect();
    let lists = paths.iter().filter(|path| path.contains("addresses?"));
    let lists: Vec<&String> = lists
        .filter(|path| path.contains("labelSelector="))
        .collect();
    assert_eq!(lists.len(), 1, "{paths:?}");
    assert!(lists[0].contains("includeObject=None"), "{paths:?}");
    cluster.api.kubectl(&["delete", "ipaddr", "--all"]);
}

fn what_one_node_writes_stops_no_other_node(cluster: &Cluster) {
    let kubeconfig = cluster.kubeconfig("n1");
    let mut foreign = address("10.0.0.3", "10.0.0.3", "n1");
    foreign["spec"]["pool"] = json!("none");
    let mut other_space = address("x.10.0.0.4", "10.0.0.4", "n1");
    other_space["spec"]["space"] = json!("x");
    for mut object in [foreign, other_space] {
        object["metadata"]["labels"]["ipam-delegated.io/pool"] = json!("blue");
        let created = cluster.api.try_with("create", &kubeconfig, &object);
        assert!(created.status.success(), "{created:?}");
    }
    let config = cluster.config("n2", &blue());
    cluster.call("STATUS", "", &config).run().nothing();
    // All but the gateway and the one that is taken.
    let given: Vec<String> = (0..12)
        .flat_map(|i| cluster.add(&format!("p{i}"), &config).ips())
        .collect();
    assert_eq!(given.len(), 12);
    assert!(!given.contains(&"10.0.0.3".to_owned()), "{given:?}");
    cluster.add("p12", &config).refused(11, "no address left");
    for i in 0..12 {
        cluster.del(&format!("p{i}"), &config).nothing();
    }
    cluster.api.kubectl(&["delete", "ipaddr", "--all"]);
}

fn labels_of_others_and_missing_ones_break_nothing(cluster: &Cluster) {
    let config = cluster.config("n1", &blue());
    let object_of = |container: &str| {
        let ip = &cluster.add(container, &config).ips()[0];
        format!("addresses.ipam-delegated.io/{ip}")
    };
    let label = |object: &str, label: &str| {
        cluster
            .api
            .kubectl(&["label", "--overwrite", object, label]);
    };
    label(&object_of("c1"), "example.org/team=shop");
    label(&object_of("c2"), "ipam-delegated.io/node-");
    label(&object_of("c3"), "ipam-delegated.io/attachment=another");
    for container in ["c1", "c2", "c3"] {
        cluster.del(container, &config).nothing();
    }
    assert_eq!(cluster.addresses(), Vec::<String>::new());
    // A list finds another one's address by wrong labels, and keeps it.
    let other = object_of("c4");
    let mut attachment = cluster.api.get(&other, &[]).remove(0);
    let labels = attachment["metadata"]["labels"].take();
    let text = labels["ipam-delegated.io/attachment"].as_str().unwrap();
    let ip = match other.ends_with("10.0.0.14") {
        true => "10.0.0.13",
        false => "10.0.0.14",
    };
    let mut wrong = address(ip, ip, "n2");
    wrong["metadata"]["labels"]["ipam-delegated.io/attachment"] = json!(text);
    let kubeconfig = cluster.kubeconfig("n2");
    let created = cluster.api.try_with("create", &kubeconfig, &wrong);
    assert!(created.status.success(), "{created:?}");
    // An administrator may do this, too.
    let object = format!("addresses.ipam-delegated.io/{ip}");
    label(&object, "ipam-delegated.io/node=n1");
    cluster.alone("DEL", "c4", &config).run().nothing();
    let kept = format!("{ip} n2/storage/c1:net1");
    assert_eq!(cluster.addresses(), [kept]);
    cluster.api.kubectl(&["delete", "ipaddr", "--all"]);
    cluster.del("c4", &config).nothing();
}

fn a_policy_that_adds_labels_breaks_nothing(cluster: &Cluster) {
    let version = "admissionregistration.k8s.io/v1";
    let addresses = json!({"apiGroups": ["ipam-delegated.io"], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["addresses"]});
    let labels = r#"Object{metadata: Object.metadata{labels: {"example.org/team": "shop"}}}"#;
    let policy = json!({
        "apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "team"},
        "spec": {
            "matchConstraints": {"resourceRules": [addresses]},
            "reinvocationPolicy": "Never",
            "mutations": [{
                "patchType": "ApplyConfiguration", "applyConfiguration": {"expression": labels},
            }],
        },
    });
    let binding = json!({
        "apiVersion": version, "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "team"}, "spec": {"policyName": "team"},
    });
    cluster.api.apply(&json!([policy, binding]));
    let config = cluster.config("n1", &blue());
    // The API server takes a new policy into account a moment later.
    cluster.api.wait_for("a label of the policy", || {
        cluster.add("c1", &config).result();
        let labelled = cluster.api.get("ipaddr", &["-l", "example.org/team=shop"]);
        cluster.del("c1", &config).nothing();
        assert_eq!(cluster.addresses(), Vec::<String>::new());
        labelled.len() == 1
    });
    for kind in ["mutatingadmissionpolicybinding", "mutatingadmissionpolicy"] {
        cluster.api.kubectl(&["delete", kind, "team"]);
    }
}

fn an_address_that_a_finalizer_keeps_is_not_released(cluster: &Cluster) {
    let config = cluster.config_within("n1", &blue(), "2s");
    let ip = &cluster.add("c1", &config).ips()[0];
    let object = format!("addresses.ipam-delegated.io/{ip}");
    let set = |finalizers: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{finalizers}}}}}"#);
        cluster
            .api
            .kubectl(&["patch", &object, "--type=merge", "-p", &patch]);
    };
    set(r#"["example.org/audit"]"#);
    for _ in 0..2 {
        cluster.del("c1", &config).refused(11, "example.org/audit");
        assert_eq!(cluster.addresses().len(), 1);
    }
    set("null");
    cluster.del("c1", &config).nothing();
    assert_eq!(cluster.addresses(), Vec::<String>::new());
}

/// Something in front of the API server answers for it.
fn a_page_is_no_answer(cluster: &Cluster) {
    let direct = cluster.config_within("n1", &blue(), "1s");
    let proxy = ApiProxy::start(&cluster.api);
    let config = cluster.behind(&proxy, &direct);
    cluster.alone("ADD", "c1", &direct).run().result();
    for status in [200, 404, 403, 503] {
        proxy.decide(move |_| Fate::Refused(status, Vec::new(), "<html>".to_owned()));
        for command in ["ADD", "DEL"] {
            let output = cluster.alone(command, "c1", &config).run();
            assert!([11, 113].contains(&output.code()), "{status}: {output:?}");
        }
        assert_eq!(cluster.addresses().len(), 1, "{status}");
    }
    cluster.alone("DEL", "c1", &direct).run().nothing();
}

fn a_kubeconfig_is_refused_by_its_key(cluster: &Cluster) {
    let config = cluster.config("n1", &blue());
    let original = cluster.kubeconfig("n1");
    let content: Value = serde_json::from_slice(&fs::read(&original).unwrap()).unwrap();
    let file = cluster.sandbox.root().join("wrong.kubeconfig");
    let refused = |content: &str, code: u64, text: &str| {
        fs::write(&file, content).unwrap();
        let mut config = config.clone();
        config["ipam"]["kubernetes"]["kubeconfig"] = json!(file);
        cluster
            .alone("ADD", "c1", &config)
            .run()
            .refused(code, text);
    };
    let with = |part: &str, key: &str, value: Value| {
        let mut content = content.clone();
        content[format!("{part}s")][0][part][key] = value;
        content.to_string()
    };
    let path = file.to_str().unwrap();
    refused("{", 7, path);
    refused("{}", 7, path);
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/true"});
    refused(&with("user", "exec", exec), 7, "exec");
    let proxy = json!("http://proxy.example:3128");
    refused(&with("cluster", "proxy-url", proxy), 7, "proxy-url");
    let mut without_token: Value =
        serde_json::from_str(&with("user", "token", Value::Null)).unwrap();
    without_token["users"][0]["user"] = json!({"tokenFile": "/nowhere/token"});
    refused(&without_token.to_string(), 7, "/nowhere/token");
    // Another authority than the one that has signed the API server's certificate.
    let other = harness::Authority::new(&cluster.sandbox.root().join("authority"));
    let ca = json!(other.ca());
    refused(
        &with("cluster", "certificate-authority", ca),
        113,
        "certificate",
    );
    // A name of a variable for proxies is ignored: it is meant for images.
    let kubeconfig = Path::new(&original);
    assert!(kubeconfig.exists());
    let call = cluster.alone("ADD", "c1", &config);
    call.env("HTTPS_PROXY", "http://127.0.0.1:9").run().result();
    cluster.alone("DEL", "c1", &config).run().nothing();
}

fn without_the_kinds_nothing_is_taken_for_released(cluster: &mut Cluster) {
    let config = cluster.config_within("n1", &blue(), "1s");
    cluster.add("c1", &config).result();
    let kinds = ["pools.ipam-delegated.io", "addresses.ipam-delegated.io"];
    cluster
        .api
        .kubectl(&[&["delete", "crd"], &kinds[..]].concat());
    let text = "the kinds of ipam-delegated.io/v1 are missing";
    cluster.add("c2", &config).refused(11, text);
    cluster.del("c1", &config).refused(11, text);
}
