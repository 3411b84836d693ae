//! `docs/fixed-addresses.md` on two nodes: virtual machines as KubeVirt runs them, pods by their names,
//! and replicas by number. Each look compares the interfaces of all running containers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use harness::{
    KubernetesCluster, NODES, blocks, claim, document, kind_of_virtual_machines, pod,
    virtual_machine, workload,
};
use serde_json::{Value, json};

use super::choices::network;

/// The namespace of this file's pods. Its machines `web` and `mail` are there, and stay.
pub(super) const NAMESPACE: &str = "prod";

/// An owner whose kind the API server doesn't know, and one that the collector may not read.
pub(super) const UNKNOWN: &str = "things.example.org/prod/x";
pub(super) const FORBIDDEN: &str = "leases.coordination.k8s.io/prod/y";

/// The annotation for Multus.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// Pod, interface and address of each container.
const INTERFACES: &str = "{
    for process in $(pgrep -f '^sleep 1000'); do
        pod=$(nsenter --target=$process --uts hostname)
        nsenter --target=$process --net ip -o -4 addr show |
            awk -v pod=$pod '$2 ~ /^net/ {print pod, $2, $4}'
    done
} 2> /dev/null | sort -u";

/// Claims the address of the owner `$1` with the allocator's executable, until it succeeds.
const CLAIM: &str = r#"
until sed "s|OWNER|$1|" /run/claim.json | CNI_COMMAND=ADD CNI_CONTAINERID=c CNI_IFNAME=net1 \
    CNI_NETNS=/run/netns/c CNI_PATH=/opt/cni/bin /opt/cni/bin/ipam-da-kubernetes > /run/claims/${1##*/}
do
    sleep 0.1
done"#;

/// The owners whose first ADDs are on each node, by number: 200, of which 20 are on both.
const CROWD: [[usize; 2]; 2] = [[1, 110], [91, 200]];

/// An interface of a running container.
struct Interface {
    node: &'static str,
    pod: String,
    name: String,
    address: String,
}

impl Interface {
    /// The machine or the pod, with the interface.
    fn owner(&self) -> String {
        let launcher = self.pod.strip_prefix("virt-launcher-");
        let machine = launcher.and_then(|rest| Some(rest.rsplit_once('-')?.0));
        format!("{} {}", machine.unwrap_or(&self.pod), self.name)
    }
}

/// Addresses with their owners, of all looks so far.
#[derive(Default)]
struct Looks(RefCell<BTreeSet<(String, String)>>);

impl Looks {
    /// The interfaces of now. Panics if an owner had another address, or an address another owner,
    /// at any look.
    fn look(&self, cluster: &KubernetesCluster) -> Vec<Interface> {
        let mut found = Vec::new();
        for node in cluster.nodes() {
            for line in node.sh(INTERFACES).lines() {
                let words: Vec<&str> = line.split(' ').collect();
                if let [pod, name, address] = words[..] {
                    found.push(Interface {
                        node: node.name(),
                        pod: pod.to_owned(),
                        name: name.to_owned(),
                        address: address.strip_suffix("/16").unwrap().to_owned(),
                    });
                }
            }
        }
        let mut known = self.0.borrow_mut();
        known.extend(found.iter().map(|one| (one.address.clone(), one.owner())));
        let addresses: BTreeSet<&String> = known.iter().map(|(address, _)| address).collect();
        let owners: BTreeSet<&String> = known.iter().map(|(_, owner)| owner).collect();
        let numbers = [addresses.len(), owners.len()];
        assert_eq!(numbers, [known.len(); 2], "{known:#?}");
        found
    }

    /// Looks until the namespace has this many pods, and all are ready.
    #[track_caller]
    fn until_ready(&self, cluster: &KubernetesCluster, number: usize) {
        cluster.wait_for("ready pods", || {
            self.look(cluster);
            let mut pods = cluster.pods();
            pods.retain(|pod| pod.namespace == NAMESPACE);
            pods.len() == number && pods.iter().all(|pod| pod.is_ready)
        });
    }

    /// The addresses of these pods once all run.
    #[track_caller]
    fn addresses<const N: usize>(
        &self,
        cluster: &KubernetesCluster,
        pods: [&str; N],
    ) -> [String; N] {
        let find = || {
            let found = self.look(cluster);
            pods.map(|pod| {
                let mut of_pod = found.iter().filter(|one| one.pod == pod);
                let first = of_pod.find(|one| one.name == "net1")?;
                Some(first.address.clone())
            })
        };
        // What one look found: at the next one, a process may just end.
        let all = RefCell::new(None);
        cluster.wait_for(&format!("{pods:?}"), || {
            let found = find();
            let is_whole = found.iter().all(Option::is_some);
            all.replace(is_whole.then_some(found));
            is_whole
        });
        all.take().unwrap().map(Option::unwrap)
    }
}

/// The addresses of owners in the API.
pub(super) fn owned(cluster: &KubernetesCluster) -> BTreeMap<String, BTreeSet<String>> {
    let mut owned: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let all = cluster.objects("/apis/ipam-delegated.io/v1/addresses");
    for address in all.unwrap() {
        let text = |key: &str| address["spec"][key].as_str().map(str::to_owned);
        if let Some(owner) = text("owner") {
            owned.entry(owner).or_default().insert(text("ip").unwrap());
        }
    }
    owned
}

/// The owner of a machine's addresses.
pub(super) fn of_machine(name: &str) -> String {
    format!("virtualmachines.kubevirt.io/{NAMESPACE}/{name}")
}

/// The network with the rule of the page, one for pods by name, and one for replicas by number.
fn page_network() -> Value {
    let page = document("docs/fixed-addresses.md");
    let rules: Value = serde_json::from_str(&blocks(&page, "json")[0]).unwrap();
    let by_name = "pods/${K8S_POD_NAMESPACE}/${K8S_POD_NAME}";
    let facts = r#""facts": ["annotation:kubevirt.io/domain"]"#;
    assert!(page.contains(by_name) && page.contains(facts));
    let mut ipam: Value = serde_json::from_str(&format!("{{{facts}}}")).unwrap();
    ipam["delegates"] = json!(["ipam-df-kubernetes", "ipam-ds-rules", "ipam-da-kubernetes"]);
    ipam["pools"] = rules["pools"].clone();
    ipam["rules"] = json!([
        rules["rules"][0],
        {"when": {"K8S_POD_NAME": "app-*"}, "pools": ["lan"], "owner": by_name},
        {"when": {"K8S_POD_NAME": "db-*"}, "pools": ["lan"],
         "ip": {"range": "10.40.2.20-10.40.2.29", "index": "${K8S_POD_NAME}"}},
        rules["rules"][1],
    ]);
    network("machines", &ipam)
}

/// A pod of a machine, as KubeVirt makes it. The label has the machine's host name.
fn launcher(machine: &str, suffix: &str, node: usize) -> Value {
    let name = format!("virt-launcher-{machine}-{suffix}");
    let host_name = if machine == "mail" { "post" } else { machine };
    let interfaces = if machine == "lonely" { 2 } else { 1 };
    let mut pod = pod(NAMESPACE, &name, Some(NODES[node]));
    pod["metadata"]["labels"] = json!({
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": "ad372581-45cb-4811-9432-0ee96f689247",
        "vm.kubevirt.io/name": host_name,
    });
    pod["metadata"]["annotations"] = json!({
        NETWORKS: vec!["default/machines"; interfaces].join(","),
        "kubectl.kubernetes.io/default-container": "compute",
        "kubevirt.io/domain": machine,
        "kubevirt.io/migrationTransportUnix": "true",
    });
    pod
}

fn replicas(name: &str) -> Value {
    let mut set = workload("StatefulSet", NAMESPACE, name, 3);
    set["spec"]["template"]["metadata"]["annotations"] = json!({NETWORKS: "default/machines"});
    set
}

/// Applies kind, machines and network, and makes nodes ready for [`CLAIM`].
fn prepare(cluster: &KubernetesCluster) {
    cluster.make_namespace(NAMESPACE);
    cluster.apply_all(&[kind_of_virtual_machines(), page_network()]);
    cluster.sh("kubectl wait --for=condition=Established crd/virtualmachines.kubevirt.io");
    cluster.apply_all(&["web", "mail"].map(|name| virtual_machine(NAMESPACE, name)));
    let config = json!({
        "cniVersion": "1.1.0", "name": "crowd", "type": "macvlan",
        "ipam": {"type": "ipam-delegated",
            "kubernetes": {"kubeconfig": "/etc/cni/net.d/ipam-delegated.kubeconfig"}},
        "prevResult": {"cniVersion": "1.1.0", "ips": [], "pools": [{"name": "lan", "owner": "OWNER"}]},
    });
    for node in cluster.nodes() {
        node.sh(&format!(
            "mkdir /run/claims; echo '{config}' > /run/claim.json; echo '{CLAIM}' > /run/claim"
        ));
    }
}

/// Runs `ipamctl` on the second node; returns its stdout and whether it succeeded.
fn ipamctl(cluster: &KubernetesCluster, words: &str) -> (String, bool) {
    let command = format!("/opt/cni/sbin/ipamctl {words}");
    let output = cluster.node(1).try_sh(&command);
    let stdout = String::from_utf8(output.stdout).unwrap();
    (stdout, output.status.success())
}

/// As [`ipamctl`], with the rights of a person.
fn as_person(cluster: &KubernetesCluster, words: &str) -> (String, bool) {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    ipamctl(cluster, &format!("{words} --kubeconfig {kubeconfig}"))
}

/// Releases what the collector would release, at two looks without time between them.
fn collect(cluster: &KubernetesCluster) {
    let collected = as_person(cluster, "node-forget --deleted --yes --between-looks=1ms");
    assert!(collected.1, "{collected:?}");
}

/// Machines stop, start and migrate while both sets are rolled.
fn machines_move(looks: &Looks, cluster: &KubernetesCluster, [web, mail]: &[String; 2]) {
    claim("machines that are stopped and started, on the same and on the other node, keep theirs");
    let before = owned(cluster);
    cluster.sh("kubectl -n prod rollout restart statefulset db app");
    cluster.sh("kubectl -n prod delete pod virt-launcher-web-a virt-launcher-mail-a");
    assert_eq!(owned(cluster), before);
    cluster.apply_all(&[launcher("web", "b", 1), launcher("mail", "b", 0)]);
    let started = ["virt-launcher-web-b", "virt-launcher-mail-b"];
    let both = [web.clone(), mail.clone()];
    assert_eq!(looks.addresses(cluster, started), both);

    claim("a machine that migrates has its address in both pods, whichever goes");
    cluster.apply_all(&[launcher("web", "c", 0), launcher("mail", "c", 1)]);
    let targets = ["virt-launcher-web-c", "virt-launcher-mail-c"];
    assert_eq!(looks.addresses(cluster, targets), both);
    assert_eq!(looks.addresses(cluster, started), both);
    cluster.sh("kubectl -n prod delete pod virt-launcher-web-b virt-launcher-mail-c");
    let left = ["virt-launcher-web-c", "virt-launcher-mail-b"];
    assert_eq!(looks.addresses(cluster, left), both);
    for set in ["db", "app"] {
        cluster.sh(&format!("kubectl -n prod rollout status statefulset {set}"));
    }
    assert_eq!(owned(cluster), before);
}

/// Replicas and pods by name are drained, forced away, and scaled.
fn sets_move(looks: &Looks, cluster: &KubernetesCluster, pods: usize) {
    claim("pods of sets that are drained, forced away, scaled down and up keep theirs");
    let before = owned(cluster);
    cluster.sh("kubectl drain worker-1 --pod-selector='app in (db, app)'");
    cluster.wait_for("both sets on the other node", || {
        let mut of_sets = looks.look(cluster);
        of_sets.retain(|one| one.pod.starts_with("db-") || one.pod.starts_with("app-"));
        of_sets.len() == 6 && of_sets.iter().all(|one| one.node == NODES[1])
    });
    looks.until_ready(cluster, pods);
    cluster.sh("kubectl uncordon worker-1");
    cluster.sh("kubectl -n prod delete pod db-1 app-1 --force --grace-period=0");
    looks.until_ready(cluster, pods);
    cluster.sh("kubectl -n prod scale statefulset db app --replicas=1");
    looks.until_ready(cluster, pods - 4);
    assert_eq!(owned(cluster), before);
    let of_replica = "/apis/ipam-delegated.io/v1/addresses?fieldSelector=metadata.name=10.40.2.22";
    assert_eq!(cluster.objects(of_replica), Some(Vec::new()));
    cluster.sh("kubectl -n prod scale statefulset db app --replicas=3");
    looks.until_ready(cluster, pods);
}

/// Two pods of each of six machines, and the first ADDs of 200 other owners, at once.
fn crowd(looks: &Looks, cluster: &mut KubernetesCluster) {
    claim("many new owners have one address each, while the API server is killed");
    for (node, [first, last]) in cluster.nodes().iter().zip(CROWD) {
        node.sh(&format!(
            "(seq {first} {last} | xargs -P 4 -I NUMBER bash /run/claim {}; touch /run/claimed) \
             > /run/claim.log 2>&1 &",
            of_machine("NUMBER")
        ));
    }
    let machines = ["c1", "c2", "c3", "c4", "c5", "c6"];
    let pods = machines.map(|name| [launcher(name, "a", 0), launcher(name, "b", 1)]);
    cluster.apply_all(pods.as_flattened());
    cluster.wait_for("some have theirs", || {
        let count = "[ $(ls /run/claims | wc -l) -gt 40 ]";
        cluster.nodes().iter().all(|node| node.succeeds(count))
    });
    cluster.control_plane.stop_api_server();
    cluster.control_plane.start_api_server();
    for node in cluster.nodes() {
        cluster.wait_for("all have theirs", || node.succeeds("test -e /run/claimed"));
    }
    let read = r#"cd /run/claims; jq -r '"\(input_filename) \(.ips[0].address)"' *"#;
    let claimed: String = cluster.nodes().iter().map(|node| node.sh(read)).collect();
    let lines: BTreeSet<&str> = claimed.lines().collect();
    let addresses: BTreeSet<_> = lines.iter().map(|line| line.split(' ').nth(1)).collect();
    assert_eq!([lines.len(), addresses.len()], [200; 2]);
    let of_pods = |suffix| machines.map(|name| format!("virt-launcher-{name}-{suffix}"));
    let [first, second] = [of_pods("a"), of_pods("b")].map(|pods| {
        let addresses = looks.addresses(cluster, pods.each_ref().map(String::as_str));
        cluster.sh(&format!("kubectl -n prod delete pod {}", pods.join(" ")));
        addresses
    });
    assert_eq!(first, second);
}

/// On a cluster with the installation, Multus, the rights of facts and the pool `lan`. At the end,
/// only the machine `web` runs, on the first node, and the machine `lonely`, which has no object, on
/// the second one.
pub(super) fn keep_their_addresses(cluster: &mut KubernetesCluster) {
    claim("machines, one with a host name of its own, one without an object, and pods of sets");
    let looks = Looks::default();
    prepare(cluster);
    let mut other = pod(NAMESPACE, "other", Some(NODES[0]));
    other["metadata"]["annotations"] = json!({NETWORKS: "default/machines"});
    cluster.apply_all(&[
        launcher("web", "a", 0),
        launcher("mail", "a", 0),
        launcher("lonely", "a", 1),
        other,
        replicas("db"),
        replicas("app"),
    ]);
    let all = ["virt-launcher-web-a", "virt-launcher-mail-a"];
    let both = looks.addresses(cluster, all);
    looks.addresses(cluster, ["virt-launcher-lonely-a", "other"]);
    let in_sets = looks.addresses(cluster, ["db-0", "db-1", "db-2"]);
    assert_eq!(in_sets, ["10.40.2.20", "10.40.2.21", "10.40.2.22"]);
    looks.addresses(cluster, ["app-0", "app-1", "app-2"]);
    let held = owned(cluster);
    let numbers = ["web", "mail", "lonely"].map(|name| held[&of_machine(name)].len());
    assert_eq!(numbers, [1, 1, 2]);
    assert_eq!(held.len(), 6, "{held:?}");

    claim("ls, show and kubectl show owners");
    let of_web = of_machine("web");
    for shown in [
        ipamctl(cluster, "ls --all-nodes").0,
        ipamctl(cluster, &format!("show {of_web}")).0,
        cluster.sh("kubectl get addresses"),
    ] {
        let is_named = [&of_web, &both[0]].map(|text| shown.contains(text));
        assert_eq!(is_named, [true, true], "{shown}");
    }

    machines_move(&looks, cluster, &both);
    sets_move(&looks, cluster, 10);
    crowd(&looks, cluster);

    claim("what has no object any more is released at two looks, unless a pod names it");
    cluster.sh("kubectl -n prod delete statefulset db app --cascade=foreground");
    cluster.sh("kubectl -n prod delete pod other virt-launcher-mail-b");
    let leaks = as_person(cluster, "leaks").0;
    let is_named = ["pods/prod/app-2 is gone", "lonely"].map(|text| leaks.contains(text));
    assert_eq!(is_named, [true, false], "{leaks}");
    collect(cluster);
    let mut left = held;
    left.retain(|owner, _| owner.starts_with("virtualmachines"));
    assert_eq!(owned(cluster), left);
    for owner in [UNKNOWN, FORBIDDEN] {
        cluster.node(1).sh(&format!("bash /run/claim {owner}"));
    }
}

/// On the cluster of [`keep_their_addresses`], after the first node was deleted, collected, and came
/// back, and the machine `mail` was deleted.
pub(super) fn survive_their_node(cluster: &KubernetesCluster) {
    claim("a machine of a node that was deleted and collected has its address on the other one");
    let looks = Looks::default();
    let before = owned(cluster);
    let first = "virt-launcher-web-c --ignore-not-found --force --grace-period=0";
    cluster.sh(&format!("kubectl -n prod delete pod {first}"));
    cluster.apply(&launcher("web", "d", 1).to_string());
    let [web] = looks.addresses(cluster, ["virt-launcher-web-d"]);
    assert_eq!(before[&of_machine("web")], BTreeSet::from([web.clone()]));
    assert_eq!(owned(cluster), before);

    claim("a person releases an owner's address, and a node doesn't");
    cluster.sh("kubectl -n prod delete virtualmachine web; kubectl -n prod delete pod --all");
    let release = format!("release {web}");
    assert!(!ipamctl(cluster, &release).1);
    assert!(owned(cluster).contains_key(&of_machine("web")));
    let thing = before[UNKNOWN].first().unwrap();
    for words in [release, format!("release {thing}")] {
        assert!(as_person(cluster, &words).1, "{words}");
    }
    collect(cluster);
    assert_eq!(owned(cluster), BTreeMap::new());
}
