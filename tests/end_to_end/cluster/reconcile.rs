//! etcd is restored from a snapshot: what lives is claimed again, and nothing new is given
//! before.

use std::path::PathBuf;

use harness::{ETCD, ETCDCTL, EtcdMember, Output, needs};
use serde_json::{Value, json};

use super::Cluster;

const ADDRESSES: [&str; 1] = ["ipam-da-etcd"];
const BLOCKS: [&str; 2] = ["ipam-ds-etcd", "ipam-da-host-local"];

/// A node with a conflist of its own, by which `ipamctl` runs there.
struct Node {
    name: &'static str,
    config: Value,
}

impl Node {
    fn new(it: &Cluster, name: &'static str, allocators: &[&str]) -> Self {
        let config = it.config(name, allocators, &json!([{"name": "lan"}]));
        Self { name, config }
    }

    fn ipamctl(&self, it: &Cluster, words: &[&str]) -> Output {
        it.sandbox.write_conflist("10-lan.conflist", &self.config);
        it.sandbox.ipamctl(words).run()
    }

    #[track_caller]
    fn reconciles(&self, it: &Cluster) {
        let output = self.ipamctl(it, &["reconcile"]);
        assert_eq!(output.status.code(), Some(0), "{}: {output:?}", self.name);
    }

    /// An ADD of this one address.
    fn requests(&self, it: &Cluster, container: &str, ip: &str) -> Output {
        let mut config = self.config.clone();
        config["ipam"]["pools"] = json!([{"name": "lan", "requested-ip": ip}]);
        it.add(container, &config)
    }
}

fn cluster(pool: &str) -> Cluster {
    let it = Cluster::default();
    it.etcd.put("/ipam/v1/pools/lan", pool);
    it
}

fn snapshot(it: &Cluster) -> PathBuf {
    let file = it.sandbox.root().join("snapshot");
    it.etcd.ctl(&["snapshot", "save", file.to_str().unwrap()]);
    file
}

/// Gives the later state of a pool of two addresses away: `dead` had A, and `alive` has it now.
/// Then the state of before is restored.
fn restored(it: &mut Cluster, [one, two]: [&Node; 2]) {
    one.requests(it, "dead", "10.55.0.2").result();
    let file = snapshot(it);
    it.del("dead", &one.config).nothing();
    two.requests(it, "alive", "10.55.0.2").result();
    it.etcd.restore(&file);
}

#[test]
fn after_a_restore_an_address_that_lives_is_given_to_nobody_else() {
    needs!(ETCD, ETCDCTL);
    let mut it = cluster(r#"{"subnet":"10.55.0.0/29","rangeEnd":"10.55.0.3"}"#);
    let [one, two] = ["n1", "n2"].map(|name| Node::new(&it, name, &ADDRESSES));
    restored(&mut it, [&one, &two]);

    // The documented procedure. n2 has registered after the snapshot.
    let begun = one.ipamctl(&it, &["reconcile", "--begin", "n2"]);
    assert!(begun.stdout.ends_with(":\nn1\nn2\n"), "{begun:?}");
    // The runtime of n1 has no `dead`: it collects what etcd has of it.
    it.gc(&[], &one.config).nothing();
    for node in [&one, &two] {
        let refused = node.requests(&it, "third", "10.55.0.2");
        refused.refused(11, "have run ipamctl reconcile: n1, n2");
        let status = it.call("STATUS", "", &node.config).run();
        status.refused(50, "ipamctl reconcile");
    }
    one.reconciles(&it);
    one.requests(&it, "third", "10.55.0.2")
        .refused(11, "have run ipamctl reconcile: n2");
    let output = two.ipamctl(&it, &["reconcile"]);
    assert_eq!(
        output.stdout,
        "10.55.0.2 of pool lan (alive eth0 of network testnet): claimed\n1 addresses and blocks live here; etcd had lost 1 of them\n",
        "{output:?}"
    );
    assert_eq!(it.etcd.keys("/ipam/v1/reconcile/"), Vec::<String>::new());
    one.requests(&it, "third", "10.55.0.2")
        .refused(111, "reserved to alive eth0");
    assert_eq!(it.add("fourth", &one.config).ips(), ["10.55.0.3"]);
    // What was claimed again is released as ever.
    it.del("alive", &two.config).nothing();
    assert_eq!(one.requests(&it, "third", "10.55.0.2").ips(), ["10.55.0.2"]);
}

#[test]
fn an_address_that_two_claim_is_shown_and_waits_for_a_person() {
    needs!(ETCD, ETCDCTL);
    let mut it = cluster(r#"{"subnet":"10.55.0.0/24"}"#);
    let [one, two] = ["n1", "n2"].map(|name| Node::new(&it, name, &ADDRESSES));
    restored(&mut it, [&one, &two]);
    one.ipamctl(&it, &["reconcile", "--begin", "n2"]);
    let output = two.ipamctl(&it, &["reconcile"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let conflict = "conflict: reserved to dead eth0 of network testnet on node n1";
    assert!(output.stdout.contains(conflict), "{output:?}");
    assert!(
        it.etcd
            .keys("/ipam/v1/reconcile/")
            .contains(&"n2".to_owned())
    );
    // A person finds out that n1 doesn't come back.
    let forgotten = two.ipamctl(&it, &["node-forget", "n1", "--yes"]);
    assert!(forgotten.status.success(), "{forgotten:?}");
    two.reconciles(&it);
    assert_eq!(it.etcd.keys("/ipam/v1/reconcile/"), Vec::<String>::new());
    it.add("third", &two.config).result();
}

#[test]
fn a_node_that_has_seen_a_later_etcd_gives_nothing_new_and_says_so() {
    needs!(ETCD, ETCDCTL);
    let mut it = cluster(r#"{"subnet":"10.55.0.0/24"}"#);
    let [one, two] = ["n1", "n2"].map(|name| Node::new(&it, name, &ADDRESSES));
    for (container, node) in [("a", &one), ("b", &two)] {
        it.add(container, &node.config).result();
    }
    let file = snapshot(&it);
    it.add("c", &two.config).result();
    it.etcd.restore(&file);
    // Nobody has run anything.
    it.add("d", &two.config)
        .refused(11, "this node has run ipamctl reconcile");
    it.add("e", &one.config)
        .refused(11, "have run ipamctl reconcile: n2");
    two.reconciles(&it);
    it.add("d", &two.config).result();
    it.add("e", &one.config).result();
    assert_eq!(it.reserved("lan").len(), 5);
}

#[test]
fn after_a_restore_a_block_that_lives_is_claimed_again() {
    needs!(ETCD, ETCDCTL);
    let mut it = cluster(r#"{"subnet":"10.55.0.0/29","block":30}"#);
    let [one, two] = ["n1", "n2"].map(|name| Node::new(&it, name, &BLOCKS));
    it.add("a", &one.config).result();
    let file = snapshot(&it);
    it.add("b", &two.config).result();
    let before = it.etcd.keys("/ipam/v1/blocks/lan/");
    it.etcd.restore(&file);
    assert_eq!(it.etcd.keys("/ipam/v1/blocks/lan/").len(), 1);
    one.ipamctl(&it, &["reconcile", "--begin", "n2"]);
    // More than n1's block has room for.
    let given = |prefix: &str| {
        let adds = (0..3).map(|i| it.add(&format!("{prefix}{i}"), &one.config));
        adds.filter(|it| it.status.success()).count()
    };
    let first = given("c");
    assert!(first < 3, "{first}");
    assert_eq!(it.etcd.keys("/ipam/v1/blocks/lan/").len(), 1);
    for node in [&two, &one] {
        node.reconciles(&it);
    }
    assert_eq!(it.etcd.keys("/ipam/v1/blocks/lan/"), before);
    it.del("b", &two.config).nothing();
}

#[test]
fn a_record_that_cannot_be_read_keeps_the_node_from_having_said_everything() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#"{"subnet":"10.55.0.0/24"}"#);
    let one = Node::new(&it, "n1", &ADDRESSES);
    it.add("a", &one.config).result();
    one.ipamctl(&it, &["reconcile", "--begin"]);
    let record = it.sandbox.root().join("n1/state/testnet/a:eth0.json");
    let content = std::fs::read(&record).unwrap();
    std::fs::write(&record, "damaged\n").unwrap();
    let output = one.ipamctl(&it, &["reconcile"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stderr.contains("a:eth0.json"), "{output:?}");
    assert_eq!(it.etcd.keys("/ipam/v1/reconcile/"), ["n1"]);
    std::fs::write(&record, content).unwrap();
    one.reconciles(&it);
}

#[test]
fn a_definition_is_not_changed_before_it_is_known_what_is_held() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#"{"subnet":"10.55.0.0/24"}"#);
    let one = Node::new(&it, "n1", &ADDRESSES);
    it.add("a", &one.config).result();
    one.ipamctl(&it, &["reconcile", "--begin"]);
    let file = it.sandbox.root().join("pools.json");
    std::fs::write(&file, r#"{"dmz":{"subnet":"10.56.0.0/24"}}"#).unwrap();
    let words = ["etcd", "import", file.to_str().unwrap()];
    let output = one.ipamctl(&it, &words);
    assert!(
        output.stderr.contains("ipamctl reconcile: n1"),
        "{output:?}"
    );
    one.reconciles(&it);
    assert!(one.ipamctl(&it, &words).status.success());
}

#[test]
fn a_mark_of_an_etcd_that_knows_no_node_needs_their_names() {
    needs!(ETCD, ETCDCTL);
    let it = Cluster::with(EtcdMember::default());
    let one = Node::new(&it, "n1", &ADDRESSES);
    let output = one.ipamctl(&it, &["reconcile", "--begin"]);
    assert!(output.stderr.contains("name all of them"), "{output:?}");
    // Until they are named, nothing is given.
    let output = one.ipamctl(&it, &["reconcile", "--begin", "n1", "n9"]);
    assert!(output.stdout.ends_with(":\nn1\nn9\n"), "{output:?}");
    assert_eq!(it.etcd.keys("/ipam/v1/reconcile/"), ["n1", "n9"]);
}
