//! The first installation with each container runtime, and a changed ConfigMap, without manual
//! steps. Other tests continue on their clusters.

use std::fs;

use harness::{ContainerRuntime, KubernetesCluster, claim, is_sampled, pod, repository};

use super::{
    CONFLIST, addresses, cluster, conflists_are, garbage_collection, is_not_ready, life, pod_cidr,
    take_over, walk,
};

const APPLY: &str = "kubectl apply -f pools.yaml -f conflists.yaml -f daemonset.yaml";
const DELETE: &str = "kubectl delete -f daemonset.yaml -f conflists.yaml -f pools.yaml";

/// A network that a node may already have. It doesn't work.
const OTHER: &str = r#"{"cniVersion": "0.4.0", "name": "other", "plugins": [{"type": "bridge",
    "ipam": {"type": "host-local", "subnet": "10.99.0.0/24"}}]}"#;

#[test]
fn containerd_from_host_local_to_the_subnets_of_nodes() {
    if is_sampled(0)
        && let Some(mut cluster) = cluster(ContainerRuntime::Containerd)
    {
        take_over::from_host_local_and_back(&cluster);
        comes_up(&cluster, "kubectl apply -k docs/kubernetes");
        comes_back(&cluster);
        takes_a_changed_configmap(&cluster);
        cluster.sh("kubectl -n red delete pods --all");
        life::of_pods(&mut cluster);
        addresses::stay_with_a_stateful_set(&mut cluster);
        pod_cidr::gives_pods_their_addresses(&cluster);
    }
}

#[test]
fn an_old_containerd_from_the_first_installation_to_the_removal() {
    if is_sampled(0)
        && let Some(cluster) = cluster(ContainerRuntime::OldContainerd)
    {
        comes_up(&cluster, APPLY);
        comes_back(&cluster);
        takes_a_changed_configmap(&cluster);
        refuses_an_invalid_configmap(&cluster);
        cluster.sh("kubectl -n red delete pods --all");
        walk::walk(&cluster);
    }
}

#[test]
fn crio_from_the_first_installation_to_gc() {
    if is_sampled(1)
        && let Some(mut cluster) = cluster(ContainerRuntime::Crio)
    {
        comes_up(&cluster, APPLY);
        takes_a_changed_configmap(&cluster);
        cluster.sh("kubectl -n red delete pods --all");
        garbage_collection::releases_when_it_starts(&mut cluster);
    }
}

/// True if the pods of the installer are ready on all nodes.
fn is_installed(cluster: &KubernetesCluster) -> bool {
    let pods = cluster.pods().into_iter();
    pods.filter(|pod| pod.on_host && pod.is_ready).count() == cluster.nodes().len()
}

fn wait(cluster: &KubernetesCluster, what: &str, holds: impl Fn() -> bool) {
    claim(what);
    cluster.wait_for(what, holds);
}

fn starts_a_pod(cluster: &KubernetesCluster, name: &str) {
    cluster.apply(&pod("red", name, None).to_string());
    let has_address = || {
        cluster
            .pod("red", name)
            .is_some_and(|pod| pod.is_ready && pod.address.starts_with("10.244."))
    };
    wait(cluster, "a pod has an address of its pool", has_address);
}

fn comes_up(cluster: &KubernetesCluster, apply: &str) {
    cluster.make_namespace("red");
    // One node has no network, and the other one has a conflist after ours in the order of names.
    fs::write(
        cluster.node(1).path("/etc/cni/net.d/20-other.conflist"),
        OTHER,
    )
    .unwrap();
    cluster.as_documented(&[apply]);
    wait(cluster, "from an empty net.d, all nodes are ready", || {
        cluster.ready_nodes().len() == cluster.nodes().len() && is_installed(cluster)
    });
    starts_a_pod(cluster, "first");
}

/// Not tested with CRI-O, which continues to use a network whose file was removed.
fn comes_back(cluster: &KubernetesCluster) {
    cluster.as_documented(&[DELETE]);
    wait(cluster, "the installer is away", || {
        !cluster.pods().iter().any(|pod| pod.on_host)
    });
    for node in cluster.nodes() {
        fs::remove_file(node.path(CONFLIST)).unwrap();
    }
    wait(cluster, "without its conflist, a node is not ready", || {
        cluster.ready_nodes() == [cluster.node(1).name()]
    });
    cluster.sh(APPLY);
    wait(cluster, "with the pod, it is ready again", || {
        cluster.ready_nodes().len() == cluster.nodes().len() && is_installed(cluster)
    });

    let first = cluster.node(0).path("/etc/cni/net.d/05-other.conflist");
    fs::write(&first, OTHER).unwrap();
    wait(
        cluster,
        "another network's conflist before ours is named",
        || {
            is_not_ready(
                cluster,
                "the runtime uses the first file, which is /etc/cni/net.d/05-other.conflist",
            )
        },
    );
    fs::remove_file(&first).unwrap();
    wait(cluster, "without it, all is ready", || {
        is_installed(cluster)
    });
    starts_a_pod(cluster, "second");
}

/// The manifest of the conflists, with `from` replaced.
fn conflists(from: &str, to: &str) -> String {
    let manifest = repository().join("docs/kubernetes/conflists.yaml");
    let text = fs::read_to_string(manifest).unwrap();
    assert!(text.contains(from));
    text.replace(from, to)
}

fn takes_a_changed_configmap(cluster: &KubernetesCluster) {
    let bridge = r#""bridge": "cni0","#;
    let with_mtu = format!("{bridge} \"mtu\": 1400,");
    cluster.apply(&conflists(bridge, &with_mtu));
    wait(cluster, "a changed conflist is on all nodes", || {
        conflists_are(cluster, |text| text.contains("1400"))
    });
    starts_a_pod(cluster, "third");
    let pod = cluster.pod("red", "third").unwrap();
    let node = cluster.node_named(&pod.node);
    claim("a pod that is started after it has its MTU");
    let links = node.sh(
        "for i in /run/netns/*; do nsenter --net=$i ip -o -4 addr show dev eth0; \
                         nsenter --net=$i ip -o link show dev eth0; done 2>/dev/null || true",
    );
    let of_pod = links
        .lines()
        .skip_while(|line| !line.contains(&format!("{}/", pod.address)));
    let link = of_pod
        .skip(1)
        .find(|line| line.contains("mtu"))
        .unwrap_or_else(|| panic!("{links}"));
    assert!(link.contains("mtu 1400"), "{links}");
}

/// After [`takes_a_changed_configmap`].
fn refuses_an_invalid_configmap(cluster: &KubernetesCluster) {
    cluster.apply(&conflists("\"delegates\"", "\"delegate\""));
    wait(
        cluster,
        "an invalid one is refused, and kubectl describe pod says why",
        || is_not_ready(cluster, "stays as it was"),
    );
    assert!(conflists_are(cluster, |text| text.contains("1400")));
    starts_a_pod(cluster, "fourth");
    cluster.sh("kubectl apply -f conflists.yaml");
    cluster.as_documented(&["kubectl -n kube-system annotate pods -l app.kubernetes.io/name=ipam-delegated --overwrite changed=\"$(date)\""]);
    wait(cluster, "a valid one is taken", || {
        conflists_are(cluster, |text| !text.contains("1400")) && is_installed(cluster)
    });
}
