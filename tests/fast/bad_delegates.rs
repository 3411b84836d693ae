//! Invalid chains and failing delegates: each failure has its code and names the
//! delegate; nothing is reserved.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{PLUGINS, Sandbox, assert_has};
use serde_json::json;

use crate::bad_input::{DELEGATES, gets, good};

#[test]
fn a_chain_that_is_no_list_of_names_is_refused_except_by_del_and_gc() {
    let sandbox = Sandbox::default();
    for (delegates, words) in [
        (json!(null), ["ipam.delegates", "missing"]),
        (json!(["../plugins/x"]), ["ipam.delegates[0]", "CNI_PATH"]),
    ] {
        let mut config = good(&sandbox);
        config["ipam"]["delegates"] = delegates;
        for command in ["ADD", "CHECK", "STATUS"] {
            gets(
                &sandbox,
                sandbox.call("ipam-delegated", command, &config),
                7,
                &words,
            );
        }
        // There is no record, so no delegate is undone.
        for command in ["DEL", "GC"] {
            let output = sandbox.run(command, &config);
            output.nothing();
            for word in words.iter().chain(&["WARN"]) {
                assert!(output.stderr.contains(word), "{word}: {output:?}");
            }
        }
    }
}

#[test]
fn a_configuration_without_an_ipam_section_is_refused() {
    let sandbox = Sandbox::default();
    for (ipam, words) in [
        (json!(null), "ipam is missing"),
        (json!("x"), "ipam: invalid type"),
    ] {
        let mut config = good(&sandbox);
        config["ipam"] = ipam;
        for plugin in PLUGINS {
            // ADD of `ipam-gc` doesn't read the section.
            let command = if plugin == "ipam-gc" { "STATUS" } else { "ADD" };
            let call = sandbox.call(plugin, command, &config);
            gets(&sandbox, call, 7, &[words]);
        }
    }
}

#[test]
fn a_caller_that_ignores_the_end_of_its_children_gets_an_answer() {
    let sandbox = Sandbox::default().with_script("executed", "echo '{\"ips\": []}'");
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.0/24"}]]});
    let chain = ["executed", "ipam-ds-ranges", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &chain, &ranges);
    let ignoring = ["sh", "-c", "trap '' CHLD; exec \"$0\""];
    let call = |command| {
        sandbox
            .call("ipam-delegated", command, &config)
            .through(&ignoring)
    };
    assert_eq!(call("ADD").run().ips(), ["10.77.0.2"]);
    call("DEL").run().nothing();
}

#[test]
fn each_failure_of_a_delegate_has_its_code_and_leaves_nothing_reserved() {
    // The failing delegate is the last one, so an address has been reserved before.
    let sandbox = Sandbox::default()
        .with_script("by-signal", "kill -9 $$")
        .with_script("without-json", "echo disk on fire >&2; exit 3")
        .with_script("with-nothing", "exit 0")
        .with_script("with-garbage", "echo done.")
        .with_script("without-end", "exec yes")
        .with_script(
            "with-a-code",
            "echo '{\"code\": 42, \"msg\": \"own words\"}'; exit 1",
        )
        .with_script("not-executable", "");
    let not_executable = sandbox.plugins().join("not-executable");
    fs::set_permissions(&not_executable, fs::Permissions::from_mode(0o644)).unwrap();
    sandbox.write_executable("no-program", "\x7fELF, but no");
    fs::create_dir(sandbox.plugins().join("a-folder")).unwrap();

    for (delegate, code, word) in [
        ("nowhere", 100, "no such plugin in CNI_PATH"),
        ("not-executable", 100, "no such plugin in CNI_PATH"),
        ("a-folder", 100, "no such plugin in CNI_PATH"),
        ("no-program", 101, "could not be run"),
        ("by-signal", 102, "SIGKILL"),
        ("without-json", 103, "exit status: 3"),
        ("with-nothing", 104, "no result"),
        ("with-garbage", 105, "no JSON object"),
        ("without-end", 105, "more than"),
        ("with-a-code", 42, "own words"),
    ] {
        let mut config = good(&sandbox);
        config["ipam"]["delegates"] = json!([DELEGATES[0], DELEGATES[1], delegate]);
        let call = sandbox
            .call("ipam-delegated", "ADD", &config)
            .container(delegate);
        gets(&sandbox, call, code, &[&format!("{delegate}: "), word]);
    }
    // The details name a file that can't be executed.
    let mut config = good(&sandbox);
    config["ipam"]["delegates"] = json!(["not-executable"]);
    let error = sandbox.run("ADD", &config).error();
    let details = error["details"].as_str().unwrap();
    assert!(
        details.contains(not_executable.to_str().unwrap()),
        "{error}"
    );
    // Its last stderr lines are in the details.
    config["ipam"]["delegates"] = json!(["without-json"]);
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    let error = call.container("c2").run().error();
    assert_has(error["details"].as_str().unwrap(), ["disk on fire"]);
}
