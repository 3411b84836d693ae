//! Each command that `ipamctl` suggests releases exactly the leak for which it was printed.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use harness::Sandbox;
use serde_json::json;

use super::{GONE, OURS, THERE, add, id, json_of, network, with};

/// Writes a reservation without a record.
fn reserve(sandbox: &Sandbox, network: &str, ip: &str, content: &str) {
    let folder = sandbox.data_dir().join(network);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(ip), content).unwrap();
}

/// All reservations, as `network/address`.
fn reserved(sandbox: &Sandbox) -> Vec<String> {
    let networks = ["old", "testnet"].into_iter();
    let all = networks.flat_map(|network| {
        let ips = sandbox.reserved(network).into_iter();
        ips.map(move |ip| format!("{network}/{ip}"))
    });
    all.collect()
}

/// Runs a shell script with `ipamctl` in its `PATH`.
fn in_shell(sandbox: &Sandbox, line: &str) -> String {
    let bin = sandbox.root().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let _ = std::os::unix::fs::symlink(sandbox.ipamctl(&[]).executable(), bin.join("ipamctl"));
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", line]).env("PATH", path).output().unwrap();
    format!("{output:?}")
}

#[test]
fn each_command_that_leaks_prints_releases_its_leak_and_nothing_else() {
    let (sandbox, config) = with(&[("a1", GONE), ("a2", THERE)]);
    // A container ID that looks like an address, namely the next one.
    add(&sandbox, &config, "10.77.0.5", GONE);
    add(&sandbox, &config, "living", THERE);
    add(&sandbox, &config, "web-1", GONE);
    add(&sandbox, &config, "web-10", THERE);
    // A reservation without an interface, beside one of a living interface of the same container.
    reserve(&sandbox, "testnet", "10.77.0.50", "living");
    reserve(&sandbox, "testnet", "10.77.0.51", "living");
    // A reservation of a network without a conflist, and one with a name that no plugin accepts.
    reserve(&sandbox, "old", "10.1.0.2", "c1\r\neth0");
    reserve(&sandbox, "old", "10.1.0.3", "c1\r\neth1");
    reserve(
        &sandbox,
        "testnet",
        "10.77.0.52",
        "it's $(not) a name\r\neth0",
    );
    // Names that look like options.
    reserve(&sandbox, "testnet", "10.77.0.53", "-rf\r\neth0");
    reserve(&sandbox, "testnet", "10.77.0.54", "c2\r\n--all");
    // Files that name nobody: cut off, no file at all. An empty one is given out by itself.
    reserve(&sandbox, "testnet", "10.77.0.55", "c3\r");
    reserve(&sandbox, "old", "10.1.0.4", "c3\0\0");
    reserve(&sandbox, "old", "10.1.0.5", "");
    symlink("/nowhere", sandbox.data_dir().join("old/10.1.0.6")).unwrap();
    let leaks = json_of(&sandbox, &["leaks"]);
    let rows = leaks.as_array().unwrap();
    assert_eq!(rows.len(), 13, "{rows:?}");
    for row in rows {
        let mut expected = reserved(&sandbox);
        let network = row["network"].as_str().unwrap();
        for ip in row["addresses"].as_array().unwrap() {
            let released = format!("{network}/{}", ip.as_str().unwrap());
            expected.retain(|reserved| *reserved != released);
        }
        let command = row["release"].as_str().unwrap();
        let output = in_shell(&sandbox, command);
        assert_eq!(reserved(&sandbox), expected, "{command}: {output}");
    }
    let living = [
        "old/10.1.0.5",
        "testnet/10.77.0.3",
        "testnet/10.77.0.5",
        "testnet/10.77.0.7",
    ];
    assert_eq!(reserved(&sandbox), living);
    assert_eq!(sandbox.records("testnet").len(), 3);
}

#[test]
fn a_release_doesnt_wait_longer_than_it_is_told_for_the_lock_of_a_directory() {
    let (sandbox, _) = with(&[("a1", GONE)]);
    let lock = fs::File::open(sandbox.data_dir().join("testnet/lock")).unwrap();
    lock.lock().unwrap();
    let words = ["release", "--timeout", "1s", "10.77.0.2"];
    let output = sandbox.ipamctl(&words).run();
    output.ends(2).prints(["did not end within"]);
    assert_eq!(sandbox.reserved("testnet").len(), 1);
    drop(lock);
    let output = sandbox.ipamctl(&["release", "10.77.0.2"]).run();
    output.ends(0);
}

#[test]
fn a_release_has_one_bound_for_all_delegates() {
    let hangs = "case $CNI_COMMAND in
        ADD) sed 's/.*\"prevResult\":\\({.*}\\)}$/\\1/' ;;
        DEL) echo begun >>$0.log; exec sleep 1000 ;;
        esac";
    let names = ["first", "second"];
    let sandbox = Sandbox::default()
        .with_script(names[0], hangs)
        .with_script(names[1], hangs);
    let mut config = network(&sandbox);
    config["ipam"]["delegates"] = json!([OURS, names].concat());
    sandbox.write_conflist("10-testnet.conflist", &config);
    add(&sandbox, &config, &id("a1"), GONE);
    // The delegates before these use a part of the time, on any machine.
    let words = ["release", "--timeout", "10s", "10.77.0.2"];
    let output = sandbox.ipamctl(&words).run();
    output
        .ends(2)
        .prints(["the time limit for all delegates is over"]);
    let has_begun = |name: &str| sandbox.plugins().join(format!("{name}.log")).exists();
    assert_eq!(names.map(has_begun), [true, false], "{output:?}");
    // The next release calls them again.
    assert_eq!(sandbox.records("testnet").len(), 1);
}
