//! Records of attachments: used by DEL, GC and a repeated ADD.

use std::fs;

use harness::{Sandbox, needs};
use serde_json::{Value, json};

mod files;

/// A selector whose back end is the folder `backend` beside the plugins. It fails while the folder
/// is missing.
const SELECTOR: &str = r#"[ -d "${0%/*}/../backend" ] || { echo '{"code":99,"msg":"the back end is gone"}'; exit 1; }
cat > /dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion":"1.0.0","ips":[],"pools":[{"name":"found","subnet":"10.9.0.0/24"}]}'"#;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::default().with_script("ipam-ds-backend", SELECTOR);
    fs::create_dir(sandbox.root().join("backend")).unwrap();
    sandbox
}

#[test]
fn a_selector_whose_back_end_is_gone_does_not_keep_the_address() {
    let sandbox = sandbox();
    let delegates = ["ipam-ds-backend", "ipam-da-host-local"];
    let mut config = sandbox.config("1.0.0", &delegates, &json!({}));
    let added = sandbox.chain_call("ADD", "c1", &config).run().result();
    sandbox.chain_call("ADD", "c2", &config).run().result();
    assert_eq!(sandbox.reserved("found"), ["10.9.0.2", "10.9.0.3"]);
    fs::remove_dir(sandbox.root().join("backend")).unwrap();

    config["prevResult"] = added;
    let output = sandbox.chain_call("DEL", "c1", &config).run();
    output.nothing();
    assert!(output.stderr.contains("the back end is gone"), "{output:?}");
    assert_eq!(sandbox.reserved("found"), ["10.9.0.3"]);
    assert_eq!(sandbox.records("testnet"), ["c2:eth0.json"]);
    // Without the runtime's prevResult as well.
    config.as_object_mut().unwrap().remove("prevResult");
    sandbox.chain_call("DEL", "c2", &config).run().nothing();
    assert!(sandbox.reserved("found").is_empty() && sandbox.records("testnet").is_empty());
    // An attachment that was never added has no recorded result.
    assert_eq!(sandbox.chain_call("DEL", "c3", &config).run().code(), 99);
}

#[test]
fn the_allocator_is_given_the_recorded_pools() {
    let sandbox = sandbox().with_script("takes-note", "cat > ${0%/*}/../$CNI_COMMAND; echo '{}'");
    let delegates = ["ipam-ds-backend", "takes-note"];
    let mut config = sandbox.config("1.0.0", &delegates, &json!({}));
    sandbox.chain_call("ADD", "c1", &config).run().result();
    fs::remove_dir(sandbox.root().join("backend")).unwrap();
    config["prevResult"] = json!({"ips": [{"address": "10.9.0.2/24", "interface": 2}]});
    sandbox.chain_call("DEL", "c1", &config).run().nothing();
    let noted = |command: &str| -> Value {
        serde_json::from_slice(&fs::read(sandbox.root().join(command)).unwrap()).unwrap()
    };
    // The runtime's result, with the recorded pools.
    assert_eq!(
        noted("DEL")["prevResult"],
        json!({
            "ips": [{"address": "10.9.0.2/24", "interface": 2}],
            "cniVersion": "1.0.0",
            "pools": noted("ADD")["prevResult"]["pools"]
        })
    );
}

#[test]
fn the_delegates_that_ran_are_undone_whatever_is_configured_now() {
    let sandbox = sandbox()
        .with_script(
            "a",
            "echo a-$CNI_COMMAND $(cat) >> ${0%/*}/../log; echo '{}'",
        )
        .with_script(
            "b",
            "echo b-$CNI_COMMAND $(cat) >> ${0%/*}/../log; echo '{}'",
        )
        .with_script(
            "c",
            "echo c-$CNI_COMMAND $(cat) >> ${0%/*}/../log; echo '{}'",
        );
    let then = sandbox.config("1.0.0", &["a", "b"], &json!({"key": "then"}));
    sandbox.chain_call("ADD", "c1", &then).run().result();
    // `a` was removed from the configuration, `c` was added.
    let now = sandbox.config("1.0.0", &["c", "b"], &json!({"key": "now"}));
    sandbox.chain_call("DEL", "c1", &now).run().nothing();
    let log = fs::read_to_string(sandbox.root().join("log")).unwrap();
    let calls: Vec<(&str, &str)> = log
        .lines()
        .map(|line| {
            let key = if line.contains(r#""key":"then""#) {
                "then"
            } else {
                "now"
            };
            (line.split(' ').next().unwrap(), key)
        })
        .collect();
    assert_eq!(
        calls,
        [
            ("a-ADD", "then"),
            ("b-ADD", "then"),
            // First the delegates that ran, with their configuration of that time; then today's
            // others.
            ("a-DEL", "then"),
            ("b-DEL", "then"),
            ("c-DEL", "now"),
        ]
    );
    assert!(sandbox.records("testnet").is_empty());
}

#[test]
fn an_allocator_that_was_taken_out_of_the_configuration_lets_go() {
    needs!("host-local");
    let sandbox = Sandbox::default().with_reference("host-local");
    let then = sandbox.config(
        "1.0.0",
        &["host-local"],
        &json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]}),
    );
    sandbox.chain_call("ADD", "c1", &then).run().result();
    // Another allocator, with another data directory.
    let elsewhere = sandbox.root().join("elsewhere");
    let ipam = json!({"ranges": [[{"subnet": "10.2.0.0/24"}]], "dataDir": elsewhere});
    let now = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    sandbox.chain_call("DEL", "c1", &now).run().nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

/// An allocator that keeps its addresses in the folder `ipam.place` beside the plugins. It fails
/// for a place if a file `<place>.away` exists, and for a key if a file `<key>.revoked` exists.
const PLACES: &str = r#"cd "${0%/*}/.."; input=$(cat)
value() { printf %s "$input" | sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }
place=$(value place); key=$(value key)
refuse() { echo "{\"code\":$1,\"msg\":\"$2\"}"; exit 1; }
[ ! -e "$place.away" ] || refuse 99 "$place is away"
[ ! -e "$key.revoked" ] || refuse 7 "$key is no key"
mkdir -p "$place"
case $CNI_COMMAND in
    ADD) : > "$place/$CNI_CONTAINERID"; echo '{"ips":[{"address":"10.7.0.9/24"}]}' ;;
    CHECK) [ -e "$place/$CNI_CONTAINERID" ] || refuse 112 "not reserved" ;;
    DEL) rm -f "$place/$CNI_CONTAINERID" ;;
esac"#;

#[test]
fn a_del_that_cannot_ask_the_recorded_place_fails_and_keeps_the_record() {
    let sandbox = Sandbox::default().with_script("places", PLACES);
    let file = |name: &str| sandbox.root().join(name);
    let at = |place: &str| {
        let ipam = json!({"place": place, "key": "k"});
        let mut config = sandbox.config("1.1.0", &["places"], &ipam);
        config["cni.dev/valid-attachments"] = json!([]);
        config
    };
    sandbox.chain_call("ADD", "c1", &at("old")).run().result();
    fs::write(file("old.away"), "").unwrap();
    for command in ["DEL", "GC", "DEL"] {
        let error = sandbox.chain_call(command, "c1", &at("new")).run().error();
        assert_eq!(error["code"], 11, "{command}: {error}");
        assert!(
            error["msg"].as_str().unwrap().contains("old is away"),
            "{error}"
        );
        assert!(file("old/c1").exists());
        assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"], "{command}");
    }
    fs::remove_file(file("old.away")).unwrap();
    sandbox.chain_call("DEL", "c1", &at("new")).run().nothing();
    assert!(!file("old/c1").exists());
    assert!(sandbox.records("testnet").is_empty());
}

#[test]
fn a_recorded_configuration_that_fails_is_replaced_by_one_that_leads_to_the_same_addresses() {
    for version in ["0.3.1", "1.0.0"] {
        let sandbox = Sandbox::default().with_script("places", PLACES);
        let file = |name: &str| sandbox.root().join(name);
        let with = |place: &str, key: &str| {
            let ipam = json!({"place": place, "key": key});
            sandbox.config(version, &["places"], &ipam)
        };
        sandbox
            .chain_call("ADD", "c1", &with("here", "then"))
            .run()
            .result();
        fs::write(file("then.revoked"), "").unwrap();
        // In another place, there is nothing to release.
        let error = sandbox
            .chain_call("DEL", "c1", &with("there", "now"))
            .run()
            .error();
        assert_eq!(error["code"], 11, "{error}");
        assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
        sandbox
            .chain_call("DEL", "c1", &with("here", "now"))
            .run()
            .nothing();
        assert!(!file("here/c1").exists());
        assert!(sandbox.records("testnet").is_empty());
    }
}

#[test]
fn a_second_add_touches_nothing_that_is_in_use() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    sandbox.chain_call("ADD", "c1", &config).run().result();
    // The allocator alone would refuse it, and the rollback would release the address.
    let error = sandbox.chain_call("ADD", "c1", &config).run().error();
    assert_eq!(error["code"], 110);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    sandbox.chain_call("DEL", "c1", &config).run().nothing();
    assert_eq!(
        sandbox.chain_call("ADD", "c1", &config).run().ips(),
        ["10.1.0.3"]
    );
}

#[test]
fn an_attachment_from_before_the_boot_is_undone_and_added_anew() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    let proc = sandbox.root().join("proc");
    let random = proc.join("sys/kernel/random");
    fs::create_dir_all(&random).unwrap();
    let add = |boot: &str, stat: &str| {
        fs::write(random.join("boot_id"), boot).unwrap();
        fs::write(proc.join("stat"), stat).unwrap();
        let call = sandbox.call("ipam-delegated", "ADD", &config);
        call.env("IPAM_DELEGATED_PROC", &proc).run()
    };
    let (long_ago, later) = ("btime 1000\n", "btime 4000000000\n");
    assert_eq!(add("one", long_ago).ips(), ["10.1.0.2"]);
    assert_eq!(add("one", long_ago).code(), 110);
    // As in a container with another boot ID.
    assert_eq!(add("two", long_ago).code(), 110);
    // The start of this boot is unknown.
    assert_eq!(add("two", "").code(), 110);
    assert_eq!(add("two", later).ips(), ["10.1.0.3"]);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"]);
}
