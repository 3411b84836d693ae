//! Invalid chains and failing delegates: each failure has its code and names the
//! delegate; nothing is reserved.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{PLUGINS, Sandbox};
use serde_json::json;

use crate::bad_input::{DELEGATES, gets, good};

#[test]
fn a_chain_that_is_no_list_of_names_is_refused_by_every_command() {
    let sandbox = Sandbox::default();
    for (delegates, words) in [
        (json!(null), ["ipam.delegates", "missing"]),
        (
            json!("ipam-ds-ranges"),
            ["ipam.delegates", "\"ipam-ds-ranges\""],
        ),
        (json!({}), ["ipam.delegates", "map"]),
        (json!([]), ["ipam.delegates", "[]"]),
        (json!(["ipam-ds-ranges", 5]), ["ipam.delegates[1]", "`5`"]),
        (
            json!(["ipam-ds-ranges", null]),
            ["ipam.delegates[1]", "null"],
        ),
        (json!([""]), ["ipam.delegates[0]", "\"\""]),
        (json!(["/bin/true"]), ["ipam.delegates[0]", "\"/bin/true\""]),
        (
            json!(["./ipam-ds-ranges"]),
            ["ipam.delegates[0]", "\"./ipam-ds-ranges\""],
        ),
        (json!(["../plugins/x"]), ["ipam.delegates[0]", "CNI_PATH"]),
        (json!([".."]), ["ipam.delegates[0]", "\"..\""]),
    ] {
        let mut config = good(&sandbox);
        config["ipam"]["delegates"] = delegates;
        for command in ["ADD", "CHECK", "GC", "STATUS"] {
            gets(
                &sandbox,
                sandbox.call("ipam-delegated", command, &config),
                7,
                &words,
            );
        }
        // There is no record, so no delegate is undone.
        let output = sandbox.call("ipam-delegated", "DEL", &config).run();
        output.nothing();
        for word in words.iter().chain(&["WARN"]) {
            assert!(output.stderr.contains(word), "{word}: {output:?}");
        }
    }
    let mut config = good(&sandbox);
    config["ipam"].as_object_mut().unwrap().remove("delegates");
    gets(
        &sandbox,
        sandbox.call("ipam-delegated", "ADD", &config),
        7,
        &["ipam.delegates is missing"],
    );
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
fn each_failure_of_a_delegate_has_its_code_and_leaves_nothing_reserved() {
    // The failing delegate is the last one, so an address has been reserved before.
    let sandbox = Sandbox::default()
        .with_script("by-signal", "kill -9 $$")
        .with_script("without-json", "echo disk on fire >&2; exit 3")
        .with_script("with-text", "echo disk on fire; exit 3")
        .with_script("with-nothing", "exit 0")
        .with_script("with-space", "echo")
        .with_script("with-garbage", "echo done.")
        .with_script("with-half-an-object", "printf '{\"ips\": ['")
        .with_script("with-an-array", "echo '[]'")
        .with_script("with-null", "echo null")
        .with_script("with-two-objects", "echo '{}{}'")
        .with_script("with-bytes", r#"printf '{"a":"\377"}'"#)
        .with_script("without-end", "exec yes")
        .with_script(
            "with-a-code",
            "echo '{\"code\": 42, \"msg\": \"own words\"}'; exit 1",
        )
        .with_script(
            "with-a-code-and-status-0",
            "echo '{\"code\": 42, \"msg\": \"own words\"}'",
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
        ("with-text", 103, "exit status: 3"),
        ("with-nothing", 104, "no result"),
        ("with-space", 104, "no result"),
        ("with-garbage", 105, "no JSON object"),
        ("with-half-an-object", 105, "EOF"),
        ("with-an-array", 105, "expected an object"),
        ("with-null", 105, "expected an object"),
        ("with-two-objects", 105, "trailing"),
        ("with-bytes", 105, "utf-8"),
        ("without-end", 105, "more than"),
        ("with-a-code", 42, "own words"),
        ("with-a-code-and-status-0", 42, "own words"),
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
    let error = sandbox.call("ipam-delegated", "ADD", &config).run().error();
    let details = error["details"].as_str().unwrap();
    assert!(
        details.contains(not_executable.to_str().unwrap()),
        "{error}"
    );
    // Its last stderr lines are in the details.
    config["ipam"]["delegates"] = json!(["without-json"]);
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    let error = call.container("c2").run().error();
    assert!(
        error["details"].as_str().unwrap().contains("disk on fire"),
        "{error}"
    );
}

#[test]
fn a_search_path_without_a_folder_is_refused() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        let call = sandbox.call("ipam-delegated", command, &config);
        gets(&sandbox, call.clone().without("CNI_PATH"), 4, &["CNI_PATH"]);
        gets(&sandbox, call.clone().env("CNI_PATH", ""), 4, &["CNI_PATH"]);
        gets(&sandbox, call.env("CNI_PATH", "::"), 4, &["CNI_PATH"]);
    }
    let call = sandbox
        .call("ipam-delegated", "ADD", &config)
        .env("CNI_PATH", "/nowhere");
    gets(&sandbox, call, 100, &["/nowhere"]);
}
