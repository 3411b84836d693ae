//! `ipamctl` on pools that a cluster shares.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use harness::{ETCD, ETCDCTL, Output, needs};
use serde_json::{Value, json};

use super::Cluster;

/// The pools of the cluster: one of single addresses, one with blocks.
const CATALOGUE: &str = r#"{"pools": {
    "lan": {"subnet": "10.55.0.0/24"},
    "blocks": {"subnet": "10.56.0.0/24", "block": 28}}}"#;

/// A cluster with these pools, and nodes `n1`, on which `ipamctl` runs, and `n2`.
fn start() -> (Cluster, [Value; 2]) {
    let cluster = Cluster::default();
    let lan = json!([{"name": "lan"}]);
    let configs = ["n1", "n2"].map(|node| cluster.config(node, &["ipam-da-etcd"], &lan));
    cluster
        .sandbox
        .write_conflist("10-lan.conflist", &configs[0]);
    let imported = import(&cluster, CATALOGUE, &[]);
    assert_eq!(
        imported.stdout, "lan: created\nblocks: created\n",
        "{imported:?}"
    );
    (cluster, configs)
}

/// As [`start`], with an address on each node, and one from a block on `n2`.
fn start_with_block() -> Cluster {
    let (cluster, [n1, n2]) = start();
    let blocks = json!([{"name": "blocks"}]);
    let n2_blocks = cluster.config("n2", &["ipam-ds-etcd", "ipam-da-host-local"], &blocks);
    cluster.add("c1", &n1).result();
    cluster.add("c2", &n2).result();
    cluster.add("c3", &n2_blocks).result();
    cluster
}

fn file(cluster: &Cluster, content: &str) -> PathBuf {
    let file = cluster.sandbox.root().join("pools.json");
    fs::write(&file, content).unwrap();
    file
}

fn import(cluster: &Cluster, content: &str, words: &[&str]) -> Output {
    let file = file(cluster, content);
    let words = [&["import", file.to_str().unwrap()], words].concat();
    cluster.sandbox.ipamctl(&words).run()
}

#[track_caller]
fn json_of(cluster: &Cluster, words: &[&str]) -> Value {
    let output = cluster
        .sandbox
        .ipamctl(&[words, &["--json"]].concat())
        .run();
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{words:?}: {e}\n{output:?}"))
}

/// The rows of `ls`, by container, because the allocator may choose any addresses.
#[track_caller]
fn listed(cluster: &Cluster, words: &[&str]) -> Value {
    let mut rows = json_of(cluster, &[&["ls"], words].concat());
    let by_container = |row: &Value| row["containerID"].to_string();
    rows.as_array_mut().unwrap().sort_by_key(by_container);
    rows
}

/// A key of each row.
fn column<'a>(rows: &'a Value, key: &str) -> Vec<&'a str> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row[key].as_str().unwrap_or_default())
        .collect()
}

#[test]
fn a_catalogue_is_imported_whole_or_not_at_all() {
    needs!(ETCD, ETCDCTL);
    let (cluster, _) = start();
    let again = import(&cluster, CATALOGUE, &[]);
    assert_eq!(again.stdout, "lan: unchanged\nblocks: unchanged\n");
    let before = cluster.etcd.keys("/ipam/v1/pools/");
    for (content, why) in [
        (
            r#"{"new": {"subnet": "10.57.0.0/24"}, "lan": {"subnet": "10.55.0.0/25"}}"#,
            "pool lan: etcd has another definition",
        ),
        (
            r#"{"new": {"subnet": "10.55.0.128/25"}}"#,
            "pool new (10.55.0.129-10.55.0.254) overlaps with pool lan",
        ),
        (
            r#"{"new": {"subnet": "10.57.0.0/24"}, "bad": {"subnet": "10.58.0.7/24"}}"#,
            "10.58.0.7/24",
        ),
        ("{", "pools.json"),
    ] {
        let output = import(&cluster, content, &[]);
        assert!(output.stderr.contains(why), "{content}: {output:?}");
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(cluster.etcd.keys("/ipam/v1/pools/"), before);
    }
    let replaced = import(
        &cluster,
        r#"{"lan": {"subnet": "10.55.0.0/25"}}"#,
        &["--replace"],
    );
    assert_eq!(replaced.stdout, "lan: replaced\n", "{replaced:?}");
    assert_eq!(
        cluster.etcd.value("/ipam/v1/pools/lan"),
        r#"{"subnet": "10.55.0.0/25"}"#
    );
}

#[test]
fn a_nodes_addresses_are_shown_and_collected_and_other_nodes_are_left_alone() {
    needs!(ETCD, ETCDCTL);
    let (cluster, [n1, n2]) = start();
    for (container, config) in [("c1", &n1), ("c2", &n1), ("c3", &n2)] {
        cluster.add(container, config).result();
    }
    let own = listed(&cluster, &[]);
    assert_eq!(column(&own, "containerID"), ["c1", "c2"]);
    assert_eq!(column(&own, "state"), ["added", "added"]);
    assert_eq!(column(&own, "pool"), ["lan", "lan"]);
    let nodes = listed(&cluster, &["--all-nodes"]);
    assert_eq!(column(&nodes, "containerID"), ["c1", "c2", "c3"]);
    assert_eq!(column(&nodes, "node"), ["n1", "n1", "n2"]);
    let pools = json_of(&cluster, &["pools"]);
    assert_eq!(pools.as_array().unwrap().len(), 1, "{pools}");
    assert_eq!(
        (&pools[0]["size"], &pools[0]["reserved"]),
        (&json!(253), &json!(3))
    );
    assert_eq!(pools[0]["directory"], "etcd:/ipam/v1/addresses/lan");

    // c1 and its record are deleted: only etcd has it.
    let record = own[0]["record"].as_str().unwrap();
    fs::remove_file(record).unwrap();
    let valid = cluster.sandbox.root().join("valid");
    fs::write(&valid, "c2\n").unwrap();
    let valid = format!("--valid={}", valid.display());
    let leaks = json_of(&cluster, &["leaks", &valid, "--older-than=0s"]);
    assert_eq!(column(&leaks, "containerID"), ["c1"]);
    let collected = json_of(&cluster, &["gc", &valid, "--older-than=0s"]);
    assert_eq!(column(&collected, "outcome"), ["released"]);
    let released = json_of(&cluster, &["release", "c2"]);
    assert_eq!(released[0]["by"], "record");
    assert_eq!(cluster.reserved("lan").len(), 1);
    assert_eq!(column(&listed(&cluster, &["--all-nodes"]), "node"), ["n2"]);

    let cut_off = cluster.sandbox.ipamctl(&["release", "c3"]).run();
    assert!(!cut_off.status.success(), "{cut_off:?}");
    cluster.del("c3", &n2).nothing();
    assert_eq!(cluster.held(), Vec::<String>::new());
}

#[test]
fn a_node_is_forgotten_by_a_person_who_says_so() {
    needs!(ETCD, ETCDCTL);
    let cluster = start_with_block();
    let shown = cluster.sandbox.ipamctl(&["blocks"]).run();
    assert!(shown.stdout.contains("n2"), "{shown:?}");
    let claimed = json_of(&cluster, &["blocks"]);
    assert_eq!(claimed[0]["blocks"], "16");
    assert_eq!(claimed[0]["claimed"][0]["node"], "n2");
    let picture = cluster.sandbox.ipamctl(&["blocks", "--svg=-"]).run();
    assert!(
        picture
            .stdout
            .contains("blocks: 1 of 16 blocks of /28 claimed"),
        "{picture:?}"
    );

    let forget = |words: &[&str]| {
        let words = [&["node-forget"], words].concat();
        cluster.sandbox.ipamctl(&words).run()
    };
    let own = forget(&["n1", "--yes"]);
    assert!(own.stderr.contains("n1 is this node"), "{own:?}");
    let unknown = forget(&["n3", "--yes"]);
    assert!(
        unknown.stderr.contains("holds nothing of a node n3"),
        "{unknown:?}"
    );
    let asked = forget(&["n2"]);
    assert!(asked.stderr.contains("--yes"), "{asked:?}");
    let dry = forget(&["n2", "--dry-run"]);
    assert!(
        dry.stdout
            .starts_with("n2 holds 1 addresses and 1 blocks:\n"),
        "{dry:?}"
    );
    assert_eq!(cluster.reserved("lan").len(), 2);
    let done = forget(&["n2", "--yes"]);
    assert!(
        done.stdout.ends_with("released: 1 addresses, 1 blocks\n"),
        "{done:?}"
    );
    assert_eq!(cluster.reserved("lan").len(), 1);
    for prefix in ["blocks/", "nodes/n2/", "tokens/n2"] {
        let left = cluster.etcd.keys(&format!("/ipam/v1/{prefix}"));
        assert_eq!(left, Vec::<String>::new(), "{prefix}");
    }
}

#[test]
fn a_forgotten_nodes_block_is_released_though_nobody_defines_its_pool_any_more() {
    needs!(ETCD, ETCDCTL);
    let cluster = start_with_block();
    for pool in ["lan", "blocks"] {
        cluster
            .etcd
            .ctl(&["del", &format!("/ipam/v1/pools/{pool}")]);
    }
    // The addresses of all nodes, unchanged.
    let pools = json_of(&cluster, &["pools"]);
    assert_eq!(pools.as_array().unwrap().len(), 1, "{pools}");
    let row = (&pools[0]["pool"], &pools[0]["ranges"]);
    assert_eq!(row, (&json!("lan"), &Value::Null));
    assert_eq!(pools[0]["reserved"], 2);
    let words = ["node-forget", "n2", "--yes"];
    let done = cluster.sandbox.ipamctl(&words).run();
    assert!(
        done.stdout.ends_with("released: 1 addresses, 1 blocks\n"),
        "{done:?}"
    );
    assert_eq!(cluster.reserved("lan").len(), 1);
    assert_eq!(cluster.etcd.keys("/ipam/v1/blocks/"), Vec::<String>::new());
}

/// Runs its arguments with a terminal as stdin and stdout.
const ON_A_TERMINAL: &str = "import pty, sys; pty.spawn(sys.argv[1:])";

#[test]
fn a_block_that_another_node_takes_meanwhile_is_neither_released_nor_counted() {
    needs!(ETCD, ETCDCTL, "/usr/bin/python3");
    let (cluster, [_, n2]) = start();
    let blocks = json!([{"name": "blocks"}]);
    let n2_blocks = cluster.config("n2", &["ipam-ds-etcd", "ipam-da-host-local"], &blocks);
    cluster.add("c2", &n2).result();
    cluster.add("c3", &n2_blocks).result();
    let blocks = "/ipam/v1/blocks/";
    let block = format!("{blocks}{}", cluster.etcd.keys(blocks).remove(0));

    let call = cluster.sandbox.ipamctl(&["node-forget", "n2"]);
    let mut terminal = Command::new("/usr/bin/python3")
        .args(["-c", ON_A_TERMINAL])
        .args(call.words())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = terminal.stdout.take().unwrap();
    let mut text = Vec::new();
    let question = b"to release all of this: ";
    let mut byte = [0];
    while !text.ends_with(question) && shown.read(&mut byte).unwrap() > 0 {
        text.extend(byte);
    }
    let other = r#"{"node":"n3","since":"2026-01-01T00:00:00Z"}"#;
    cluster.etcd.put(&block, other);
    let mut stdin = terminal.stdin.take().unwrap();
    stdin.write_all(b"n2\n").unwrap();
    shown.read_to_end(&mut text).unwrap();
    terminal.wait().unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("released: 1 addresses, 0 blocks"), "{text}");
    assert!(text.contains("of pool blocks was changed"), "{text}");
    assert_eq!(cluster.etcd.value(&block), other);
}

#[test]
fn what_etcd_does_not_have_is_said_and_not_shown_as_empty() {
    needs!(ETCD, ETCDCTL);
    let (cluster, [_, n2]) = start();
    let blocks = json!([{"name": "blocks"}]);
    let n2_blocks = cluster.config("n2", &["ipam-ds-etcd", "ipam-da-host-local"], &blocks);
    cluster.add("c1", &n2_blocks).result();
    cluster.add("c2", &n2).result();
    let run = |words: &[&str]| cluster.sandbox.ipamctl(words).run();
    let all = run(&["ls", "--all-nodes"]);
    assert!(
        all.stderr
            .contains("given in blocks (ipamctl blocks): blocks"),
        "{all:?}"
    );
    // Foreign keys and values.
    cluster
        .etcd
        .put("/ipam/v1/blocks/blocks/10.56.0.240/28", "?");
    cluster.etcd.put("/ipam/v1/blocks/blocks/10.56.0.1/28", "?");
    cluster.etcd.put("/ipam/v1/addresses/lan/010.55.0.9", "?");
    for words in [&["blocks"][..], &["node-forget", "n2", "--dry-run"]] {
        let shown = run(words);
        assert!(
            shown.stderr.contains("10.56.0.1/28 is no key of ours"),
            "{shown:?}"
        );
    }
    let forget = run(&["node-forget", "n2", "--dry-run"]);
    let unknown = "block 10.56.0.240/28 of pool blocks has content that isn't ours";
    assert!(forget.stderr.contains(unknown), "{forget:?}");
    let all = run(&["ls", "--all-nodes"]);
    assert!(
        all.stderr.contains("lan/010.55.0.9 is no key of ours"),
        "{all:?}"
    );
    cluster.etcd.put("/ipam/v1/pools/blocks", "{");
    let named = run(&["blocks", "blocks"]);
    assert!(
        named.stderr.contains("it isn't known whether pool blocks"),
        "{named:?}"
    );
    assert_eq!(named.status.code(), Some(2));
}

#[test]
fn a_cluster_that_does_not_answer_is_said_and_not_shown_as_empty() {
    needs!(ETCD, ETCDCTL);
    let (mut cluster, [n1, _]) = start();
    cluster.add("c1", &n1).result();
    cluster.etcd.kill();
    let output = cluster.sandbox.ipamctl(&["pools"]).run();
    assert!(output.stderr.contains("etcd:/ipam: "), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
    // From its record.
    assert_eq!(column(&listed(&cluster, &[]), "containerID"), ["c1"]);
}

#[test]
fn what_is_released_of_a_block_is_gone_from_its_file() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let blocks = json!([{"name": "blocks"}]);
    let config = cluster.config("n1", &["ipam-ds-etcd", "ipam-da-host-local"], &blocks);
    cluster
        .sandbox
        .write_conflist("10-blocks.conflist", &config);
    import(&cluster, CATALOGUE, &[]);
    let file = |ip: &str| cluster.sandbox.root().join("n1/networks/blocks").join(ip);
    for (i, is_recorded) in [true, false].into_iter().enumerate() {
        let ip = cluster.add(&format!("c{i}"), &config).ips().remove(0);
        assert!(file(&ip).exists());
        if !is_recorded {
            fs::remove_dir_all(cluster.sandbox.root().join("n1/state")).unwrap();
        }
        let released = cluster.sandbox.ipamctl(&["release", &ip]).run();
        assert!(released.status.success(), "{released:?}");
        assert!(!file(&ip).exists(), "{released:?}");
    }
}
