//! The commands of `docs/kubernetes.md`, from the first pod to the removal, on containerd 1.6.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use harness::{
    Flavour, Image, KubernetesCluster, KubernetesNode, NODES, PLUGINS, POD_IMAGE, assert_has,
    claim, pod,
};

use super::is_not_ready;
use super::reservations::{no_leaks, reserved, reserved_is_running};

/// A network with the bridge plugin and `host-local`, before ours in the order of names.
const OTHER_NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "bridge",
    "bridge": "other0", "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.99.0.0/24"}]]}}]}"#;

/// Runs `what` while pods start and end on both nodes.
fn under_churn(cluster: &KubernetesCluster, what: impl FnOnce()) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for node in NODES {
            let is_done = &is_done;
            scope.spawn(move || {
                let file = cluster.root().join(format!("churn-{node}.yaml"));
                let manifest = pod("shop", &format!("churn-{node}"), Some(node));
                std::fs::write(&file, manifest.to_string()).unwrap();
                let file = file.display();
                while !is_done.load(Relaxed) {
                    cluster.sh(&format!(
                        "kubectl apply -f {file}
                         kubectl wait -f {file} --for=condition=Ready --timeout=120s
                         kubectl delete -f {file}"
                    ));
                }
            });
        }
        what();
        is_done.store(true, Relaxed);
    });
}

#[track_caller]
fn all_nodes_have(cluster: &KubernetesCluster, flavour: &str) {
    for node in cluster.nodes() {
        let version = node.sh("/opt/cni/bin/ipam-delegated --version");
        assert!(version.contains(flavour), "{}: {version}", node.name());
    }
}

fn upgrade_and_rollback(cluster: &KubernetesCluster) {
    let verbose = Image::of(Flavour::Verbose).file;
    cluster.nodes().iter().for_each(|node| node.load(&verbose));
    under_churn(cluster, || {
        cluster.as_documented(&[
            "kubectl -n kube-system set image daemonset/ipam-delegated installer=localhost/ipam-delegated:0.1.0-verbose",
            "kubectl -n kube-system rollout status daemonset/ipam-delegated",
        ]);
        all_nodes_have(cluster, ", verbose)");
        cluster.as_documented(&["kubectl -n kube-system rollout undo daemonset/ipam-delegated"]);
        cluster.as_documented(&["kubectl -n kube-system rollout status daemonset/ipam-delegated"]);
        all_nodes_have(cluster, ", normal)");
    });
    let failed =
        "kubectl -n shop get events --field-selector=reason=FailedCreatePodSandBox -o name";
    assert_eq!(cluster.lines(failed), [""; 0]);
    cluster.wait_for_pods("shop", 0);
    reserved_is_running(cluster);
    no_leaks(cluster);
}

fn first_pod(cluster: &KubernetesCluster) {
    let image = [("IMAGE", POD_IMAGE)];
    cluster.as_documented(&["kubectl create namespace shop"]);
    let account = "kubectl -n shop get serviceaccount default";
    cluster.wait_for(account, || cluster.succeeds(account));
    cluster.as_documented_with(&["kubectl -n shop run web --image=IMAGE"], &image);
    cluster.wait_for_pods("shop", 1);
    let address = cluster.pod("shop", "web").unwrap().address;
    assert!(
        ["10.244.1.10", "10.244.2.10"].contains(&address.as_str()),
        "{address}"
    );
    let shown = cluster.as_documented(&["kubectl -n shop get pod web -o wide"]);
    assert!(shown.contains(&address), "{shown}");
    cluster.apply(&pod("default", "other", Some(NODES[0])).to_string());
    cluster.wait_for_pods("default", 1);
    let other = cluster.pod("default", "other").unwrap().address;
    let rest = other
        .strip_prefix("10.244.1.")
        .and_then(|host| host.parse().ok());
    assert!(rest.is_some_and(|host: u8| host >= 100), "{other}");
}

fn look(cluster: &KubernetesCluster) {
    let web = cluster.pod("shop", "web").unwrap();
    let mut pods = cluster.pods();
    pods.retain(|pod| pod.on_host && pod.node == web.node);
    let values = [("POD-OF-THE-NODE", pods[0].name.as_str())];
    let on_its_node = |command: &str| {
        let command = format!("kubectl -n kube-system exec POD-OF-THE-NODE -- ipamctl {command}");
        cluster.as_documented_with(&[&command], &values)
    };
    let listed = on_its_node("ls");
    assert_has(&listed, [&web.address, "shop/web"]);
    assert!(on_its_node("pools").contains("shop"));
    assert!(on_its_node("leaks").starts_with("No leak"));
    cluster.as_documented(&[
        "kubectl -n kube-system get pods -o wide -l app.kubernetes.io/name=ipam-delegated",
    ]);
    cluster.as_documented_with(&["kubectl -n kube-system logs POD-OF-THE-NODE"], &values);
    let exec = format!("kubectl -n kube-system exec {} -- ipamctl", pods[0].name);
    cluster.sh(&format!(
        "{exec} check --no-exec; {exec} show {}",
        web.address
    ));
}

/// Switches a node to another network.
fn use_other_network(node: &KubernetesNode) {
    let folder = node.path("/etc/cni/net.d");
    std::fs::write(folder.join("other"), OTHER_NETWORK).unwrap();
    node.sh("mv /etc/cni/net.d/other /etc/cni/net.d/05-other.conflist");
}

fn removal(cluster: &KubernetesCluster) {
    let [first, second] = [cluster.node(0), cluster.node(1)];
    for name in ["one", "two"] {
        cluster.apply(&pod("shop", name, Some(NODES[0])).to_string());
    }
    cluster.apply(&pod("shop", "three", Some(NODES[1])).to_string());
    cluster.wait_for_pods("shop", 3);

    claim("a pod that is stopped under another network keeps its address, until ipamctl gc");
    use_other_network(first);
    cluster.apply(&pod("shop", "new", Some(NODES[0])).to_string());
    cluster.wait_for_pods("shop", 4);
    let new = cluster.pod("shop", "new").unwrap().address;
    assert!(new.starts_with("10.99.0."), "{new}");
    cluster.sh("kubectl -n shop delete pods new one");
    let leaks = first.try_sh("/opt/cni/sbin/ipamctl leaks").stdout;
    let leaks = String::from_utf8(leaks).unwrap();
    assert_has(&leaks, ["shop/one", "is gone"]);
    // A stopped sandbox is listed until the kubelet has removed it.
    let sandboxes = first.crictl("pods --quiet --no-trunc");
    let gc = format!("{sandboxes} | /opt/cni/sbin/ipamctl gc --valid - --older-than 0s");
    cluster.wait_for("the leak is released", || {
        first.remove_stopped_sandboxes();
        first.sh(&gc);
        reserved(first).len() == 1
    });
    // This pod must be stopped by its own network.
    first.sh("rm /etc/cni/net.d/05-other.conflist");

    claim("a node whose pods hold addresses waits with the removal, and names them");
    cluster.as_documented(&[
        "kubectl -n kube-system patch daemonset ipam-delegated --patch \"$(cat uninstall.yaml)\"",
    ]);
    for node in cluster.nodes() {
        let held = reserved(node).into_keys().next().unwrap();
        cluster.wait_for("the reason", || is_not_ready(cluster, &held));
        node.sh("/opt/cni/bin/ipam-delegated --version");
    }

    claim("pods that end are released, and then all is removed");
    cluster.sh("kubectl drain worker-2 --ignore-daemonsets --force");
    assert!(reserved(second).is_empty());
    cluster.wait_for("the removal", || {
        !second.path("/opt/cni/sbin/ipamctl").exists()
    });
    use_other_network(second);
    cluster.sh("kubectl uncordon worker-2; kubectl -n shop delete pods --all");
    cluster.as_documented(&["kubectl -n kube-system rollout status daemonset/ipam-delegated"]);
    for node in cluster.nodes() {
        assert!(reserved(node).is_empty(), "{}", node.name());
        assert!(!node.path("/opt/cni/sbin/ipamctl").exists());
        assert!(!node.path("/etc/cni/net.d/10-tenants.conflist").exists());
        for plugin in PLUGINS {
            assert!(!node.path("/opt/cni/bin").join(plugin).exists(), "{plugin}");
        }
    }
    cluster.as_documented(&["kubectl delete -f daemonset.yaml -f conflists.yaml -f pools.yaml"]);
}

/// Walks the page on a cluster with the installation and without pods.
pub(super) fn walk(cluster: &KubernetesCluster) {
    claim("the first pods have addresses of the pools of their namespaces");
    first_pod(cluster);
    claim("the commands that look show them");
    look(cluster);
    cluster.sh("kubectl -n shop delete pod web; kubectl delete pod other");
    claim("an upgrade and a rollback fail no pod that comes or goes");
    upgrade_and_rollback(cluster);
    removal(cluster);
    claim("these steps and the load of the image are all commands of the page");
    let elsewhere = [
        "skopeo copy",
        "ctr --namespace k8s.io images import",
        "podman load",
        "kubectl apply -k docs/kubernetes-pod-cidr",
        "crictl pods",
    ];
    let mut others = cluster.not_run("docs/kubernetes.md");
    others.retain(|line| !elsewhere.iter().any(|command| line.starts_with(command)));
    assert_eq!(others, [""; 0]);
}
