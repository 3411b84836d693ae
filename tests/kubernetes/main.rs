//! Kubernetes clusters with the image and the manifests of `docs/kubernetes`.
//!
//! Each test starts a cluster, and prints each claim before it checks it, with the time so far.
//!
//! Needs: the archives, which `cargo xtask test` makes; root, kubectl, openssl, the programs of
//! Kubernetes, containerd, CRI-O and Multus in a folder that `IPAM_DELEGATED_RUNTIMES` names. Takes
//! four to seven minutes, two tests at a time.

mod addresses;
mod behind_multus;
mod choices;
mod cluster_faults;
mod collector;
mod dhcp;
mod first_installation;
mod garbage_collection;
mod life;
mod one_pool;
mod owners;
mod pod_cidr;
mod reservations;
mod take_over;
mod walk;

use std::fs;

use harness::{
    BUSYBOX, ContainerRuntime, Flavour, Image, KUBECTL, KUBERNETES_PROGRAMS, KubernetesCluster,
    needs, skip,
};

/// A cluster with the image on its nodes, and nothing installed. Reports and
/// returns `None` if the cluster can't run on this machine.
pub(crate) fn cluster(runtime: ContainerRuntime) -> Option<KubernetesCluster> {
    needs!("root", "dist", KUBERNETES_PROGRAMS, KUBECTL, BUSYBOX);
    needs!("/sbin/iptables", "/usr/bin/openssl");
    for program in runtime.needs() {
        needs!(program);
    }
    KubernetesCluster::start(runtime, &Image::of(Flavour::Normal).file)
        .map_err(|reason| skip(&reason))
        .ok()
}

/// The installed conflist.
const CONFLIST: &str = "/etc/cni/net.d/10-tenants.conflist";

/// True if this holds for the installed conflists of all nodes.
pub(crate) fn conflists_are(cluster: &KubernetesCluster, is: impl Fn(&str) -> bool) -> bool {
    let paths = cluster.nodes().iter().map(|node| node.path(CONFLIST));
    let mut conflists = paths.map(|path| fs::read_to_string(path).unwrap());
    conflists.all(|conflist| is(&conflist))
}

/// Applies the conflists with garbage collection, and waits until all nodes have them.
#[track_caller]
pub(crate) fn collect_garbage(cluster: &KubernetesCluster) {
    cluster.sh("kubectl apply -f conflists-gc.yaml");
    cluster.wait_for("the changed conflist", || {
        conflists_are(cluster, |conflist| conflist.contains("1.1.0"))
    });
}

/// True if an event of the installer's pods, which `kubectl describe` shows, has this reason. It may
/// be on a line behind the first one.
pub(crate) fn is_not_ready(cluster: &KubernetesCluster, why: &str) -> bool {
    let describe = "kubectl describe pods -n kube-system -l app.kubernetes.io/name=ipam-delegated";
    let described = cluster.lines(describe).join("\n");
    let mut failures = described.split("Readiness probe failed").skip(1);
    failures.any(|failure| failure.contains(why))
}

/// Asserts what a service account of `kube-system` may and may not do.
#[track_caller]
pub(crate) fn assert_rights(cluster: &KubernetesCluster, account: &str, rights: &[(bool, &str)]) {
    for (may, what) in rights {
        let asked =
            format!("kubectl auth can-i {what} --as=system:serviceaccount:kube-system:{account}");
        assert_eq!(cluster.succeeds(&asked), *may, "{what}");
    }
}
