//! A failed ADD releases only its own reservations. Addresses of an earlier ADD whose record is
//! lost stay reserved.

use std::fs;

use harness::{ALLOCATOR, Call, Sandbox, needs};
use serde_json::{Value, json};

fn pool(name: &str, n: u8) -> Value {
    json!({"name": name, "subnet": format!("10.{n}.0.0/24")})
}

/// A selector that appends the pools in this file to `prevResult`, on ADD only.
fn selector(file: &str) -> String {
    format!(
        "[ $CNI_COMMAND = ADD ] || exit 0\n\
         exec jq -c --slurpfile pools ${{0%/*}}/../{file} \
         '{{cniVersion, ips: []}} + (.prevResult // {{}}) + {{pools: $pools[0]}}'"
    )
}

/// A chain of selectors and allocators, and the pools that its selectors choose.
struct Chain {
    sandbox: Sandbox,
    config: Value,
}

impl Chain {
    fn new(delegates: &[&str]) -> Self {
        let sandbox = Sandbox::default()
            .with_script("first", &selector("first.json"))
            .with_script("second", &selector("second.json"))
            .with_script("fails", "[ $CNI_COMMAND = ADD ] && exit 1; exit 0");
        let config = sandbox.config("1.1.0", delegates, &json!({}));
        Self { sandbox, config }
    }

    /// Sets the pools that the selectors choose from now on.
    fn choose(&self, first: &Value, second: &Value) {
        for (file, pool) in [("first.json", first), ("second.json", second)] {
            let pools = json!([pool]).to_string();
            fs::write(self.sandbox.root().join(file), pools).unwrap();
        }
    }

    fn call(&self, command: &str) -> Call {
        self.sandbox.call("ipam-delegated", command, &self.config)
    }

    fn lose_the_record(&self) {
        fs::remove_dir_all(self.sandbox.state_dir()).unwrap();
    }

    fn reserved(&self) -> Vec<String> {
        let pools = ["red", "blue", "green"];
        let reserved = pools.iter().flat_map(|pool| self.sandbox.reserved(pool));
        reserved.collect()
    }
}

#[test]
fn a_refusal_by_the_second_allocator_releases_no_address_of_an_earlier_add() {
    needs!("/usr/bin/jq");
    let chain = Chain::new(&["first", ALLOCATOR, "second", ALLOCATOR]);
    chain.choose(&pool("red", 1), &pool("green", 3));
    assert_eq!(chain.call("ADD").run().ips(), ["10.1.0.2", "10.3.0.2"]);
    chain.lose_the_record();
    // Now the first selector chooses another pool.
    chain.choose(&pool("blue", 2), &pool("green", 3));
    assert_eq!(chain.call("ADD").run().code(), 110);
    let reserved = chain.reserved();
    for ip in ["10.1.0.2", "10.3.0.2"] {
        assert!(reserved.contains(&ip.to_owned()), "{reserved:?}");
    }
    chain.call("DEL").run().nothing();
    assert!(chain.reserved().is_empty());
}

#[test]
fn a_failure_behind_the_allocator_releases_no_address_of_an_earlier_add() {
    needs!("/usr/bin/jq");
    let mut chain = Chain::new(&["first", ALLOCATOR]);
    chain.choose(&pool("red", 1), &pool("green", 3));
    chain.call("ADD").run().result();
    chain.lose_the_record();
    chain.choose(&pool("blue", 2), &pool("green", 3));
    chain.config["ipam"]["delegates"] = json!(["first", ALLOCATOR, "fails"]);
    chain.call("ADD").run().error();
    assert_eq!(chain.reserved(), ["10.1.0.2"]);
}

#[test]
fn an_allocator_that_dies_releases_what_it_has_just_reserved_and_nothing_else() {
    needs!("/usr/bin/jq");
    let mut chain = Chain::new(&["first", ALLOCATOR]);
    chain.choose(&pool("red", 1), &pool("green", 3));
    chain.call("ADD").run().result();
    // One allocator is killed after it has reserved, and another one before.
    let ours = chain.sandbox.plugins().join(ALLOCATOR);
    for (name, at) in [("dies-late", "true"), ("dies-early", "false")] {
        let script = format!(
            "#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exec {ours}\n\
             {at} && {ours} > /dev/null\nkill -9 $$\n",
            ours = ours.display()
        );
        chain.sandbox.write_executable(name, &script);
        for later in [pool("blue", 2), pool("red", 1)] {
            let _ = fs::remove_dir_all(chain.sandbox.state_dir());
            chain.choose(&later, &pool("green", 3));
            chain.config["ipam"]["delegates"] = json!(["first", name]);
            chain.call("ADD").run().error();
            assert_eq!(chain.reserved(), ["10.1.0.2"], "{name} {later}");
        }
    }
}

#[test]
fn without_attributes_a_rollback_releases_what_the_add_has_answered() {
    needs!("/usr/bin/jq", "/usr/bin/strace");
    let chain = Chain::new(&["first", ALLOCATOR, "fails"]);
    chain.choose(&pool("red", 1), &pool("green", 3));
    let inject = "inject=fsetxattr,fgetxattr:error=EOPNOTSUPP";
    let strace = ["strace", "-f", "-o", "/dev/null", "-e", inject];
    chain.call("ADD").through(&strace).run().error();
    assert!(chain.reserved().is_empty());
    assert!(chain.sandbox.records("testnet").is_empty());
}

#[test]
fn without_attributes_an_address_that_no_add_has_answered_stays_and_so_does_the_record() {
    needs!("/usr/bin/jq", "/usr/bin/strace");
    let mut chain = Chain::new(&["first", "dies-late"]);
    chain.choose(&pool("red", 1), &pool("green", 3));
    let ours = chain.sandbox.plugins().join(ALLOCATOR);
    let script = format!(
        "#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exec {ours}\n{ours} > /dev/null\nkill -9 $$\n",
        ours = ours.display()
    );
    chain.sandbox.write_executable("dies-late", &script);
    let inject = "inject=fsetxattr,fgetxattr:error=EOPNOTSUPP";
    let strace = ["strace", "-f", "-o", "/dev/null", "-e", inject];
    let error = chain.call("ADD").through(&strace).run().error();
    assert!(error.to_string().contains("no attributes"), "{error}");
    assert_eq!(chain.reserved(), ["10.1.0.2"]);
    assert_eq!(chain.sandbox.records("testnet"), ["c1:eth0.json"]);
    chain.config["ipam"]["delegates"] = json!(["first"]);
    chain.call("DEL").through(&strace).run().nothing();
    assert!(chain.reserved().is_empty());
    assert!(chain.sandbox.records("testnet").is_empty());
}

#[test]
fn an_add_whose_mark_cannot_be_written_fails_and_leaves_nothing() {
    needs!("/usr/bin/jq", "/usr/bin/strace");
    let chain = Chain::new(&["first", ALLOCATOR]);
    chain.choose(&pool("red", 1), &pool("green", 3));
    for errno in ["ENOSPC", "EDQUOT", "EIO"] {
        let inject = format!("inject=fsetxattr:error={errno}");
        let strace = ["strace", "-f", "-o", "/dev/null", "-e", &inject];
        let error = chain.call("ADD").through(&strace).run().error();
        assert_eq!(error["code"], 5, "{errno}: {error}");
        assert!(chain.reserved().is_empty(), "{errno}");
        assert!(chain.sandbox.records("testnet").is_empty(), "{errno}");
    }
    // A file system without extended attributes, and one that refuses them.
    for errno in ["EOPNOTSUPP", "EPERM"] {
        let inject = format!("inject=fsetxattr:error={errno}");
        let strace = ["strace", "-f", "-o", "/dev/null", "-e", &inject];
        let added = chain.call("ADD").through(&strace).run();
        assert_eq!(added.ips(), chain.reserved(), "{errno}");
        chain.call("DEL").run().nothing();
        assert!(chain.reserved().is_empty(), "{errno}");
    }
}
