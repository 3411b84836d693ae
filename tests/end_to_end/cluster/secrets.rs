//! No answer, message or list shows a password of a configuration.

use harness::{ETCD, ETCDCTL, EtcdMember, Flavour, Form, Output, needs};
use serde_json::{Value, json};

use super::Cluster;

/// A member that isn't running: the configuration is refused before the first request.
fn nowhere() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.etcd.kill();
    cluster
}

#[track_caller]
fn is_not_shown(output: &Output, what: &str) {
    for text in [&output.stdout, &output.stderr] {
        assert!(!text.contains("SECRET"), "{what}: {output:?}");
    }
}

/// Configurations with a password in a wrong place.
fn mistaken(cluster: &Cluster) -> Vec<Value> {
    let sane = cluster.config("n1", &["ipam-da-etcd"], &json!([{"name": "lan"}]));
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
    let cluster = nowhere();
    for config in mistaken(&cluster) {
        for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
            let output = cluster.call(command, "c1", &config).run();
            is_not_shown(&output, command);
            let alone = cluster.sandbox.call("ipam-da-etcd", command, &config);
            is_not_shown(&alone.container("c1").run(), command);
        }
        cluster.sandbox.write_conflist("10-lan.conflist", &config);
        for words in [
            &["check"][..],
            &["check", "--json"],
            &["pools"],
            &["ls", "--all-nodes"],
            &["show", "c1", "--json"],
            &["leaks"],
        ] {
            is_not_shown(&cluster.sandbox.ipamctl(words).run(), &words.join(" "));
        }
    }
}

#[test]
fn a_configuration_that_is_no_json_is_shown_without_its_passwords() {
    needs!(ETCD, ETCDCTL);
    let cluster = nowhere();
    for text in [
        r#"{"ipam":{"etcd":{"endpoints":["http://u:SECRET@a:1"],}}}"#,
        r#"{"ipam":{"etcd":{"passwordFile":"SECRET",}}}"#,
    ] {
        let call = cluster.call("ADD", "c1", &json!({})).stdin(text);
        is_not_shown(&call.run(), text);
    }
}

#[test]
fn no_log_of_the_verbose_flavour_has_a_password() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::in_form(Flavour::Verbose, Form::of_this_run(), EtcdMember::default());
    cluster.etcd.enable_authentication("node:SECRET");
    let password = cluster.sandbox.root().join("password");
    std::fs::write(&password, "SECRET").unwrap();
    let pools = json!([{"name": "lan", "subnet": "10.1.0.0/24"}]);
    let mut sane = cluster.config("n1", &["ipam-da-etcd"], &pools);
    sane["ipam"]["etcd"]["username"] = json!("node");
    sane["ipam"]["etcd"]["passwordFile"] = json!(password);
    is_not_shown(&cluster.add("a", &sane), "ADD");
    let mut wrong = sane.clone();
    wrong["ipam"]["etcd"]["cacheDir"] = json!(cluster.sandbox.root().join("other-cache"));
    std::fs::write(&password, "SECRET, but another").unwrap();
    for config in mistaken(&cluster).into_iter().chain([sane, wrong]) {
        for command in ["ADD", "STATUS", "CHECK", "GC", "DEL"] {
            is_not_shown(&cluster.call(command, "c1", &config).run(), command);
        }
    }
    let logs: Vec<_> = std::fs::read_dir(cluster.sandbox.log_dir())
        .unwrap()
        .collect();
    assert!(!logs.is_empty());
    for log in logs {
        let path = log.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let line = text.lines().find(|line| line.contains("SECRET"));
        assert_eq!(line, None, "{}", path.display());
    }
}
