//! The engine is restored from a snapshot: addresses and blocks in use are claimed again, and
//! before that, nothing new is given.

use harness::Output;
use serde_json::{Value, json};

use super::pool_cluster::{PoolCluster, promises};

/// A node with a separate conflist for its `ipamctl`.
struct Node {
    name: &'static str,
    config: Value,
}

impl Node {
    fn new(cluster: &dyn PoolCluster, name: &'static str, allocators: &[&str]) -> Self {
        let config = cluster.config(name, allocators, &json!([{"name": "lan"}]));
        Self { name, config }
    }

    fn ipamctl(&self, cluster: &dyn PoolCluster, words: &[&str]) -> Output {
        cluster.ipamctl(&cluster.as_administrator(&self.config), words)
    }

    #[track_caller]
    fn reconciles(&self, cluster: &dyn PoolCluster) {
        let output = self.ipamctl(cluster, &["reconcile"]);
        assert_eq!(output.status.code(), Some(0), "{}: {output:?}", self.name);
    }

    /// An ADD that requests this address.
    fn requests(&self, cluster: &dyn PoolCluster, container: &str, ip: &str) -> Output {
        let mut config = self.config.clone();
        config["ipam"]["pools"] = json!([{"name": "lan", "requested-ip": ip}]);
        cluster.add(container, &config)
    }
}

/// A pool has two addresses. After the snapshot, `dead` releases A, and `alive` gets it. Then the
/// snapshot is restored.
fn restored(cluster: &mut dyn PoolCluster, [one, two]: [&Node; 2]) {
    one.requests(cluster, "dead", "10.55.0.2").result();
    cluster.save();
    cluster.del("dead", &one.config).nothing();
    two.requests(cluster, "alive", "10.55.0.2").result();
    cluster.restore();
}

fn after_a_restore_an_address_that_lives_is_given_to_nobody_else(cluster: &mut dyn PoolCluster) {
    cluster.define(
        "lan",
        &json!({"subnet":"10.55.0.0/29","rangeEnd":"10.55.0.3"}),
    );
    let [one, two] = ["n1", "n2"].map(|name| Node::new(cluster, name, &cluster.addresses()));
    restored(cluster, [&one, &two]);

    // The documented procedure. n2 was registered after the snapshot.
    let begun = one.ipamctl(cluster, &["reconcile", "--begin", "n2"]);
    assert!(begun.stdout.ends_with(":\nn1\nn2\n"), "{begun:?}");
    // The runtime of n1 doesn't list `dead`, so GC releases its address in the engine.
    cluster.gc(&[], &one.config).nothing();
    for node in [&one, &two] {
        let refused = node.requests(cluster, "third", "10.55.0.2");
        refused.refused(11, "have run ipamctl reconcile: n1, n2");
        let status = cluster.call("STATUS", "", &node.config).run();
        status.refused(50, "ipamctl reconcile");
    }
    one.reconciles(cluster);
    one.requests(cluster, "third", "10.55.0.2")
        .refused(11, "have run ipamctl reconcile: n2");
    let output = two.ipamctl(cluster, &["reconcile"]);
    assert_eq!(
        output.stdout,
        format!(
            "10.55.0.2 of pool lan (alive eth0 of network testnet): claimed\n1 addresses and blocks live here; {} had lost 1 of them\n",
            cluster.engine()
        ),
        "{output:?}"
    );
    assert_eq!(cluster.marks(), Vec::<String>::new());
    one.requests(cluster, "third", "10.55.0.2")
        .refused(111, "reserved to alive eth0");
    assert_eq!(cluster.add("fourth", &one.config).ips(), ["10.55.0.3"]);
    // An address that was claimed again is released as usual.
    cluster.del("alive", &two.config).nothing();
    assert_eq!(
        one.requests(cluster, "third", "10.55.0.2").ips(),
        ["10.55.0.2"]
    );
}

fn an_address_that_two_claim_is_shown_and_waits_for_a_person(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet":"10.55.0.0/24"}));
    let [one, two] = ["n1", "n2"].map(|name| Node::new(cluster, name, &cluster.addresses()));
    restored(cluster, [&one, &two]);
    one.ipamctl(cluster, &["reconcile", "--begin", "n2"]);
    let output = two.ipamctl(cluster, &["reconcile"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let conflict = "conflict: reserved to dead eth0 of network testnet on node n1";
    assert!(output.stdout.contains(conflict), "{output:?}");
    assert!(cluster.marks().contains(&"n2".to_owned()));
    // A person decides that n1 doesn't come back.
    let forgotten = two.ipamctl(cluster, &["node-forget", "n1", "--yes"]);
    assert!(forgotten.status.success(), "{forgotten:?}");
    two.reconciles(cluster);
    assert_eq!(cluster.marks(), Vec::<String>::new());
    cluster.add("third", &two.config).result();
}

fn what_had_ended_before_a_restore_is_released_by_del(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet":"10.55.0.0/24"}));
    let [one, two] = ["n1", "n2"].map(|name| Node::new(cluster, name, &cluster.addresses()));
    let mut elsewhere = two.config.clone();
    elsewhere["name"] = json!("othernet");
    elsewhere["ipam"][cluster.engine()]["cacheDir"] =
        json!(cluster.sandbox().root().join("other-cache"));
    one.requests(cluster, "ended", "10.55.0.3").result();
    cluster.add("ended", &elsewhere).result();
    restored(cluster, [&one, &two]);
    one.ipamctl(cluster, &["reconcile", "--begin", "n2"]);
    // No record of it is left, so only the engine knows its address.
    cluster.del("dead", &one.config).nothing();
    two.reconciles(cluster);
    one.reconciles(cluster);
    assert_eq!(
        cluster.holder("lan", "10.55.0.2")["containerID"],
        json!("alive")
    );
    cluster.del("ended", &one.config).nothing();
    cluster.del("ended", &elsewhere).nothing();
    cluster.del("alive", &two.config).nothing();
    assert_eq!(cluster.reserved("lan"), [""; 0]);
}

fn a_node_that_has_seen_a_later_state_gives_nothing_new_and_says_so(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet":"10.55.0.0/24"}));
    let [one, two] = ["n1", "n2"].map(|name| Node::new(cluster, name, &cluster.addresses()));
    for (container, node) in [("a", &one), ("b", &two)] {
        cluster.add(container, &node.config).result();
    }
    cluster.save();
    cluster.advance();
    cluster.add("c", &two.config).result();
    cluster.restore();
    // Nobody has run `ipamctl reconcile`.
    cluster
        .add("d", &two.config)
        .refused(11, "this node has run ipamctl reconcile");
    cluster
        .add("e", &one.config)
        .refused(11, "have run ipamctl reconcile: n2");
    two.reconciles(cluster);
    cluster.add("d", &two.config).result();
    cluster.add("e", &one.config).result();
    assert_eq!(cluster.reserved("lan").len(), 5);
}

fn after_a_restore_a_block_that_lives_is_claimed_again(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet":"10.55.0.0/29","block":30}));
    let [one, two] = ["n1", "n2"].map(|name| Node::new(cluster, name, &cluster.in_blocks()));
    cluster.add("a", &one.config).result();
    cluster.save();
    cluster.add("b", &two.config).result();
    let before = cluster.blocks("lan");
    cluster.restore();
    assert_eq!(cluster.blocks("lan").len(), 1);
    one.ipamctl(cluster, &["reconcile", "--begin", "n2"]);
    // More ADDs than n1's block has room for.
    let given = |prefix: &str| {
        let adds = (0..3).map(|i| cluster.add(&format!("{prefix}{i}"), &one.config));
        adds.filter(|output| output.status.success()).count()
    };
    let first = given("c");
    assert!(first < 3, "{first}");
    assert_eq!(cluster.blocks("lan").len(), 1);
    for node in [&two, &one] {
        node.reconciles(cluster);
    }
    assert_eq!(cluster.blocks("lan"), before);
    cluster.del("b", &two.config).nothing();
}

fn a_record_that_cannot_be_read_keeps_the_node_from_having_said_everything(
    cluster: &mut dyn PoolCluster,
) {
    cluster.define("lan", &json!({"subnet":"10.55.0.0/24"}));
    let one = Node::new(cluster, "n1", &cluster.addresses());
    cluster.add("a", &one.config).result();
    one.ipamctl(cluster, &["reconcile", "--begin"]);
    let record = cluster
        .sandbox()
        .root()
        .join("n1/state/testnet/a:eth0.json");
    let content = std::fs::read(&record).unwrap();
    std::fs::write(&record, "damaged\n").unwrap();
    let output = one.ipamctl(cluster, &["reconcile"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stderr.contains("a:eth0.json"), "{output:?}");
    assert_eq!(cluster.marks(), ["n1"]);
    std::fs::write(&record, content).unwrap();
    one.reconciles(cluster);
}

fn an_attachment_whose_add_and_del_have_failed_does_not_keep_the_mark(
    cluster: &mut dyn PoolCluster,
) {
    cluster.define("lan", &json!({"subnet":"10.55.0.0/24"}));
    let one = Node::new(cluster, "n1", &cluster.addresses());
    cluster.add("a", &one.config).result();
    cluster.stop();
    let impatient = cluster.within("1s", &one.config);
    for command in ["ADD", "DEL"] {
        let output = cluster.call(command, "b", &impatient).run();
        assert_eq!(output.code(), 11, "{output:?}");
    }
    cluster.start();
    one.ipamctl(cluster, &["reconcile", "--begin"]);
    one.reconciles(cluster);
    assert_eq!(cluster.reserved("lan").len(), 1);
    assert_eq!(cluster.marks(), Vec::<String>::new());
}

fn a_definition_is_not_changed_before_it_is_known_what_is_held(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet":"10.55.0.0/24"}));
    let one = Node::new(cluster, "n1", &cluster.addresses());
    cluster.add("a", &one.config).result();
    one.ipamctl(cluster, &["reconcile", "--begin"]);
    let file = cluster.sandbox().root().join("pools.json");
    std::fs::write(&file, r#"{"dmz":{"subnet":"10.56.0.0/24"}}"#).unwrap();
    let words = ["import", file.to_str().unwrap()];
    let output = one.ipamctl(cluster, &words);
    assert!(
        output.stderr.contains("ipamctl reconcile: n1"),
        "{output:?}"
    );
    one.reconciles(cluster);
    assert!(one.ipamctl(cluster, &words).status.success());
}

fn a_mark_of_an_engine_that_knows_no_node_needs_their_names(cluster: &mut dyn PoolCluster) {
    let one = Node::new(cluster, "n1", &cluster.addresses());
    let output = one.ipamctl(cluster, &["reconcile", "--begin"]);
    assert!(output.stderr.contains("name all of them"), "{output:?}");
    // Until the nodes are named, nothing is given.
    let output = one.ipamctl(cluster, &["reconcile", "--begin", "n1", "n9"]);
    assert!(output.stdout.ends_with(":\nn1\nn9\n"), "{output:?}");
    assert_eq!(cluster.marks(), ["n1", "n9"]);
}

fn a_node_that_has_booted_since_the_snapshot_registers_again(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet":"10.55.0.0/24"}));
    let one = Node::new(cluster, "n1", &cluster.addresses());
    // Adds a container in this boot; returns the replacement for `/proc`.
    let boot = |cluster: &dyn PoolCluster, id: &str| {
        let root = cluster.sandbox().root();
        let proc = root.join(id);
        std::fs::create_dir_all(proc.join("sys/kernel/random")).unwrap();
        std::fs::write(proc.join("sys/kernel/random/boot_id"), id).unwrap();
        let _ = std::fs::remove_dir_all(root.join("n1/cache"));
        let call = cluster.call("ADD", id, &one.config);
        call.env("IPAM_DELEGATED_PROC", &proc).run().result();
        proc
    };
    boot(cluster, "first");
    cluster.save();
    let proc = boot(cluster, "second");
    cluster.restore();
    one.ipamctl(cluster, &["reconcile", "--begin"]);
    let sandbox = cluster.sandbox();
    sandbox.write_conflist("10-pools.conflist", &one.config);
    let reconcile = sandbox.ipamctl(&["reconcile"]);
    let output = reconcile.env("IPAM_DELEGATED_PROC", &proc).run();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(cluster.reserved("lan").len(), 2);
}

promises! {
    after_a_restore_an_address_that_lives_is_given_to_nobody_else,
    an_address_that_two_claim_is_shown_and_waits_for_a_person,
    what_had_ended_before_a_restore_is_released_by_del,
    a_node_that_has_seen_a_later_state_gives_nothing_new_and_says_so,
    after_a_restore_a_block_that_lives_is_claimed_again,
    a_record_that_cannot_be_read_keeps_the_node_from_having_said_everything,
    an_attachment_whose_add_and_del_have_failed_does_not_keep_the_mark,
    a_definition_is_not_changed_before_it_is_known_what_is_held,
    a_mark_of_an_engine_that_knows_no_node_needs_their_names,
    a_node_that_has_booted_since_the_snapshot_registers_again,
}
