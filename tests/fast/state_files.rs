//! Our own files and folders: no other user can read, write or replace them.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use harness::{Flavour, Output, RANGES_CHAIN, Sandbox, needs};
use serde_json::{Value, json};

const NOBODY: u32 = 65534;

fn config(sandbox: &Sandbox) -> Value {
    sandbox.config_of_one_range("1.0.0", &RANGES_CHAIN, &json!({"token": "secret"}))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn call(sandbox: &Sandbox, command: &str) -> Output {
    sandbox.run(command, &config(sandbox))
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    let sandbox = Sandbox::new(Flavour::Verbose);
    sandbox
        .call("ipam-delegated", "ADD", &config(&sandbox))
        .through(&["sh", "-c", "umask 0; exec \"$0\""])
        .run()
        .result();
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    assert_eq!(mode(&sandbox.state_dir()), 0o700);
    assert_eq!(mode(&sandbox.state_dir().join("testnet")), 0o700);
    assert_eq!(mode(&record), 0o600);
    // The logs contain the configuration.
    assert_eq!(mode(&sandbox.log_dir()), 0o750);
    for plugin in ["ipam-delegated", "ipam-ds-ranges", "ipam-da-host-local"] {
        let [log] = &sandbox.log_files(plugin)[..] else {
            panic!("not one log of {plugin}");
        };
        assert_eq!(mode(&sandbox.log_dir().join(log)), 0o640, "{plugin}");
    }
}

#[test]
fn beyond_a_limit_of_file_sizes_a_call_fails_with_an_answer() {
    for flavour in [Flavour::Normal, Flavour::Verbose] {
        let sandbox = Sandbox::new(flavour);
        let add = sandbox.call("ipam-delegated", "ADD", &config(&sandbox));
        let output = add.through(&["prlimit", "--fsize=0"]).run();
        output.refused(5, "File too large");
        assert_eq!(sandbox.reserved("testnet"), [""; 0]);
        call(&sandbox, "ADD").result();
    }
}

#[test]
fn a_record_of_another_user_is_no_record() {
    needs!("root");
    let sandbox = Sandbox::default().with_script("evil", ": > ${0%/*}/../ran");
    call(&sandbox, "ADD").result();
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    let planted = fs::read_to_string(&record)
        .unwrap()
        .replace("[\"ipam-ds-ranges\",", "[\"evil\",");
    assert!(planted.contains("evil"));
    fs::write(&record, planted).unwrap();
    chown(&record, Some(NOBODY), None).unwrap();
    let output = call(&sandbox, "DEL");
    output.nothing();
    output.warns(["belongs to user 65534"]);
    assert!(
        !sandbox.root().join("ran").exists(),
        "root runs what nobody wrote"
    );
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn a_relative_folder_is_refused() {
    let sandbox = Sandbox::default();
    for key in ["stateDir", "dataDir"] {
        let mut config = config(&sandbox);
        config["ipam"][key] = json!("some/folder");
        let refused = sandbox.run("ADD", &config);
        refused.refused(7, key);
        refused.refused(7, "\"some/folder\"");
    }
    let call = sandbox.call(
        "ipam-delegated",
        "ADD",
        &sandbox.config(
            "1.0.0",
            &RANGES_CHAIN,
            &json!({"stateDir": "", "subnet": "10.1.0.0/24"}),
        ),
    );
    assert_eq!(
        call.env("IPAM_DELEGATED_STATE_DIR", "state").run().code(),
        4
    );
}
