//! A load balancer or a proxy answers instead of the API server, with what no API server answers.

use std::fs;

use harness::{Fate, KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::json;

use super::lost_answers::{Node, heal, only, with_node};

/// Answers to a request that was not executed. `name` is the held address.
fn strange_answers(name: &str) -> Vec<Fate> {
    let answer = |status: u16, head: &[&str], body: &str| {
        let head = head.iter().map(|line| (*line).to_owned()).collect();
        Fate::Refused(status, head, body.to_owned())
    };
    let html = ["X-Cache: miss"];
    let empty_list = json!({"kind": "AddressList", "metadata": {"resourceVersion": "7"}});
    let without_spec = |name: &str| {
        let metadata = json!({"name": name, "uid": "u", "resourceVersion": "7"});
        json!({"kind": "Address", "metadata": metadata})
    };
    let revision = json!({"resourceVersion": "7"});
    let metadata = json!({"kind": "PartialObjectMetadataList", "metadata": revision, "items": []});
    let missing = json!({"kind": "Status", "reason": "NotFound", "details": {"name": "x"}});
    vec![
        answer(200, &html, "<html>Log in</html>"),
        answer(200, &[], ""),
        answer(200, &[], &empty_list.to_string()),
        answer(200, &[], &without_spec("red.10.1.1.1").to_string()),
        answer(200, &[], &without_spec(name).to_string()),
        answer(200, &[], &metadata.to_string()),
        answer(302, &["Location: /login"], ""),
        answer(404, &html, "<html>No such page</html>"),
        answer(404, &[], &missing.to_string()),
        answer(410, &[], ""),
        answer(503, &["Retry-After: 18446744073709551615"], ""),
    ]
}

/// Each request of a command has each strange answer in turn. `prepare` runs before each call.
fn walk(node: &Node<'_>, command: &str, prepare: &dyn Fn()) {
    node.run("ADD", "c").result();
    prepare();
    let requests = node.requests(command, "c");
    let impatient = node.within("1s");
    for number in 0..requests {
        for of in 0..strange_answers("").len() {
            if node.cluster.held().is_empty() {
                node.run("ADD", "c").result();
            }
            let held = node.cluster.held();
            assert_eq!(held.len(), 1, "{held:?}");
            let (_, ip) = held[0].rsplit_once('/').unwrap();
            let fate = strange_answers(&format!("red.{ip}")).swap_remove(of);
            prepare();
            node.proxy.decide(only(number, fate.clone()));
            let output = impatient.run(command, "c");
            heal(node.proxy);
            let now = node.cluster.held();
            let at = format!("{command} {number} {fate:?}: {output:?}");
            match command {
                "DEL" | "GC" => assert!(now.is_empty() || !output.status.success(), "{at}"),
                _ => assert_eq!(now, held, "{at}"),
            }
            if !output.status.success() {
                let codes = if command == "STATUS" {
                    [50, 50]
                } else {
                    [11, 7]
                };
                assert!(codes.contains(&output.code()), "{at}");
            }
        }
    }
    node.run("DEL", "c").nothing();
    assert!(node.cluster.held().is_empty());
}

#[test]
fn no_strange_answer_counts_as_a_release_or_as_a_missing_address() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    with_node(|cluster, node| {
        node.run("DEL", "other").nothing();
        let state = cluster.sandbox.root().join("n1/engine-state");
        let without_index = || {
            let _ = fs::remove_dir_all(state.join("held_n1"));
        };
        for command in ["DEL", "GC", "CHECK", "STATUS"] {
            walk(node, command, &|| ());
        }
        for command in ["DEL", "CHECK"] {
            walk(node, command, &without_index);
        }
    });
}
