//! A failed ADD releases its own reservations and no others: not those of an earlier ADD whose record
//! is lost, and not those of another plugin of the network.

use std::fs;

use harness::{ALLOCATOR, Call, RANGES_CHAIN, RULES_CHAIN, Sandbox, needs};
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
        let _ = fs::remove_dir_all(self.sandbox.state_dir());
    }

    fn reserved(&self) -> Vec<String> {
        self.sandbox.reserved("pools")
    }
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
fn a_chained_main_plugin_gets_and_releases_only_what_its_own_chain_has_made() {
    let sandbox = Sandbox::default();
    let two = json!({"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.3"});
    let first = sandbox.config("1.1.0", &RANGES_CHAIN, &json!({"ranges": [[two]]}));
    let made = sandbox.run("ADD", &first).result();
    let mut second = first.clone();
    second["ipam"]["stateDir"] = json!(sandbox.root().join("second"));
    second["prevResult"] = made;
    second["prevResult"]["interfaces"] = json!([{"name": "veth1"}]);
    second["prevResult"]["routes"] = json!([{"dst": "10.9.0.0/16"}]);
    let call = |command: &str, config: &Value| sandbox.run(command, config);
    let result = call("ADD", &second).result();
    assert_eq!(harness::answer_of(&result), ["10.1.0.3"]);
    assert!(result.get("interfaces").is_none(), "{result}");
    assert_eq!(result["routes"], json!([]));
    // The pool is full now.
    let third = sandbox.root().join("third");
    second["ipam"]["stateDir"] = json!(third);
    assert_eq!(call("ADD", &second).code(), 11);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2", "10.1.0.3"]);
}

/// A selector of a few lines, which prints the same on every command.
const SIMPLE: &str = r#"cat > /dev/null
echo '{"cniVersion":"1.0.0","ips":[],"routes":null,"pools":[{"name":"blue","subnet":"10.66.0.0/24"}]}'"#;

#[test]
fn what_a_selector_prints_on_del_takes_no_address_from_the_allocator() {
    let sandbox = Sandbox::default()
        .with_script("ipam-ds-simple", SIMPLE)
        .with_script("fails", "[ $CNI_COMMAND = ADD ] && exit 1; exit 0");
    let failing = ["ipam-ds-simple", ALLOCATOR, "fails"];
    let config = sandbox.config("1.0.0", &failing, &json!({}));
    sandbox.run("ADD", &config).error();
    assert_eq!(sandbox.reserved("pools"), [""; 0]);
    assert_eq!(sandbox.records("testnet"), [""; 0]);
    // Nobody reads the answer.
    let config = sandbox.config("1.0.0", &["ipam-ds-simple", ALLOCATOR], &json!({}));
    let add = sandbox.call("ipam-delegated", "ADD", &config);
    let output = add.through(&["sh", "-c", "exec \"$0\" > /dev/full"]).run();
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(sandbox.reserved("pools"), [""; 0]);
}

#[test]
fn what_a_killed_allocator_has_reserved_is_released_by_the_runtimes_del() {
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
        chain.lose_the_record();
        chain.choose(&pool("blue", 2), &pool("green", 3));
        chain.config["ipam"]["delegates"] = json!(["first", name]);
        chain.call("ADD").container("c2").run().error();
        assert!(chain.reserved().contains(&"10.1.0.2".to_owned()), "{name}");
        chain.call("DEL").container("c2").run().nothing();
        assert_eq!(chain.reserved(), ["10.1.0.2"], "{name}");
    }
}

#[test]
fn what_an_allocator_could_not_undo_stays_recorded_for_the_del() {
    needs!("trace");
    let sandbox = Sandbox::default();
    let full = json!({"subnet": "10.2.0.0/30", "rangeStart": "10.2.0.1", "rangeEnd": "10.2.0.1"});
    let ranges = json!({"ranges": [[{"subnet": "10.1.0.0/24"}], [full]]});
    let config = sandbox.config("1.1.0", &RANGES_CHAIN, &ranges);
    let add = sandbox
        .chain_call("ADD", "c1", &config)
        .injected("inject=unlinkat:error=EIO");
    let failed = add.run();
    assert_eq!(failed.code(), 114);
    failed.prints(["not released"]);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
    sandbox.run("DEL", &config).nothing();
    sandbox.holds_nothing("testnet");
}

#[test]
fn a_del_without_a_record_releases_what_prev_result_names_whatever_pool_is_chosen_today() {
    let sandbox = Sandbox::default();
    let rules = json!({
        "pools": {
            "web": {"subnet": "10.1.0.0/24", "space": "a"},
            "rest": {"subnet": "10.2.0.0/24", "space": "b"},
        },
        "rules": [{"when": {"TEAM": "web"}, "pools": ["web"]}, {"pools": ["rest"]}],
    });
    let mut config = sandbox.config("1.1.0", &RULES_CHAIN, &rules);
    let call = |command: &str, config: &Value, team: &str| {
        let call = sandbox.chain_call(command, "c1", config);
        call.env("CNI_ARGS", format!("IgnoreUnknown=1;TEAM={team}"))
            .run()
    };
    let result = call("ADD", &config, "web").result();
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    config["prevResult"] = result;
    call("DEL", &config, "other").nothing();
    assert!(sandbox.reserved("a").is_empty());
}
