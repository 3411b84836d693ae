//! Takes over addresses that the executable of whereabouts has given.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use harness::{
    Call, KUBECTL, KUBERNETES_PROGRAMS, Output, Reason, Sandbox, kubernetes_programs, needs,
    skip_for,
};
use serde_json::{Value, json};

use super::super::administered::{Administered, ip_of};
use super::objects::{network, pod_with, prepare};
use super::{DELEGATES, rows, take_over};

/// The file, in the folder of the programs of Kubernetes.
const EXECUTABLE: &str = "whereabouts-0.5.4";

/// The two ranges of the pool `lan`, and the range of `lan6`.
pub(super) const FIRST: &str = "10.40.0.0/28";
const SECOND: &str = "10.41.0.0/29";
const SIX: &str = "fd00:40::/64";

/// Number of the addresses of `lan` without the gateways.
const SIZE: usize = 13 + 5;

/// The executable. Reports and returns `None` if it is missing.
fn executable(test: &str) -> Option<PathBuf> {
    let executable = kubernetes_programs()?.join(EXECUTABLE);
    if !executable.exists() {
        let reason = format!("{} is not there", executable.display());
        skip_for(test, &Reason::Machine(reason));
        return None;
    }
    Some(executable)
}

/// Our pools with the ranges of whereabouts. It gives the first address of a subnet as well.
fn pools() -> Value {
    json!({
        "lan": {"ranges": [
            {"subnet": FIRST, "gateway": "10.40.0.14"},
            {"subnet": SECOND, "gateway": "10.41.0.6"},
        ]},
        "lan6": {"subnet": SIX, "gateway": "fd00:40::ffff"},
    })
}

/// A cluster in which whereabouts gives addresses, and in which our pools have the same ranges.
pub(super) struct WithWhereabouts {
    pub(super) cluster: Administered,
}

impl WithWhereabouts {
    /// Reports and returns `None` if the executable is missing.
    pub(super) fn start(test: &str) -> Option<Self> {
        let executable = executable(test)?;
        let cluster = Administered::with_pools(&pools());
        prepare(&cluster.api);
        let networks = [network("lan", "testnet"), network("second", "testnet")];
        cluster.api.apply(&networks.into_iter().collect());
        symlink(executable, cluster.sandbox.plugins().join("whereabouts")).unwrap();
        Some(Self { cluster })
    }

    /// A call of whereabouts for the interface of a pod's container, `c-POD`.
    pub(super) fn call(&self, command: &str, pod: &str, ifname: &str, range: &str) -> Call {
        self.call_as(&self.cluster.api.kubeconfig(), command, pod, ifname, range)
    }

    fn call_as(
        &self,
        kubeconfig: &Path,
        command: &str,
        pod: &str,
        ifname: &str,
        range: &str,
    ) -> Call {
        let ipam = json!({
            "type": "whereabouts",
            "datastore": "kubernetes",
            "kubernetes": {"kubeconfig": kubeconfig},
            "range": range,
        });
        let config =
            json!({"cniVersion": "0.3.1", "name": "testnet", "type": "macvlan", "ipam": ipam});
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={pod}");
        let call = self.cluster.sandbox.call("whereabouts", command, &config);
        call.container(&format!("c-{pod}"))
            .env("CNI_IFNAME", ifname)
            .env("CNI_ARGS", args)
    }

    /// Starts a pod, to which Multus attaches an interface for each range; returns its addresses.
    pub(super) fn start_pod(&self, pod: &str, node: &str, ranges: &[&str]) -> Vec<String> {
        let (mut interfaces, mut ips) = (Vec::new(), Vec::new());
        for (number, range) in (1..).zip(ranges) {
            let ifname = format!("net{number}");
            let ip = ip_of(&self.call("ADD", pod, &ifname, range).run());
            let definition = if *range == SECOND {
                "shop/second"
            } else {
                "shop/lan"
            };
            interfaces.push(json!({"name": definition, "interface": ifname, "ips": [ip]}));
            ips.push(ip);
        }
        self.cluster.api.apply(&pod_with(pod, node, interfaces));
        ips
    }

    /// Our call for a container's interface.
    pub(super) fn ours(&self, command: &str, pod: &str, ifname: &str, config: &Value) -> Output {
        let call = self.cluster.sandbox.call("ipam-delegated", command, config);
        call.container(&format!("c-{pod}"))
            .env("CNI_IFNAME", ifname)
            .run()
    }

    /// A kubeconfig for whereabouts' plugins, with the rights of its manifest.
    fn kubeconfig_of_plugins(&self) -> PathBuf {
        let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["*"]});
        let meta = |name: &str| json!({"name": name, "namespace": "kube-system"});
        let rbac = "rbac.authorization.k8s.io";
        self.cluster.api.apply(&json!([
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta("whereabouts")},
            {
                "apiVersion": format!("{rbac}/v1"),
                "kind": "ClusterRole",
                "metadata": {"name": "whereabouts-cni"},
                "rules": [
                    rule("whereabouts.cni.cncf.io", &["ippools", "overlappingrangeipreservations"]),
                    rule("coordination.k8s.io", &["leases"]),
                ],
            },
            {
                "apiVersion": format!("{rbac}/v1"),
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "whereabouts"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "whereabouts-cni"},
                "subjects": [{"kind": "ServiceAccount", "name": "whereabouts", "namespace": "kube-system"}],
            },
        ]));
        self.cluster
            .api
            .kubeconfig_of_account("kube-system", "whereabouts")
    }
}

/// Addresses and outcomes.
fn outcomes(output: &Output) -> BTreeSet<(String, String)> {
    let rows = rows(output).into_iter();
    rows.map(|(ip, outcome, _)| (ip, outcome)).collect()
}

fn all(ips: &[String], outcome: &str) -> BTreeSet<(String, String)> {
    let ips = ips.iter();
    ips.map(|ip| (ip.clone(), outcome.to_owned())).collect()
}

#[test]
fn containers_keep_what_whereabouts_gave_them_and_no_other_gets_it() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let Some(with) = WithWhereabouts::start("whereabouts::executable") else {
        return;
    };
    let cluster = &with.cluster;
    let plugins = with.kubeconfig_of_plugins();
    let mut given = with.start_pod("web", "n1", &[FIRST, SIX, SECOND]);
    given.extend(with.start_pod("db", "n2", &[FIRST]));
    given.extend(with.start_pod("shop", "n2", &[SECOND, SIX]));
    with.start_pod("gone", "n1", &[FIRST]);
    with.call("DEL", "gone", "net1", FIRST).run().nothing();
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 6);

    // Step 2 of docs/kubernetes.md.
    let probe = |command: &str| {
        with.call_as(&plugins, command, "probe", "net1", SECOND)
            .run()
    };
    probe("ADD").result();
    probe("DEL").nothing();
    let patch =
        r#"[{"op": "replace", "path": "/rules/0/verbs", "value": ["get", "list", "watch"]}]"#;
    cluster.api.kubectl(&[
        "patch",
        "clusterrole",
        "whereabouts-cni",
        "--type=json",
        "--patch",
        patch,
    ]);
    cluster.api.wait_for("whereabouts has lost the right", || {
        !probe("ADD").status.success()
    });
    with.call_as(&plugins, "DEL", "db", "net1", FIRST)
        .run()
        .nothing();

    let without_gateways = json!({"lan": {"ranges": [{"subnet": FIRST}, {"subnet": SECOND}]}});
    let imported = cluster.import(&without_gateways, &["--replace"]);
    assert!(imported.status.success(), "{imported:?}");
    let refused = take_over(cluster, &[]);
    let conflict = "it is a gateway of pool lan: define the pool with another gateway";
    assert!(refused.stdout.contains(conflict), "{refused:?}");
    assert!(cluster.addresses().is_empty(), "{refused:?}");
    let imported = cluster.import(&pools(), &["--replace"]);
    assert!(imported.status.success(), "{imported:?}");

    let dry = take_over(cluster, &["--dry-run", "--json"]);
    assert_eq!(outcomes(&dry), all(&given, "would-claim"), "{dry:?}");
    let taken = take_over(cluster, &["--json"]);
    assert_eq!(outcomes(&taken), all(&given, "claimed"), "{taken:?}");
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    let again = take_over(cluster, &["--json"]);
    assert_eq!(outcomes(&again), all(&given, "held"), "{again:?}");

    // Both nodes reserve the rest of the pool.
    let [n1, n2] = ["n1", "n2"].map(|node| cluster.config(node, &DELEGATES, "lan"));
    let in_lan = given.iter().filter(|ip| !ip.contains(':')).count();
    let mut ours = BTreeSet::new();
    for number in in_lan..SIZE {
        let config = if number % 2 == 0 { &n1 } else { &n2 };
        let added = with.ours("ADD", &format!("new{number}"), "net1", config);
        ours.insert(ip_of(&added));
    }
    for config in [&n1, &n2] {
        let full = format!("all {SIZE} are reserved");
        with.ours("ADD", "one-more", "net1", config)
            .refused(11, &full);
    }
    assert_eq!(ours.len(), SIZE - in_lan);
    assert!(
        given.iter().all(|ip| !ours.contains(ip)),
        "{given:?} {ours:?}"
    );

    // The pods end. DEL is called on the pod's node, for each interface.
    let [six, six_of_n2] = ["n1", "n2"].map(|node| cluster.config(node, &DELEGATES, "lan6"));
    with.ours("DEL", "web", "net1", &n2).nothing();
    with.ours("DEL", "web", "net4", &n1).nothing();
    assert_eq!(cluster.addresses().len(), ours.len() + given.len());
    for (pod, ifname, config) in [
        ("web", "net1", &n1),
        ("web", "net2", &six),
        ("web", "net3", &n1),
        ("db", "net1", &n2),
        ("shop", "net1", &n2),
        ("shop", "net2", &six_of_n2),
    ] {
        with.ours("DEL", pod, ifname, config).nothing();
    }
    let left: BTreeSet<String> = cluster.addresses().into_iter().collect();
    let expected = ours.iter().map(|ip| format!("lan.{ip}"));
    assert_eq!(left, expected.collect());
}

#[test]
fn whereabouts_cant_be_a_delegate() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let Some(executable) = executable("whereabouts::executable") else {
        return;
    };
    let sandbox = Sandbox::default();
    symlink(executable, sandbox.plugins().join("whereabouts")).unwrap();
    let config = sandbox.config("1.0.0", &["whereabouts"], &json!({"range": FIRST}));
    let refused = sandbox.chain_call("ADD", "c1", &config).run();
    refused.refused(
        100,
        "only interested in networks whose IPAM type is 'whereabouts'",
    );
}
