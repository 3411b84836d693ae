//! `cargo xtask demo --cluster`: a member of etcd, two nodes, and both ways to share a pool.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use harness::{ETCD, ETCDCTL, EtcdMember, answer_of};
use serde_json::{Value, json};

use super::tools::Tools;
use super::wrapper::Wrapper;
use super::{Runtime, config, heading};

/// The nodes of the demo.
const NODES: [&str; 2] = ["node-1", "node-2"];

/// The folder of all keys in etcd.
const KEYS: &str = "/ipam/v1/";

pub(super) fn run(built: &Path) -> Result<()> {
    if [ETCD, ETCDCTL].iter().any(|it| !Path::new(it).exists()) {
        bail!(
            "The demo of a cluster needs etcd, which isn't installed. On Debian, as root:\n\n    \
             apt-get install etcd-server etcd-client\n\n\
             Debian starts a service of it, which the demo doesn't use:\n\n    \
             systemctl disable --now etcd"
        );
    }
    let mut member = EtcdMember::default();
    println!(
        "One member of etcd, at {}, with its data in memory.",
        member.url()
    );
    let folder = tempfile::Builder::new()
        .prefix("ipam-delegated-demo-")
        .tempdir()?;
    address_by_address(&member, built, folder.path())?;
    blocks(&mut member, built, folder.path())
}

/// Each ADD is a transaction: `ipam-da-etcd`.
fn address_by_address(member: &EtcdMember, built: &Path, root: &Path) -> Result<()> {
    let [one, two] = nodes("testdata/flat.conflist", member, built, root)?;
    write_pool(
        member,
        "flat",
        &json!({"ranges": [{"subnet": "10.90.0.0/24"}]}),
    );
    heading("ADD on node-1: c1 gets an address that nobody in the cluster has");
    let c1 = one.add("c1", "")?;
    heading("ADD on node-2: c2 gets another one of the same pool");
    let c2 = two.add("c2", "")?;
    ensure!(answer_of(&c1) != answer_of(&c2), "one address twice");
    show(member, "addresses/");
    heading("GC on node-2, which has lost c2: what node-1 has is not its business");
    two.gc()?;
    show(member, "addresses/");
    heading("DEL on node-1: c1 gives its address back");
    one.call("DEL", "c1", "", &[("prevResult", c1)])?;
    show(member, "addresses/");
    Ok(())
}

/// A transaction claims a block for many ADDs: `ipam-ds-etcd`.
fn blocks(member: &mut EtcdMember, built: &Path, root: &Path) -> Result<()> {
    let [one, two] = nodes("testdata/routed.conflist", member, built, root)?;
    let pool = json!({"ranges": [{"subnet": "10.91.0.0/16"}], "block": 26});
    write_pool(member, "routed", &pool);
    heading("ADD on node-1: it claims a block of the pool, and c1 gets an address of it");
    one.add("c1", "")?;
    heading("ADD on node-2: c2 gets an address of another block");
    two.add("c2", "")?;
    show(member, "blocks/");
    heading("etcd is killed, and node-1 goes on in its block");
    member.kill();
    one.add("c3", "")?;
    one.show_files("routed")?;
    heading("DEL on node-1, still without etcd");
    one.call("DEL", "c3", "", &[])?;
    println!();
    one.show_files("routed")
}

/// Both nodes with a conflist's configuration, which is shown once.
fn nodes(conflist: &str, member: &EtcdMember, built: &Path, root: &Path) -> Result<[Runtime; 2]> {
    let [one, two] = NODES.map(|name| node(name, conflist, member, built, root));
    Ok([one?, two?])
}

/// A node with folders of its own below `root`.
fn node(
    name: &str,
    conflist: &str,
    member: &EtcdMember,
    built: &Path,
    root: &Path,
) -> Result<Runtime> {
    let node = root.join(name);
    let story = node.join(Path::new(conflist).file_stem().unwrap_or_default());
    fs::create_dir_all(&story)?;
    let mut config = match name == NODES[0] {
        true => config(conflist, &story)?,
        false => super::config_of(conflist, &story)?,
    };
    let ipam = &mut config["ipam"];
    ipam["node"] = json!(name);
    ipam["etcd"]["endpoints"] = json!([member.url()]);
    // A node stays itself from conflist to conflist.
    ipam["etcd"]["cacheDir"] = json!(node.join("etcd-cache"));
    ipam["etcd"]["stateDir"] = json!(node.join("etcd"));
    Ok(Runtime {
        config,
        wrapper: Wrapper::new(&story)?,
        root: story,
        tools: Tools::none(),
        built: built.to_owned(),
    })
}

fn write_pool(member: &EtcdMember, pool: &str, value: &Value) {
    let key = format!("{KEYS}pools/{pool}");
    heading("The administrator writes the pool into etcd");
    println!("$ etcdctl put {key} '{value}'");
    member.put(&key, &value.to_string());
}

/// Shows the keys below, each with whose it is.
fn show(member: &EtcdMember, below: &str) {
    let prefix = format!("{KEYS}{below}");
    println!("\n$ etcdctl get --prefix {prefix}\n");
    for key in member.keys(&prefix).iter().filter(|key| !key.is_empty()) {
        let key = format!("{prefix}{key}");
        let value: Value = serde_json::from_str(&member.value(&key)).unwrap_or_default();
        let texts = ["node", "network", "containerID", "ifname"];
        let texts = texts.iter().filter_map(|it| value[it].as_str());
        println!("    {key:<40} {}", texts.collect::<Vec<_>>().join(" "));
    }
}
