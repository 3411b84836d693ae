//! A Job of the CronJob of `docs/kubernetes-cluster-pool/collector`, with the rights for owners: it
//! releases what a node or an owner holds whose object stays deleted, but nothing if it is back.

use harness::{DNSMASQ, KubernetesCluster, NODES, claim, virtual_machine};
use serde_json::{Value, json};

use super::assert_rights;
use super::behind_multus::start;
use super::one_pool::held;
use super::owners::{FORBIDDEN, NAMESPACE, UNKNOWN, of_machine, owned};
use super::pod_cidr::reach_the_api_server;

const CRON_JOB: &str = "-n kube-system cronjob/ipam-delegated-collector";

/// Applies the manifests as the page says. The Job's pods find the API server by name.
fn apply(cluster: &KubernetesCluster) {
    cluster.sh(&format!(
        "{DNSMASQ} --user=root --pid-file= --no-resolv --no-hosts --bind-interfaces \
         --listen-address=10.123.0.1 --local=/cluster.local/ \
         --address=/kubernetes.default.svc.cluster.local/10.96.0.1"
    ));
    cluster.sh("kubectl apply -k ../kubernetes-cluster-pool/collector
         kubectl apply -k ../kubernetes-cluster-pool/owners");
    let rights = [
        (true, "get virtualmachines.kubevirt.io -A"),
        (true, "get statefulsets.apps -A"),
        (true, "list pods -A"),
        (false, "list virtualmachines.kubevirt.io -A"),
        (false, "get leases.coordination.k8s.io -A"),
        (false, "delete pods -A"),
        (false, "get secrets -A"),
    ];
    assert_rights(cluster, "ipam-delegated-collector", &rights);
}

/// Starts a pod of the CronJob with this time between its two looks.
fn start_job(cluster: &KubernetesCluster, name: &str, between_looks: &str) {
    let cron_job = cluster.sh(&format!("kubectl get {CRON_JOB} -o json"));
    let mut cron_job: Value = serde_json::from_str(&cron_job).unwrap();
    let mut spec = cron_job["spec"]["jobTemplate"]["spec"].take();
    let command = &mut spec["template"]["spec"]["containers"][0]["command"];
    let words = command.as_array_mut().unwrap();
    words.push(json!(format!("--between-looks={between_looks}")));
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "kube-system", "name": name},
        "spec": spec,
    });
    cluster.apply(&job.to_string());
}

fn log(cluster: &KubernetesCluster, job: &str) -> String {
    cluster
        .lines(&format!("kubectl -n kube-system logs job/{job}"))
        .join("\n")
}

/// Waits for the end of a job.
#[track_caller]
fn ended(cluster: &KubernetesCluster, job: &str) {
    let status = format!("kubectl -n kube-system get job {job} -o 'jsonpath={{.status}}'");
    let status = || -> Value { serde_json::from_str(&cluster.sh(&status)).unwrap_or_default() };
    cluster.wait_for(&format!("the Job {job} has ended"), || {
        let status = status();
        !status["succeeded"].is_null() || !status["failed"].is_null()
    });
    let log = log(cluster, job);
    assert_eq!(status()["succeeded"], 1, "{job}: {log}");
}

/// The addresses that the first node holds.
fn of_first(cluster: &KubernetesCluster) -> Vec<String> {
    let held = held(cluster).into_iter();
    let of_first = held.filter(|[_, _, node]| node == NODES[0]);
    of_first.map(|[_, ip, _]| ip).collect()
}

/// Checks its claims with pods of `default/lan` in the namespace `shop`, and with the owners that
/// `owners::keep_their_addresses` leaves.
pub(super) fn releases_what_stays_deleted(cluster: &mut KubernetesCluster) {
    apply(cluster);
    for (pod, node) in [("h", 0), ("i", 1)] {
        start(cluster, pod, NODES[node], "default/lan");
    }
    cluster.wait_for_pods("shop", 2);
    let delete_both = format!(
        "kubectl delete node {}; kubectl -n {NAMESPACE} delete virtualmachine mail",
        NODES[0]
    );

    claim("nothing is released of a Node or a machine that is deleted and comes back");
    let before = held(cluster);
    let node = cluster.sh(&format!("kubectl get node {} -o json", NODES[0]));
    cluster.sh(&delete_both);
    start_job(cluster, "it-comes-back", "20s");
    let first_look = format!("{} addresses of nodes", of_first(cluster).len() + 1);
    cluster.wait_for("the first look", || {
        log(cluster, "it-comes-back").contains(&first_look)
    });
    let mut node: Value = serde_json::from_str(&node).unwrap();
    let metadata = &node["metadata"];
    node["metadata"] = json!({"name": NODES[0], "labels": metadata["labels"]});
    cluster.apply_all(&[node, virtual_machine(NAMESPACE, "mail")]);
    ended(cluster, "it-comes-back");
    assert_eq!(held(cluster), before);
    let log = log(cluster, "it-comes-back");
    for owner in [UNKNOWN, FORBIDDEN] {
        let is_kept = |line: &str| line.contains("is kept") && line.contains(owner);
        assert!(log.lines().any(is_kept), "{owner}: {log}");
    }

    claim("what stays deleted is released, of a further kind with its right, and nothing else");
    let mut left = owned(cluster);
    for owner in [&of_machine("mail"), FORBIDDEN] {
        assert!(left.remove(owner).is_some(), "{owner}");
    }
    assert!(!of_first(cluster).is_empty());
    cluster.cut_power(0);
    cluster.sh(&delete_both);
    cluster.sh(
        "kubectl create clusterrole leases --verb=get --resource=leases.coordination.k8s.io
         kubectl create clusterrolebinding leases --clusterrole=leases \
             --serviceaccount=kube-system:ipam-delegated-collector",
    );
    start_job(cluster, "it-stays-deleted", "1s");
    ended(cluster, "it-stays-deleted");
    assert!(of_first(cluster).is_empty());
    assert!(held(cluster).iter().any(|[pod, ..]| pod == "i"));
    assert_eq!(owned(cluster), left);

    claim("a node that was forgotten gives addresses again");
    cluster.boot(0);
    reach_the_api_server(cluster);
    start(cluster, "k", NODES[0], "default/lan");
    cluster.wait_for("an address of the forgotten node", || {
        !of_first(cluster).is_empty()
    });
}
