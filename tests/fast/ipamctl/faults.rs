//! `gc` while one system call fails: nothing in use is released, and no leak is silently skipped.

use std::fs;

use harness::{Call, FaultPoint, FaultWalk, Output, Sandbox, needs};
use serde_json::Value;

use super::{GONE, THERE, add, id, with};

/// A node with three containers: one in the list, one outside of the list whose namespace exists,
/// and one that is gone.
struct Node {
    sandbox: Sandbox,
    config: Value,
}

impl Node {
    fn new() -> Self {
        let (sandbox, config) = with(&[]);
        let node = Self { sandbox, config };
        add(&node.sandbox, &node.config, &id("a1"), GONE);
        add(&node.sandbox, &node.config, &id("b1"), THERE);
        node.add_what_is_gone();
        fs::write(node.sandbox.root().join("valid"), id("a1")).unwrap();
        node
    }

    fn add_what_is_gone(&self) {
        add(&self.sandbox, &self.config, &id("c1"), GONE);
    }

    fn gc(&self) -> Call {
        let list = self.sandbox.root().join("valid");
        // The list is newer than the container.
        let now = std::time::SystemTime::now();
        let file = fs::File::options().append(true).open(&list).unwrap();
        file.set_modified(now).unwrap();
        let list = list.to_str().unwrap();
        self.sandbox
            .ipamctl(&["gc", "--older-than", "0s", "--valid", list])
    }

    fn has(&self, container: &str) -> (bool, bool) {
        let mut reserved = self.sandbox.reservations("testnet").into_iter();
        let is_reserved = reserved.any(|(_, content)| content.starts_with(container));
        let records = self.sandbox.records("testnet");
        let is_recorded = records.iter().any(|name| name.starts_with(container));
        (is_reserved, is_recorded)
    }

    #[track_caller]
    fn must_be_right(&self, point: &FaultPoint, output: &Output) {
        for living in ["a1", "b1"] {
            let has = self.has(&id(living));
            assert_eq!(has, (true, true), "{living}, {point}: {output:?}");
        }
        let (is_reserved, is_recorded) = self.has(&id("c1"));
        assert!(is_recorded || !is_reserved, "dropped, {point}: {output:?}");
        // Either it is released, or the output says that it isn't.
        let is_said = !output.status.success() || output.stdout.contains(&id("c1"));
        assert!(is_said || !is_reserved, "not said, {point}: {output:?}");
    }
}

#[test]
fn gc_releases_nothing_living_and_drops_nothing_whichever_system_call_fails() {
    needs!("trace");
    let node = Node::new();
    let trace = node.sandbox.root().join("trace");
    let start = node.sandbox.conf_dir();
    let (walk, output) = FaultWalk::record(node.gc(), &trace, start.to_str().unwrap());
    output.ends(0);
    assert_eq!(node.has(&id("c1")), (false, false), "{output:?}");
    for point in &walk.points {
        if node.has(&id("c1")) != (true, true) {
            node.add_what_is_gone();
        }
        let output = FaultWalk::run_at(node.gc(), point);
        node.must_be_right(point, &output);
    }
    println!(
        "ipamctl gc: {} system calls failed in turn",
        walk.points.len()
    );
}
