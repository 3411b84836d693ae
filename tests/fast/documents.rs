//! Checks of the documents: the example delegates run, the JSON is valid, links lead to headings.

use std::fs;
use std::os::unix::fs::symlink;

use harness::{Call, REFERENCE_PLUGINS, Sandbox, blocks, document, needs, repository};
use serde_json::{Value, json};

/// The README and the pages in `docs`, by path.
fn documents() -> Vec<(String, String)> {
    let docs = harness::names(repository().join("docs")).into_iter();
    docs.map(|name| format!("docs/{name}"))
        .filter(|path| path.ends_with(".md"))
        .chain(["README.md".to_owned()])
        .map(|path| (path.clone(), document(&path)))
        .collect()
}

#[test]
fn the_first_conflists_of_the_readme_and_of_choosing_pools_are_the_demos() {
    let [mynet, tenants] = ["testdata/mynet.conflist", "testdata/tenants.conflist"].map(document);
    assert_eq!(blocks(&document("README.md"), "json"), [mynet]);
    let choosing_pools = document("docs/choosing-pools.md");
    assert_eq!(blocks(&choosing_pools, "json")[0], tenants);
}

#[test]
fn every_block_of_json_is_json() {
    let mut count = 0;
    for (path, text) in documents() {
        for block in blocks(&text, "json") {
            serde_json::from_str::<Value>(&block)
                .unwrap_or_else(|e| panic!("{path}: {e}\n{block}"));
            count += 1;
        }
    }
    assert!(count >= 7);
}

/// Debian 12's plugins don't support 1.1.0, and 10.88.0.0/16 is podman's default network.
#[test]
fn every_conflist_is_one_that_debians_plugins_load_and_podman_has_no_network_for() {
    needs!("bridge");
    let version = Call::new(format!("{REFERENCE_PLUGINS}/bridge").into())
        .env("CNI_COMMAND", "VERSION")
        .stdin(r#"{"cniVersion": "1.0.0"}"#);
    let versions = version.run().result();
    let known = versions["supportedVersions"].as_array().unwrap();
    let mut count = 0;
    for (path, text) in documents() {
        for block in blocks(&text, "json") {
            let block: Value = serde_json::from_str(&block).unwrap();
            if block["plugins"].is_array() {
                // `ipam-gc` is for GC, which needs 1.1.0.
                let is_for_gc = block["plugins"][1]["type"] == "ipam-gc";
                let version = &block["cniVersion"];
                assert!(known.contains(version) || is_for_gc, "{path}: {block}");
                assert!(!block.to_string().contains("10.88."), "{path}: {block}");
                count += 1;
            }
        }
    }
    assert!(count >= 6);
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    for (path, text) in documents() {
        let folder = repository().join(&path).parent().unwrap().to_owned();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => repository().join(&path),
                file => folder.join(file),
            };
            assert!(target.exists(), "{path}: {link}");
            let headings = fs::read_to_string(&target).unwrap_or_default();
            let found = headings
                .lines()
                .filter(|line| line.starts_with('#'))
                .any(|line| {
                    let heading = line.trim_start_matches('#').trim().to_lowercase();
                    heading.replace(['`', '\'', ','], "").replace(' ', "-") == anchor
                });
            assert!(anchor.is_empty() || found, "{path}: {link}");
        }
    }
}

#[test]
fn every_error_code_is_explained() {
    let source = document("crates/cni/src/error.rs");
    let errors = document("docs/errors.md");
    let codes: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const ")?.split("= ").nth(1))
        .map(|code| code.trim_end_matches(';'))
        .collect();
    assert!(codes.len() >= 15);
    for code in codes {
        assert!(errors.contains(&format!("\n| {code} | ")), "code {code}");
    }
}

#[test]
fn the_delegate_in_shell_runs() {
    let block = blocks(&document("docs/writing-a-delegate.md"), "sh").remove(0);
    assert_eq!(block, document("testdata/delegates/ipam-ds-namespace"));

    let sandbox = Sandbox::default().with_testdata("ipam-ds-namespace");
    let delegates = ["ipam-ds-namespace", "ipam-da-host-local"];
    let mut config = sandbox.config("1.1.0", &delegates, &json!({}));
    let call = |command: &str, config: &Value, namespace: &str| {
        sandbox
            .call("ipam-delegated", command, config)
            .container(namespace)
            .env(
                "CNI_ARGS",
                format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace}"),
            )
    };
    assert_eq!(
        call("ADD", &config, "kube-system").run().ips(),
        ["10.66.0.2"]
    );
    let result = call("ADD", &config, "default").run().result();
    assert_eq!(harness::answer_of(&result), ["10.66.1.0"]);
    assert_eq!(sandbox.reserved("pools"), ["10.66.0.2", "10.66.1.0"]);
    assert_eq!(
        call("ADD", &config, "default")
            .without("CNI_ARGS")
            .container("c")
            .run()
            .code(),
        4
    );
    call("STATUS", &config, "x").run().nothing();
    config["prevResult"] = result;
    call("CHECK", &config, "default").run().nothing();
    call("DEL", &config, "default").run().nothing();
    assert_eq!(sandbox.reserved("pools"), ["10.66.0.2"]);
    config["cni.dev/valid-attachments"] = json!([]);
    call("GC", &config, "x").run().nothing();
    assert!(sandbox.reserved("pools").is_empty());
    let version = sandbox
        .call("ipam-ds-namespace", "VERSION", &json!({}))
        .run()
        .result();
    assert_eq!(
        version["supportedVersions"],
        json!(["0.4.0", "1.0.0", "1.1.0"])
    );
}

#[test]
fn the_delegate_in_rust_runs() {
    let block = blocks(&document("docs/writing-a-delegate.md"), "rust").remove(0);
    assert_eq!(block, document("crates/ipam/examples/ipam-ds-labels.rs"));

    let sandbox = Sandbox::default();
    symlink(
        harness::example("ipam-ds-labels"),
        sandbox.plugins().join("ipam-ds-labels"),
    )
    .unwrap();

    let delegates = ["ipam-ds-labels", "ipam-da-host-local"];
    let pools = json!({"pools": {
        "blue": {"subnet": "10.66.0.0/24"},
        "green": {"ranges": [{"subnet": "10.67.0.0/24"}, {"subnet": "10.68.0.0/24"}]}
    }});
    let labelled = |pool: &str| {
        let mut config = sandbox.config("1.0.0", &delegates, &pools);
        config["args"] = json!({"cni": {"labels": [{"key": "app", "value": "x"}, {"key": "pool", "value": pool}]}});
        config
    };
    let add = |container: &str, config: &Value| sandbox.run_for("ADD", container, config);
    assert_eq!(add("b", &labelled("blue")).ips(), ["10.66.0.2"]);
    let result = add("g", &labelled("green")).result();
    assert_eq!(harness::answer_of(&result), ["10.67.0.2"]);
    assert_eq!(sandbox.reserved("pools"), ["10.66.0.2", "10.67.0.2"]);

    add("r", &labelled("red")).error_is(7, "ipam-ds-labels: ipam.pools: there is no \"red\"");
    let error = add("n", &sandbox.config("1.0.0", &delegates, &pools)).error();
    assert_eq!(error["msg"], "ipam-ds-labels: there is no label pool");

    // On DEL, the runtime may leave out the labels.
    let mut config = sandbox.config("1.0.0", &delegates, &pools);
    config["prevResult"] = result;
    for command in ["CHECK", "DEL"] {
        sandbox.run_for(command, "g", &config).nothing();
    }
    assert!(sandbox.reserved("green").is_empty());
}
