//! `ipam-gc`: the calls that it answers by itself, and its calls of IPAM plugins.

use std::fs;
use std::os::unix::fs::symlink;

use harness::{Output, RANGES_CHAIN, Sandbox, needs};
use serde_json::{Value, json};

/// A call of `ipam-gc`. GC and STATUS come from libcni with empty variables.
fn call(sandbox: &Sandbox, command: &str, config: &Value) -> Output {
    let call = sandbox.call("ipam-gc", command, config);
    if ["GC", "STATUS"].contains(&command) {
        let empty = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"];
        let call = empty.iter().fold(call, |call, name| call.env(name, ""));
        return call.run();
    }
    call.run()
}

/// A configuration of `ipam-gc` for GC that lists no valid attachment.
fn config(sandbox: &Sandbox, ipam: &Value) -> Value {
    let mut config = sandbox.config("1.1.0", &RANGES_CHAIN, ipam);
    config["type"] = json!("ipam-gc");
    config["cni.dev/valid-attachments"] = json!([]);
    config
}

#[test]
fn add_prints_prev_result_byte_for_byte() {
    let sandbox = Sandbox::default();
    let prev_result = r#"{ "ips":[ {"address":"10.1.0.2/24" , "interface":2}],"cniVersion":"VERSION",
        "interfaces":[],  "x":1.50,"y":12345678901234567890,"é":"\u00e9" }"#;
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        // A result with another version than the configuration's is passed on unchanged.
        for result_version in ["1.0.0", version] {
            let prev_result = prev_result.replace("VERSION", result_version);
            let stdin = format!(
                r#"{{"cniVersion":"{version}","name":"testnet","type":"ipam-gc","prevResult":{prev_result},"z":1}}"#
            );
            let call = sandbox.call("ipam-gc", "ADD", &Value::Null);
            let output = call.stdin(stdin).run();
            output.ends(0);
            assert_eq!(output.stdout, prev_result, "{version}");
        }
    }
}

#[test]
fn check_and_del_succeed_without_output_and_change_nothing() {
    let sandbox = Sandbox::default();
    let mut config = config(&sandbox, &json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]}));
    let result = sandbox.run("ADD", &config).result();
    config["prevResult"] = result;
    for command in ["CHECK", "DEL", "DEL"] {
        call(&sandbox, command, &config).nothing();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"], "{command}");
        assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"], "{command}");
    }
    // The runtime may call DEL without a result.
    config.as_object_mut().unwrap().remove("prevResult");
    call(&sandbox, "DEL", &config).nothing();
}

#[test]
fn a_container_starts_whatever_the_ipam_section_says() {
    let sandbox = Sandbox::default();
    for ipam in [json!(null), json!(7), json!({"type": "../x"}), json!({})] {
        let prev_result = json!({"cniVersion": "1.1.0", "ips": []});
        let config = json!({
            "cniVersion": "1.1.0", "name": "testnet", "type": "ipam-gc",
            "ipam": ipam, "prevResult": prev_result,
        });
        assert_eq!(call(&sandbox, "ADD", &config).result(), prev_result);
        call(&sandbox, "CHECK", &config).nothing();
        call(&sandbox, "DEL", &config).nothing();
    }
}

#[test]
fn without_a_result_to_pass_on_add_and_check_are_refused() {
    let sandbox = Sandbox::default();
    let mut config = config(&sandbox, &json!({}));
    for command in ["ADD", "CHECK"] {
        for prev_result in [None, Some(json!(null))] {
            config["prevResult"] = prev_result.unwrap_or_default();
            call(&sandbox, command, &config).refused(7, "prevResult is missing");
        }
        config["prevResult"] = json!(["10.1.0.2"]);
        call(&sandbox, command, &config).error_is(7, "prevResult: expected an object");
    }
}

#[test]
fn gc_runs_the_chain_without_an_executable_of_it() {
    let sandbox = Sandbox::default();
    let mut config = config(&sandbox, &json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]}));
    for container in ["forgotten", "valid"] {
        let add = sandbox.call("ipam-delegated", "ADD", &config);
        add.container(container).run().result();
    }
    fs::remove_file(sandbox.plugins().join("ipam-delegated")).unwrap();
    config["cni.dev/valid-attachments"] = json!([{"containerID": "valid", "ifname": "eth0"}]);
    for _ in 0..2 {
        call(&sandbox, "GC", &config).nothing();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"]);
        assert_eq!(sandbox.records("testnet"), ["valid:eth0.json"]);
    }
    config
        .as_object_mut()
        .unwrap()
        .remove("cni.dev/valid-attachments");
    assert_eq!(call(&sandbox, "GC", &config).error()["code"], 7);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"]);
}

#[test]
fn a_gc_that_the_main_plugin_hands_on_as_well_does_no_harm() {
    let sandbox = Sandbox::default();
    let mut config = config(&sandbox, &json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]}));
    for container in ["forgotten", "valid"] {
        let add = sandbox.call("ipam-delegated", "ADD", &config);
        add.container(container).run().result();
    }
    config["cni.dev/valid-attachments"] = json!([{"containerID": "valid", "ifname": "eth0"}]);
    for plugin in ["ipam-delegated", "ipam-gc", "ipam-delegated"] {
        sandbox.call(plugin, "GC", &config).run().nothing();
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.3"], "{plugin}");
        assert_eq!(sandbox.records("testnet"), ["valid:eth0.json"], "{plugin}");
    }
}

#[test]
fn status_is_the_chains() {
    let sandbox = Sandbox::default();
    let of = |exclude: &[&str]| {
        let range = json!({"subnet": "10.1.0.0/30", "exclude": exclude});
        config(&sandbox, &json!({"ranges": [[range]]}))
    };
    call(&sandbox, "STATUS", &of(&[])).nothing();
    let refused = call(&sandbox, "STATUS", &of(&["10.1.0.0/30"]));
    refused.refused(50, "ipam-da-host-local");
    refused.refused(50, "10.1.0.1-10.1.0.2");
}

#[test]
fn another_ipam_plugin_gets_the_call_as_it_came() {
    let body = r#"cat > "${0%/*}/../$CNI_COMMAND.stdin"
echo "$CNI_COMMAND $CNI_PATH ${IPAM_DELEGATED_DELEGATE-}" > "${0%/*}/../$CNI_COMMAND.environment"
echo '{"code": 120, "msg": "the server is away"}'; exit 1"#;
    let sandbox = Sandbox::default().with_script("ipam-remote", body);
    let stdin = r#"{ "cniVersion":"1.1.0","name":"testnet", "ipam":{"type":"ipam-remote","x":1.50},
        "cni.dev/valid-attachments":[ ]}"#;
    for command in ["GC", "STATUS"] {
        let call = sandbox.call("ipam-gc", command, &Value::Null).stdin(stdin);
        call.run().error_is(120, "ipam-remote: the server is away");
        let read = |what: &str| {
            let file = sandbox.root().join(format!("{command}.{what}"));
            fs::read_to_string(file).unwrap()
        };
        assert_eq!(read("stdin"), stdin, "{command}");
        // It may run a chain itself, so it isn't marked as a delegate.
        let expected = format!("{command} {} \n", sandbox.plugins().display());
        assert_eq!(read("environment"), expected);
    }
}

#[test]
fn an_ipam_plugin_without_gc_is_passed_over() {
    needs!("host-local");
    let sandbox = Sandbox::default().with_reference("host-local");
    let mut config = config(&sandbox, &json!({"subnet": "10.1.0.0/24"}));
    config["ipam"]["type"] = json!("host-local");
    config["cniVersion"] = json!("1.0.0");
    let add = sandbox.call("host-local", "ADD", &config);
    add.run().result();
    config["cniVersion"] = json!("1.1.0");
    call(&sandbox, "GC", &config).nothing();
    call(&sandbox, "STATUS", &config).nothing();
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
}

#[test]
fn an_ipam_section_that_names_no_ipam_plugin_is_refused_on_status_and_gc_goes_by_the_records() {
    let sandbox = Sandbox::default();
    symlink("ipam-gc", sandbox.plugins().join("ipam-collect")).unwrap();
    for (ipam, code, word) in [
        (json!(null), 7, "ipam is missing"),
        (json!({}), 7, "ipam.type is missing"),
        (
            json!({"type": 7}),
            7,
            "ipam.type: invalid type: integer `7`",
        ),
        (json!({"type": "../../bin/sh"}), 7, "\"../../bin/sh\""),
        (
            json!({"type": "ipam-gc"}),
            7,
            "\"ipam-gc\" is not an IPAM plugin",
        ),
        (
            json!({"type": "ipam-collect"}),
            7,
            "leads back to this plugin",
        ),
        (json!({"type": "missing"}), 100, "missing"),
        (
            json!({"type": "ipam-delegated"}),
            7,
            "ipam.delegates is missing",
        ),
    ] {
        let config = json!({
            "cniVersion": "1.1.0", "name": "testnet", "type": "ipam-gc",
            "ipam": ipam, "cni.dev/valid-attachments": [],
        });
        call(&sandbox, "STATUS", &config).refused(code, word);
        let gc = call(&sandbox, "GC", &config);
        match ipam["type"].as_str() {
            Some("ipam-collect" | "missing") => gc.refused(code, word),
            _ => gc.nothing(),
        }
    }
}
