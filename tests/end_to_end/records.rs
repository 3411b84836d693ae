//! Records of attachments: DEL, GC and a repeated ADD go by them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{Output, Sandbox, needs};
use serde_json::{Value, json};

/// A selector whose back end is the folder `backend` beside the plugins: it works
/// as long as that is there.
const SELECTOR: &str = r#"[ -d "${0%/*}/../backend" ] || { echo '{"code":99,"msg":"the back end is gone"}'; exit 1; }
cat > /dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion":"1.0.0","ips":[],"pools":[{"name":"found","subnet":"10.9.0.0/24"}]}'"#;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::default().with_script("ipam-ds-backend", SELECTOR);
    fs::create_dir(sandbox.root().join("backend")).unwrap();
    sandbox
}

fn call(sandbox: &Sandbox, command: &str, container: &str, config: &Value) -> Output {
    sandbox
        .call("ipam-delegated", command, config)
        .container(container)
        .run()
}

#[test]
fn a_selector_whose_back_end_is_gone_does_not_keep_the_address() {
    let sandbox = sandbox();
    let delegates = ["ipam-ds-backend", "ipam-da-host-local"];
    let mut config = sandbox.config("1.0.0", &delegates, &json!({}));
    let added = call(&sandbox, "ADD", "c1", &config).result();
    call(&sandbox, "ADD", "c2", &config).result();
    assert_eq!(sandbox.reserved("found"), ["10.9.0.2", "10.9.0.3"]);
    fs::remove_dir(sandbox.root().join("backend")).unwrap();

    config["prevResult"] = added;
    let output = call(&sandbox, "DEL", "c1", &config);
    output.nothing();
    assert!(output.stderr.contains("the back end is gone"), "{output:?}");
    assert_eq!(sandbox.reserved("found"), ["10.9.0.3"]);
    assert_eq!(sandbox.records("testnet"), ["c2:eth0.json"]);
    // Without the runtime's prevResult, too.
    config.as_object_mut().unwrap().remove("prevResult");
    call(&sandbox, "DEL", "c2", &config).nothing();
    assert!(sandbox.reserved("found").is_empty() && sandbox.records("testnet").is_empty());
    // There is no recorded result of an attachment that was never added.
    assert_eq!(call(&sandbox, "DEL", "c3", &config).code(), 99);
}

#[test]
fn the_allocator_is_given_the_recorded_pools() {
    let sandbox = sandbox().with_script("takes-note", "cat > ${0%/*}/../$CNI_COMMAND; echo '{}'");
    let delegates = ["ipam-ds-backend", "takes-note"];
    let mut config = sandbox.config("1.0.0", &delegates, &json!({}));
    call(&sandbox, "ADD", "c1", &config).result();
    fs::remove_dir(sandbox.root().join("backend")).unwrap();
    config["prevResult"] = json!({"ips": [{"address": "10.9.0.2/24", "interface": 2}]});
    call(&sandbox, "DEL", "c1", &config).nothing();
    let noted = |command: &str| -> Value {
        serde_json::from_slice(&fs::read(sandbox.root().join(command)).unwrap()).unwrap()
    };
    // The runtime's result, and the pools besides.
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
    call(&sandbox, "ADD", "c1", &then).result();
    // `a` is gone from the configuration, `c` has come.
    let now = sandbox.config("1.0.0", &["c", "b"], &json!({"key": "now"}));
    call(&sandbox, "DEL", "c1", &now).nothing();
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
            // Those that ran, with what they ran with; then today's others.
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
    call(&sandbox, "ADD", "c1", &then).result();
    // Another one, with its data elsewhere.
    let elsewhere = sandbox.root().join("elsewhere");
    let ipam = json!({"ranges": [[{"subnet": "10.2.0.0/24"}]], "dataDir": elsewhere});
    let now = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    call(&sandbox, "DEL", "c1", &now).nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

/// An allocator that keeps its addresses in the folder `ipam.place` beside the plugins. It
/// can't reach a place beside which there is a file `<place>.away`, and refuses a key beside
/// which there is a file `<key>.revoked`.
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
    call(&sandbox, "ADD", "c1", &at("old")).result();
    fs::write(file("old.away"), "").unwrap();
    for command in ["DEL", "GC", "DEL"] {
        let error = call(&sandbox, command, "c1", &at("new")).error();
        assert_eq!(error["code"], 11, "{command}: {error}");
        assert!(
            error["msg"].as_str().unwrap().contains("old is away"),
            "{error}"
        );
        assert!(file("old/c1").exists());
        assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"], "{command}");
    }
    fs::remove_file(file("old.away")).unwrap();
    call(&sandbox, "DEL", "c1", &at("new")).nothing();
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
        call(&sandbox, "ADD", "c1", &with("here", "then")).result();
        fs::write(file("then.revoked"), "").unwrap();
        // Elsewhere, there is nothing to release.
        let error = call(&sandbox, "DEL", "c1", &with("there", "now")).error();
        assert_eq!(error["code"], 11, "{error}");
        assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
        call(&sandbox, "DEL", "c1", &with("here", "now")).nothing();
        assert!(!file("here/c1").exists());
        assert!(sandbox.records("testnet").is_empty());
    }
}

#[test]
fn a_record_that_is_torn_foreign_or_unreadable_is_passed_over() {
    let record = |sandbox: &Sandbox| sandbox.state_dir().join("testnet/c1:eth0.json");
    let damages: [fn(&std::path::Path); 6] = [
        |path| fs::write(path, "").unwrap(),
        |path| fs::write(path, &fs::read(path).unwrap()[..100]).unwrap(),
        |path| fs::write(path, "{\"format\": 99}").unwrap(),
        |path| {
            let other = fs::read_to_string(path)
                .unwrap()
                .replace("\"c1\"", "\"c2\"");
            fs::write(path, other).unwrap();
        },
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
    ];
    for (i, damage) in damages.iter().enumerate() {
        let sandbox = Sandbox::default();
        let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
        let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
        let config = sandbox.config("1.0.0", &delegates, &ipam);
        call(&sandbox, "ADD", "c1", &config).result();
        damage(&record(&sandbox));
        let output = call(&sandbox, "DEL", "c1", &config);
        output.nothing();
        // An empty record and a missing one say that nothing has begun.
        let is_damaged = ![0, 5].contains(&i);
        let is_warned_of = output.stderr.contains("WARN") && output.stderr.contains("record");
        assert_eq!(is_warned_of, is_damaged, "{i}: {output:?}");
        assert!(sandbox.reserved("testnet").is_empty(), "{i}");
        if i != 4 {
            assert!(sandbox.records("testnet").is_empty(), "{i}");
        }
    }
}

#[test]
fn records_that_cannot_be_kept_keep_nothing_from_working() {
    let sandbox = Sandbox::default();
    fs::write(sandbox.state_dir(), "a file where the folder should be").unwrap();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    let output = call(&sandbox, "ADD", "c1", &config);
    assert_eq!(output.ips(), ["10.1.0.2"]);
    assert!(
        output.stderr.contains("the attachment is not recorded"),
        "{output:?}"
    );
    call(&sandbox, "DEL", "c1", &config).nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn a_second_add_touches_nothing_that_is_in_use() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    call(&sandbox, "ADD", "c1", &config).result();
    // By itself, the allocator would refuse it; undoing that would free the address.
    let error = call(&sandbox, "ADD", "c1", &config).error();
    assert_eq!(error["code"], 110);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    call(&sandbox, "DEL", "c1", &config).nothing();
    assert_eq!(call(&sandbox, "ADD", "c1", &config).ips(), ["10.1.0.3"]);
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
    // As in a container that the kernel shows a boot ID of its own.
    assert_eq!(add("two", long_ago).code(), 110);
    // It isn't known when this boot began.
    assert_eq!(add("two", "").code(), 110);
    assert_eq!(add("two", later).ips(), ["10.1.0.3"]);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"]);
}

#[test]
fn a_record_is_its_owners_alone_and_holds_no_more_than_came() {
    let sandbox = Sandbox::default();
    let ipam =
        json!({"ranges": [[{"subnet": "10.1.0.0/24"}]], "token": "secret-of-the-configuration"});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    let output = sandbox
        .call("ipam-delegated", "ADD", &config)
        .env("SECRET", "of-the-environment")
        .env("CNI_ARGS", "IgnoreUnknown=1;A=b")
        .run();
    let mode = |path: &str| {
        let metadata = fs::metadata(sandbox.state_dir().join(path)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("testnet"), mode("testnet/c1:eth0.json")),
        (0o700, 0o600)
    );
    let json = fs::read_to_string(sandbox.state_dir().join("testnet/c1:eth0.json")).unwrap();
    assert!(!json.contains("of-the-environment"));
    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let intent = &lines[0]["adding"];
    assert_eq!(intent["config"], config);
    assert_eq!(intent["netns"], "/run/netns/c1");
    assert_eq!(intent["args"], "IgnoreUnknown=1;A=b");
    assert_eq!(
        intent["delegates"],
        json!(["ipam-ds-ranges", "ipam-da-host-local"])
    );
    assert!(lines[1]["result"]["pools"].is_array());
    assert_eq!(lines[2]["result"], output.result());
    assert_eq!(lines[3], json!({"added": {}}));
    assert_eq!(lines.len(), 4);
}

#[test]
fn records_do_not_grow_without_bound() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/30"}]], "padding": "x".repeat(1 << 20)});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    call(&sandbox, "ADD", "c1", &config).result();
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    assert!(fs::metadata(record).unwrap().len() < 2_000);
    // One that fails leaves none.
    for n in 0..20 {
        assert_eq!(
            call(&sandbox, "ADD", &format!("full{n}"), &config).code(),
            11
        );
    }
    assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
    call(&sandbox, "DEL", "c1", &config).nothing();
    assert!(!sandbox.state_dir().join("testnet").exists());
}

/// The options of strace that let the first call of this name whose line has this text fail.
fn failing(trace: &str, name: &str, text: &str, error: &str) -> String {
    let start = format!("{name}(");
    let calls = trace.lines().filter(|line| line.starts_with(&start));
    let at = calls.into_iter().position(|line| line.contains(text));
    let when = at.unwrap_or_else(|| panic!("no {name} of {text} in {trace}")) + 1;
    format!("inject={name}:error={error}:when={when}")
}

#[test]
fn a_record_that_cannot_be_read_now_is_kept_and_nothing_is_released() {
    const STRACE: &str = "/usr/bin/strace";
    needs!(STRACE);
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut config = sandbox.config("1.1.0", &delegates, &ipam);
    config["cni.dev/valid-attachments"] = json!([]);
    let trace = sandbox.root().join("trace");
    let traced = |command: &str, expression: &str| {
        let trace = trace.to_str().unwrap();
        sandbox
            .call("ipam-delegated", command, &config)
            .through(&[STRACE, "-qq", "-o", trace, "-e", expression])
            .run()
    };
    for command in ["DEL", "GC", "ADD"] {
        call(&sandbox, "ADD", "c1", &config).result();
        traced(command, "trace=all");
        let of_command = fs::read_to_string(&trace).unwrap();
        call(&sandbox, "DEL", "c1", &config).nothing();
        call(&sandbox, "ADD", "c1", &config).result();
        let reserved = sandbox.reserved("testnet");
        let mut points = vec![
            ("openat", "c1:eth0.json"),
            ("openat", "state/testnet"),
            ("pread64", "adding"),
            ("flock", "LOCK_EX|LOCK_NB"),
        ];
        if command == "GC" {
            points.push(("getdents64", ""));
        }
        for (name, text) in points {
            for error in ["EIO", "ENFILE", "ENOMEM"] {
                let expression = failing(&of_command, name, text, error);
                let output = traced(command, &expression);
                assert_eq!(output.code(), 11, "{command} {expression}: {output:?}");
                assert_eq!(
                    sandbox.reserved("testnet"),
                    reserved,
                    "{command} {expression}"
                );
                assert_eq!(
                    sandbox.records("testnet"),
                    ["c1:eth0.json"],
                    "{command} {expression}"
                );
            }
        }
        call(&sandbox, "DEL", "c1", &config).nothing();
    }
}

#[test]
fn a_container_id_that_is_too_long_for_a_record_works_without_one() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let mut config = sandbox.config("1.1.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    config["cni.dev/valid-attachments"] = json!([]);
    let id = "c".repeat(246);
    sandbox.write_conflist("10-net.conflist", &config);
    let release = || sandbox.ipamctl(&["release", &id]).run();
    for (i, way) in ["DEL", "GC", "release"].into_iter().enumerate() {
        let ip = format!("10.1.0.{}", i + 2);
        assert_eq!(call(&sandbox, "ADD", &id, &config).ips(), [ip], "{way}");
        match way {
            "release" => assert!(release().status.success(), "{:?}", release()),
            command => call(&sandbox, command, &id, &config).nothing(),
        }
        assert!(sandbox.reserved("testnet").is_empty(), "{way}");
    }
}
