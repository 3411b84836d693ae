//! Delegates that support only older versions than the network's.

use harness::{Sandbox, needs};
use serde_json::{Value, json};

#[test]
fn a_network_of_the_newest_version_runs_debians_plugins() {
    needs!("host-local");
    let sandbox = Sandbox::default().with_reference("host-local");
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let mut config = sandbox.config("1.1.0", &["ipam-ds-ranges", "host-local"], &ipam);
    // Without the chain, it refuses the version.
    assert_eq!(sandbox.call("host-local", "ADD", &config).run().code(), 1);
    let result = sandbox.run("ADD", &config).result();
    assert_eq!(result["cniVersion"], "1.1.0");
    assert_eq!(
        result["ips"],
        json!([{"address": "10.1.0.2/24", "gateway": "10.1.0.1"}])
    );
    config["prevResult"] = result;
    sandbox.run("CHECK", &config).nothing();
    sandbox.run("STATUS", &config).nothing();
    config["cni.dev/valid-attachments"] = json!([{"containerID": "c1", "ifname": "eth0"}]);
    sandbox.run("GC", &config).nothing();
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    sandbox.run("DEL", &config).nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

/// A delegate that supports versions up to 0.4.0, with the messages of its time. It records its
/// calls.
const OLD: &str = r#"in=$(cat)
echo "$CNI_COMMAND $in" >> "${0%/*}/../log"
[ "$CNI_COMMAND" != VERSION ] || { echo '{"cniVersion":"0.4.0","supportedVersions":["0.3.0","0.3.1","0.4.0"]}'; exit; }
case $in in *'"cniVersion":"0.4.0","'*) ;; *) echo '{"code":1,"msg":"incompatible CNI versions"}'; exit 1 ;; esac
case $CNI_COMMAND in
ADD) echo '{"cniVersion":"0.4.0","ips":[{"version":"6","address":"fd00::7/64"}]}' ;;
DEL | CHECK) ;;
*) echo '{"code":4,"msg":"unknown CNI_COMMAND"}'; exit 1 ;;
esac"#;

fn log(sandbox: &Sandbox) -> Vec<(String, Value)> {
    let log = std::fs::read_to_string(sandbox.root().join("log")).unwrap();
    std::fs::remove_file(sandbox.root().join("log")).unwrap();
    log.lines()
        .map(|line| {
            let (command, config) = line.split_once(' ').unwrap();
            (command.to_owned(), serde_json::from_str(config).unwrap())
        })
        .collect()
}

#[test]
fn gc_asks_a_delegate_once_for_all_attachments_that_are_gone() {
    let sandbox = Sandbox::default().with_script("old", OLD);
    let mut config = sandbox.config("1.1.0", &["old"], &json!({}));
    for id in ["c1", "c2", "c3"] {
        sandbox.run_for("ADD", id, &config).result();
    }
    log(&sandbox);
    config["cni.dev/valid-attachments"] = json!([]);
    sandbox.run("GC", &config).nothing();
    let commands: Vec<String> = log(&sandbox)
        .into_iter()
        .map(|(command, _)| command)
        .collect();
    // The older version has no GC.
    assert_eq!(commands, ["DEL", "VERSION", "DEL", "DEL", "DEL"]);
    assert!(sandbox.records("testnet").is_empty());
}
