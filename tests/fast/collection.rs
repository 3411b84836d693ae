//! GC by the records of attachments, also for delegates that have no GC.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use harness::waiting::wait_for;
use harness::{Node, Output, RANGES_CHAIN, Sandbox, needs};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

fn gc(sandbox: &Sandbox, config: &Value, valid: &[String]) -> Output {
    let mut config = config.clone();
    config["cniVersion"] = json!("1.1.0");
    let valid: Vec<Value> = valid
        .iter()
        .map(|container| json!({"containerID": container, "ifname": "eth0"}))
        .collect();
    config["cni.dev/valid-attachments"] = json!(valid);
    sandbox
        .call("ipam-delegated", "GC", &config)
        .without("CNI_CONTAINERID")
        .without("CNI_IFNAME")
        .without("CNI_NETNS")
        .run()
}

fn add(sandbox: &Sandbox, config: &Value, container: &str) -> Output {
    sandbox.run_for("ADD", container, config)
}

#[test]
fn a_forgotten_attachment_is_freed_though_the_allocator_knows_no_gc() {
    needs!("host-local");
    for version in ["1.0.0", "1.1.0"] {
        let sandbox = Sandbox::default().with_reference("host-local");
        let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
        let config = sandbox.config(version, &["host-local"], &ipam);
        add(&sandbox, &config, "remembered").result();
        add(&sandbox, &config, "forgotten").result();
        gc(&sandbox, &config, &["remembered".to_owned()]).nothing();
        assert_eq!(
            sandbox.reservations("testnet"),
            [("10.1.0.2".to_owned(), "remembered\r\neth0".to_owned())]
        );
        assert_eq!(sandbox.records("testnet"), ["remembered:eth0.json"]);
        gc(&sandbox, &config, &[]).nothing();
        sandbox.holds_nothing("testnet");
    }
}

#[test]
fn a_container_of_another_runtime_is_kept_while_its_namespace_is_there() {
    let sandbox = Sandbox::default();
    let config = sandbox.config_of_ranges("1.1.0");
    let add = |container: &str, netns: &str| {
        let call = sandbox.chain_call("ADD", container, &config);
        call.env("CNI_NETNS", netns).run().result();
    };
    // A namespace that isn't the host's own.
    add("other", "/proc/self/ns/uts");
    add("gone", "/run/netns/gone");
    add("host", "/proc/self/ns/net");
    let output = gc(&sandbox, &config, &["listed".to_owned()]);
    output.ends(0);
    assert_eq!(output.stderr.matches("other eth0").count(), 1, "{output:?}");
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    assert_eq!(sandbox.records("testnet"), ["other:eth0.json"]);
}

/// No runtime may do this, and two that share a network do.
#[test]
fn an_add_of_another_runtime_during_a_gc_keeps_its_address() {
    let script = r#"cat > /dev/null
case $CNI_COMMAND in
ADD) echo '{"ips": []}' ;;
GC) : > "${0%/*}/../collecting"; cat "${0%/*}/../go" > /dev/null ;;
esac"#;
    let sandbox = Sandbox::default().with_script("slow", script);
    let ranges = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let delegates = ["slow", "ipam-ds-ranges", "ipam-da-host-local"];
    let config = sandbox.config("1.1.0", &delegates, &ranges);
    let go = sandbox.root().join("go");
    mkfifoat(CWD, &go, Mode::RWXU).unwrap();
    thread::scope(|scope| {
        let collecting = scope.spawn(|| gc(&sandbox, &config, &[]));
        while !sandbox.root().join("collecting").exists() {
            thread::sleep(Duration::from_millis(1));
        }
        let adding = scope.spawn(|| add(&sandbox, &config, "other"));
        // As long as an ADD takes that doesn't wait.
        let begun = Instant::now();
        while !adding.is_finished() && begun.elapsed() < Duration::from_secs(1) {
            thread::sleep(Duration::from_millis(1));
        }
        fs::write(&go, "").unwrap();
        collecting.join().unwrap().nothing();
        adding.join().unwrap().result();
    });
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    assert_eq!(sandbox.records("testnet"), ["other:eth0.json"]);
}

#[test]
fn an_attachment_whose_del_ends_during_a_gc_is_not_undone_again() {
    let script = r#"cat > /dev/null
case $CNI_COMMAND in
ADD) echo '{"ips": []}' ;;
DEL) echo >> "${0%/*}/../deleting"; cat "${0%/*}/../go" > /dev/null ;;
esac"#;
    let sandbox = Sandbox::default().with_script("slow", script);
    let ranges = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let delegates = ["slow", "ipam-ds-ranges", "ipam-da-host-local"];
    let config = sandbox.config("1.1.0", &delegates, &ranges);
    add(&sandbox, &config, "c1").result();
    let (go, deleting) = (sandbox.root().join("go"), sandbox.root().join("deleting"));
    mkfifoat(CWD, &go, Mode::RWXU).unwrap();
    thread::scope(|scope| {
        let del = scope.spawn(|| sandbox.run_for("DEL", "c1", &config));
        wait_for(|| deleting.exists());
        let collecting = scope.spawn(|| gc(&sandbox, &config, &[]));
        // As long as a GC takes that lists the record, and waits for its lock.
        thread::sleep(Duration::from_millis(500));
        fs::write(&go, "").unwrap();
        del.join().unwrap().nothing();
        fs::remove_file(&go).unwrap();
        collecting.join().unwrap().nothing();
    });
    assert_eq!(fs::read(deleting).unwrap(), b"\n");
}

#[test]
fn a_collected_attachment_is_called_for_as_it_was_added() {
    let script = r#"cat > "${0%/*}/../$CNI_COMMAND.stdin"
env | grep '^CNI_' | sort > "${0%/*}/../$CNI_COMMAND.env"
[ "$CNI_COMMAND" != ADD ] || echo '{"ips": [{"address": "10.0.0.2/24"}]}'"#;
    let sandbox = Sandbox::default().with_script("notes", script);
    let mut config = sandbox.config("1.1.0", &["notes"], &json!({}));
    config["runtimeConfig"] = json!({"ips": ["10.0.0.2"]});
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    call.env("CNI_ARGS", "A=1").run().result();
    // GC has neither of these keys.
    config.as_object_mut().unwrap().remove("runtimeConfig");
    gc(&sandbox, &config, &[]).nothing();
    let read = |name: &str| fs::read_to_string(sandbox.root().join(name)).unwrap();
    assert_eq!(
        read("DEL.env"),
        read("ADD.env").replace("COMMAND=ADD", "COMMAND=DEL")
    );
    let (added, deleted): (Value, Value) = (
        serde_json::from_str(&read("ADD.stdin")).unwrap(),
        serde_json::from_str(&read("DEL.stdin")).unwrap(),
    );
    let mut expected = added;
    expected["prevResult"] = json!({"ips": [{"address": "10.0.0.2/24"}]});
    assert_eq!(deleted, expected);
    // The delegate's own GC comes last.
    assert!(read("GC.stdin").contains("cni.dev/valid-attachments"));
}

#[test]
fn failures_are_gone_past_and_reported_by_delegate_and_attachment() {
    let script = r#"cat > /dev/null
case $CNI_COMMAND-${CNI_CONTAINERID-} in
ADD-*) echo '{"ips": [{"address": "10.0.0.2/24"}]}' ;;
DEL-bad*) echo "{\"code\": 77, \"msg\": \"can't let $CNI_CONTAINERID go\"}"; exit 1 ;;
GC-*) echo '{"code": 78, "msg": "no GC today"}'; exit 1 ;;
esac"#;
    let sandbox = Sandbox::default().with_script("stubborn", script);
    let config = sandbox.config(
        "1.1.0",
        &["stubborn", "ipam-ds-ranges"],
        &json!({"subnet": "10.0.0.0/24"}),
    );
    for container in ["bad1", "good", "bad2", "valid"] {
        add(&sandbox, &config, container).result();
    }
    let error = gc(&sandbox, &config, &["valid".to_owned()]).error();
    assert_eq!(
        error,
        json!({
            "cniVersion": "1.1.0", "code": 77,
            "msg": "stubborn: can't let bad1 go; stubborn: can't let bad2 go; stubborn: no GC today",
            "details": "asked stubborn: DEL of bad1 eth0 on network testnet\n\
                        asked stubborn: DEL of bad2 eth0 on network testnet\n\
                        asked stubborn: GC on network testnet"
        })
    );
    // If a delegate's DEL fails, the record is kept.
    assert_eq!(
        sandbox.records("testnet"),
        ["bad1:eth0.json", "bad2:eth0.json", "valid:eth0.json"]
    );
}

#[test]
fn what_is_no_record_is_named_and_keeps_no_gc_from_its_work() {
    let sandbox = Sandbox::default();
    let config = sandbox.config_of_ranges("1.1.0");
    for kind in ["folder", "pipe", "link"] {
        let remembered = add(&sandbox, &config, "remembered").ips();
        add(&sandbox, &config, "forgotten").result();
        let path = sandbox.state_dir().join("testnet/x:eth0.json");
        match kind {
            "folder" => fs::create_dir(&path).unwrap(),
            "pipe" => mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap(),
            _ => std::os::unix::fs::symlink("remembered:eth0.json", &path).unwrap(),
        }
        let output = gc(&sandbox, &config, &["remembered".to_owned()]);
        assert!(output.status.success(), "{kind}: {output:?}");
        let named = output.stderr.matches(path.to_str().unwrap()).count();
        assert_eq!(named, 1, "{kind}: {output:?}");
        assert_eq!(sandbox.reserved("testnet"), remembered, "{kind}");
        match kind {
            "folder" => fs::remove_dir(&path).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        gc(&sandbox, &config, &[]).nothing();
        assert!(sandbox.reserved("testnet").is_empty(), "{kind}");
    }
}

#[test]
fn a_record_that_cannot_be_removed_is_named_and_taken_for_no_running_add() {
    needs!("root");
    let ranges = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    // A mounted file can be written to, and not be removed.
    for (mount, name) in [("mount --bind -r", ""), ("mount --bind", "c1:eth0.json")] {
        let sandbox = Sandbox::default();
        let config = sandbox.config("1.1.0", &RANGES_CHAIN, &ranges);
        add(&sandbox, &config, "c1").result();
        let (node, folder) = (Node::new(), sandbox.state_dir().join("testnet"));
        let mounted = folder.join(name).display().to_string();
        node.sh(&format!("{mount} {mounted} {mounted}"));
        let mut of_gc = config.clone();
        of_gc["cni.dev/valid-attachments"] = json!([]);
        let call = sandbox.call("ipam-delegated", "GC", &of_gc);
        let output = call.run_on(&node);
        assert!(output.status.success(), "{mount}: {output:?}");
        let path = folder.join("c1:eth0.json");
        assert!(
            output.stderr.contains(path.to_str().unwrap()),
            "{mount}: {output:?}"
        );
        assert!(sandbox.reserved("testnet").is_empty(), "{mount}");
        node.sh(&format!("umount {mounted}"));
        gc(&sandbox, &config, &[]).nothing();
        assert!(sandbox.records("testnet").is_empty(), "{mount}");
    }
}
