//! Fuzz target of the network configuration on stdin.

use std::fs;
use std::net::IpAddr;

use bolero::TypeGenerator;
use cni::{Environment, NetworkConfig, Plugin};
use fuzz::{Document, Outcome, Sandbox, call, check, environment};
use ipam::{Pool, Pools};
use serde_json::Value;

use crate::seeds;

#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    command: u8,
    config: Document,
}

const COMMANDS: [&str; 9] = [
    "ADD", "ADD", "ADD", "ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION",
];

/// Makes the call, checks what is true of every plugin's, and returns the
/// call and its outcome.
fn answered(
    plugin: &dyn Plugin,
    input: &Input,
    sandbox: &Sandbox,
) -> (Environment, Vec<u8>, Outcome) {
    let config = sandbox.confine(input.config.of(&seeds::configurations()));
    fs::write(sandbox.resolv_conf(), "nameserver 10.0.0.1\n").unwrap();
    let variables = environment(command(input), &sandbox.plugins());
    let outcome = call(plugin, &variables, &config);
    sandbox.assert_nothing_got_out();
    if command(input) == "VERSION" {
        assert_eq!(outcome.code(), None);
    } else if outcome.code() != Some(4) {
        let is_object = serde_json::from_str::<Value>(&String::from_utf8_lossy(&config))
            .is_ok_and(|value| value.is_object());
        assert!(is_object || outcome.code() == Some(6) || !is_plain(&config));
    }
    (variables, config, outcome)
}

fn command(input: &Input) -> &'static str {
    COMMANDS[usize::from(input.command) % COMMANDS.len()]
}

/// True if what one JSON parser takes, others take, too.
fn is_plain(config: &[u8]) -> bool {
    let text = String::from_utf8_lossy(config);
    !["1e400", "[[[[", r"\ud8", r#":{"a":{"a""#]
        .iter()
        .any(|word| text.contains(word))
}

#[test]
fn the_selector_answers_any_configuration_and_its_pools_are_pools() {
    check!(Input, |input| {
        let sandbox = Sandbox::default();
        let (_, config, outcome) = answered(&ipam_ds_ranges::IpamDsRanges, input, &sandbox);
        let Some(Value::Array(pools)) = outcome.result().map(|mut it| it["pools"].take()) else {
            return;
        };
        let Ok(config) = NetworkConfig::parse_to_release(config) else {
            return;
        };
        // On DEL, what can't be read of prevResult is passed on.
        let Ok(earlier) = Pools::of_call(&config) else {
            return;
        };
        let earlier = earlier.entries().len();
        assert!(command(input) != "ADD" || pools.len() > earlier);
        for mut pool in pools.into_iter().skip(earlier) {
            // The allocator refuses a request for the gateway, as host-local does.
            if let Some(pool) = pool.as_object_mut() {
                pool.remove("requested-ip");
            }
            Pool::read("pool", serde_json::from_value(pool).unwrap()).unwrap();
        }
    });
}

#[test]
fn the_allocator_answers_any_configuration_and_keeps_what_it_gives_only() {
    let plugin = &ipam_da_host_local::IpamDaHostLocal;
    check!(Input, |input| {
        let sandbox = Sandbox::default();
        let (variables, config, outcome) = answered(plugin, input, &sandbox);
        if command(input) != "ADD" {
            assert_eq!(reserved(&sandbox), Vec::<IpAddr>::new());
            return;
        }
        if outcome.code().is_none() && outcome.result().is_none() {
            // Not every parser can read the routes that it was given.
            return;
        }
        let given: Vec<IpAddr> = outcome.ips().iter().map(|ip| ip.parse().unwrap()).collect();
        for ip in reserved(&sandbox) {
            assert!(given.contains(&ip), "{ip} is reserved, and was not given");
        }
        if outcome.code().is_none() {
            assert!(!reserved(&sandbox).is_empty());
            let del = variables.with("CNI_COMMAND", "DEL");
            assert_eq!(call(plugin, &del, &config), Outcome::Success(Vec::new()));
            assert_eq!(reserved(&sandbox), Vec::<IpAddr>::new());
        }
    });
}

#[test]
fn the_orchestrator_answers_any_configuration_and_remembers_nothing_that_failed() {
    check!(Input, |input| {
        // No delegate is there.
        let sandbox = Sandbox::default();
        let (_, _, outcome) = answered(&ipam_delegated::IpamDelegated::default(), input, &sandbox);
        match command(input) {
            "VERSION" => assert_eq!(outcome.code(), None),
            // Without a delegate, there is nothing to undo.
            "DEL" | "GC" => {}
            _ => assert!(outcome.code().is_some(), "{outcome:?}"),
        }
        assert!(Sandbox::snapshot(&sandbox.root()).len() == 1, "a record");
    });
}

/// The addresses that are reserved in any directory.
fn reserved(sandbox: &Sandbox) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = Sandbox::snapshot(&sandbox.root())
        .keys()
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}
