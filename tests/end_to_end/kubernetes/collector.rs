//! The CronJob of `docs/kubernetes-cluster-pool/collector` in its own pod: it forgets a node whose
//! Node stays deleted, but not one whose Node is back.

use harness::{DNSMASQ, KubernetesCluster, NODES, claim};
use serde_json::{Value, json};

use super::one_pool::held;
use super::pod_cidr::reach_the_api_server;
use super::second_interface::start;

const CRON_JOB: &str = "-n kube-system cronjob/ipam-delegated-collector";

/// Applies the manifest as its page says, with a schedule of one minute. Its pod finds the API
/// server by name.
pub(super) fn apply(cluster: &KubernetesCluster) {
    cluster.sh(&format!(
        "{DNSMASQ} --user=root --pid-file= --no-resolv --no-hosts --bind-interfaces \
         --listen-address=10.123.0.1 --local=/cluster.local/ \
         --address=/kubernetes.default.svc.cluster.local/10.96.0.1"
    ));
    cluster.sh("kubectl apply -k ../kubernetes-cluster-pool/collector");
    let patch = r#"{"spec": {"schedule": "* * * * *"}}"#;
    cluster.sh(&format!("kubectl patch {CRON_JOB} --patch '{patch}'"));
}

/// Waits until the schedule has started it, and suspends it.
#[track_caller]
pub(super) fn has_run(cluster: &KubernetesCluster) {
    let kubectl = |words: &str| cluster.sh(&format!("kubectl {words}"));
    let jobs = "-n kube-system get jobs -o 'jsonpath={.items[*].status.succeeded} {.items[*].status.failed}'";
    cluster.wait_for("the CronJob has run", || kubectl(jobs).trim() != "");
    let log = || kubectl("-n kube-system logs -l app.kubernetes.io/name=ipam-delegated-collector");
    assert_eq!(kubectl(jobs), "1 ", "{}", log());
    kubectl(&format!(
        r#"patch {CRON_JOB} --patch '{{"spec": {{"suspend": true}}}}'"#
    ));
    let size = kubectl("get pools lan -o 'jsonpath={.status.size}'");
    assert!(!size.is_empty(), "no status of the pool is written");
}

/// Runs a pod of the CronJob with this `--gone-for`; returns its output.
#[track_caller]
fn run(cluster: &KubernetesCluster, name: &str, gone_for: &str) -> String {
    let cron_job = cluster.sh(&format!("kubectl get {CRON_JOB} -o json"));
    let mut cron_job: Value = serde_json::from_str(&cron_job).unwrap();
    let mut spec = cron_job["spec"]["jobTemplate"]["spec"].take();
    let command = &mut spec["template"]["spec"]["containers"][0]["command"];
    let words = command.as_array_mut().unwrap();
    let option = words.iter_mut().find(|word| **word == "--gone-for=1h");
    *option.unwrap() = json!(format!("--gone-for={gone_for}"));
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "kube-system", "name": name},
        "spec": spec,
    });
    cluster.apply(&job.to_string());
    let status = format!(
        "kubectl -n kube-system get job {name} -o 'jsonpath={{.status.succeeded}} {{.status.failed}}'"
    );
    cluster.wait_for(&format!("the Job {name} has ended"), || {
        cluster.sh(&status).trim() != ""
    });
    let log = cluster.sh(&format!("kubectl -n kube-system logs job/{name}"));
    assert_eq!(cluster.sh(&status).trim(), "1", "{name}: {log}");
    log
}

fn lose_and_delete(cluster: &mut KubernetesCluster) {
    cluster.cut_power(0);
    cluster.sh(&format!("kubectl delete node {}", NODES[0]));
}

/// The addresses that the first node holds.
fn of_first(cluster: &KubernetesCluster) -> Vec<String> {
    let held = held(cluster).into_iter();
    let of_first = held.filter(|[_, _, node]| node == NODES[0]);
    of_first.map(|[_, ip, _]| ip).collect()
}

/// Checks its claims with pods of `default/lan` in the new namespace `shop`.
pub(super) fn forgets_nodes_that_stay_deleted(cluster: &mut KubernetesCluster) {
    claim("the collector leaves a node alone that was deleted and is back");
    for (pod, node) in [("h", 0), ("i", 1)] {
        start(cluster, pod, NODES[node], "default/lan");
    }
    cluster.wait_for_pods("shop", 2);
    assert_eq!(run(cluster, "both-are-there", "0s"), "");
    lose_and_delete(cluster);
    let noted = format!("{}: its Node is missing; noted\n", NODES[0]);
    assert_eq!(run(cluster, "one-is-deleted", "0s"), noted);
    cluster.boot(0);
    reach_the_api_server(cluster);
    cluster.wait_for_ready_nodes();
    start(cluster, "j", NODES[0], "default/lan");
    cluster.wait_for("a pod of the node that is back", || {
        cluster.pod("shop", "j").is_some_and(|pod| pod.is_ready)
    });
    let before = held(cluster);
    assert_eq!(run(cluster, "it-is-back", "0s"), "");
    assert_eq!(held(cluster), before);

    claim("it forgets a node that stays deleted, with its addresses");
    let lost = of_first(cluster);
    assert!(!lost.is_empty());
    lose_and_delete(cluster);
    assert_eq!(run(cluster, "it-is-deleted-again", "0s"), noted);
    let waiting = run(cluster, "not-yet", "1h");
    assert!(waiting.contains("its Node is missing since"), "{waiting}");
    assert_eq!(of_first(cluster), lost);
    let released = run(cluster, "long-enough", "0s");
    let number = format!("; released {} addresses and 0 blocks\n", lost.len());
    assert!(released.ends_with(&number), "{released}");
    assert!(of_first(cluster).is_empty());
    assert!(held(cluster).iter().any(|[pod, ..]| pod == "i"));

    claim("a node that was forgotten registers again");
    cluster.boot(0);
    reach_the_api_server(cluster);
    start(cluster, "k", NODES[0], "default/lan");
    cluster.wait_for("an address of the forgotten node", || {
        !of_first(cluster).is_empty()
    });
}
