//! No answer, message or listing shows a password of a configuration.

use harness::{ETCD, ETCDCTL, Output, needs};
use serde_json::{Value, json};

use super::Cluster;

/// A member that doesn't run: the configuration is refused before it is asked.
fn nowhere() -> Cluster {
    let mut it = Cluster::default();
    it.etcd.kill();
    it
}

#[track_caller]
fn is_not_shown(output: &Output, what: &str) {
    for text in [&output.stdout, &output.stderr] {
        assert!(!text.contains("SECRET"), "{what}: {output:?}");
    }
}

/// Configurations with a password where none belongs.
fn mistaken(it: &Cluster) -> Vec<Value> {
    let sane = it.config("n1", &["ipam-da-etcd"], &json!([{"name": "lan"}]));
    let with = |keys: &[(&str, Value)]| {
        let mut config = sane.clone();
        for (key, value) in keys {
            config["ipam"]["etcd"][*key] = value.clone();
        }
        config
    };
    let password = |file: &str| with(&[("username", json!("u")), ("passwordFile", json!(file))]);
    let mut whole = sane.clone();
    whole["ipam"]["etcd"] = json!(["http://u:SECRET@a:1"]);
    vec![
        with(&[("endpoints", json!(["http://u:SECRET@127.0.0.1:1"]))]),
        with(&[("endpoints", json!("http://u:SECRET@127.0.0.1:1"))]),
        whole,
        password("SECRET"),
        password("/SECRET"),
    ]
}

#[test]
fn a_password_in_a_configuration_is_neither_answered_nor_listed() {
    needs!(ETCD, ETCDCTL);
    let it = nowhere();
    for config in mistaken(&it) {
        for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
            let output = it.call(command, "c1", &config).run();
            is_not_shown(&output, command);
            let alone = it.sandbox.call("ipam-da-etcd", command, &config);
            is_not_shown(&alone.container("c1").run(), command);
        }
        it.sandbox.write_conflist("10-lan.conflist", &config);
        for words in [
            &["check"][..],
            &["check", "--json"],
            &["pools"],
            &["ls", "--all-nodes"],
            &["show", "c1", "--json"],
            &["leaks"],
        ] {
            is_not_shown(&it.sandbox.ipamctl(words).run(), &words.join(" "));
        }
    }
}

#[test]
fn a_configuration_that_is_no_json_is_shown_without_its_passwords() {
    needs!(ETCD, ETCDCTL);
    let it = nowhere();
    for text in [
        r#"{"ipam":{"etcd":{"endpoints":["http://u:SECRET@a:1"],}}}"#,
        r#"{"ipam":{"etcd":{"passwordFile":"SECRET",}}}"#,
    ] {
        let call = it.call("ADD", "c1", &json!({})).stdin(text);
        is_not_shown(&call.run(), text);
    }
}
