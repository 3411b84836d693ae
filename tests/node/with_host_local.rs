//! Debian's `host-local` and our allocator in one data directory: each sees, refuses and releases
//! the other's addresses.

use std::collections::BTreeMap;
use std::thread;

use harness::{Output, Sandbox, needs};
use serde_json::{Value, json};

const OURS: &str = "ipam-delegated";
const THEIRS: &str = "host-local";

struct Both {
    sandbox: Sandbox,
    config: Value,
}

impl Both {
    fn new(ranges: &Value) -> Self {
        let sandbox = Sandbox::default().with_reference(THEIRS);
        let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
        let config = sandbox.config("1.0.0", &delegates, &json!({ "ranges": ranges }));
        Self { sandbox, config }
    }

    fn call(&self, plugin: &str, command: &str, container: &str) -> Output {
        self.sandbox
            .call(plugin, command, &self.config)
            .container(container)
            .run()
    }

    fn reserved(&self) -> Vec<String> {
        self.sandbox.reserved("testnet")
    }
}

#[test]
fn each_goes_on_where_the_other_was() {
    needs!("host-local");
    let both = Both::new(&json!([[{"subnet": "10.1.0.0/29"}], [{"subnet": "fd00:1::/64"}]]));
    for (i, plugin) in [THEIRS, OURS, THEIRS, OURS].into_iter().enumerate() {
        let output = both.call(plugin, "ADD", &format!("c{i}"));
        assert_eq!(
            output.ips(),
            [format!("10.1.0.{}", i + 2), format!("fd00:1::{}", i + 2)]
        );
    }
    assert_eq!(both.sandbox.reservations("testnet")[0].1, "c0\r\neth0");
    assert_eq!(both.sandbox.reservations("testnet")[1].1, "c1\r\neth0");
}

#[test]
fn each_checks_refuses_and_releases_what_the_other_gave() {
    needs!("host-local");
    for (giver, other) in [(THEIRS, OURS), (OURS, THEIRS)] {
        let mut both = Both::new(&json!([[{"subnet": "10.1.0.0/24"}]]));
        both.config["prevResult"] = both.call(giver, "ADD", "c1").result();
        both.call(other, "CHECK", "c1").nothing();
        assert_ne!(both.call(other, "CHECK", "c2").status.code(), Some(0));
        // A second ADD, first with host-local, because ours rolls back after a refusal.
        assert_ne!(both.call(THEIRS, "ADD", "c1").status.code(), Some(0));
        assert_eq!(both.reserved(), ["10.1.0.2"]);
        // Another container requests the address.
        both.config["runtimeConfig"] = json!({"ips": ["10.1.0.2"]});
        assert_ne!(both.call(other, "ADD", "c2").status.code(), Some(0));
        assert_eq!(both.reserved(), ["10.1.0.2"]);
        both.config.as_object_mut().unwrap().remove("runtimeConfig");
        // Reservations of other containers stay.
        both.call(other, "DEL", "c2").nothing();
        assert_eq!(both.reserved(), ["10.1.0.2"]);
        both.call(other, "DEL", "c1").nothing();
        assert!(
            both.reserved().is_empty(),
            "given by {giver}, released by {other}"
        );
    }
}

#[test]
fn a_pool_that_the_other_has_filled_is_full() {
    needs!("host-local");
    for (giver, other) in [(THEIRS, OURS), (OURS, THEIRS)] {
        let both = Both::new(&json!([[{"subnet": "10.1.0.0/30"}]]));
        both.call(giver, "ADD", "c1").result();
        assert_ne!(both.call(other, "ADD", "c2").status.code(), Some(0));
        both.call(giver, "DEL", "c1").nothing();
        assert_eq!(both.call(other, "ADD", "c2").ips(), ["10.1.0.2"]);
    }
}

#[test]
fn concurrently_no_address_is_given_twice_and_none_is_lost() {
    needs!("host-local");
    let both = Both::new(&json!([[{"subnet": "10.1.0.0/25"}]]));
    let plugin = |i: usize| if i.is_multiple_of(2) { OURS } else { THEIRS };
    // 8 at the same time, 12 rounds each. The other plugin releases every third address.
    let kept: BTreeMap<String, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|worker| {
                let both = &both;
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for round in 0..12 {
                        let container = format!("c{worker}-{round}");
                        let ip = both
                            .call(plugin(worker + round), "ADD", &container)
                            .ips()
                            .remove(0);
                        if round % 3 == 2 {
                            both.call(plugin(worker + round + 1), "DEL", &container)
                                .nothing();
                        } else {
                            kept.push((ip, format!("{container}\r\neth0")));
                        }
                    }
                    kept
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    assert_eq!(kept.len(), 8 * 8, "an address was given twice");
    let reserved: BTreeMap<String, String> =
        both.sandbox.reservations("testnet").into_iter().collect();
    assert_eq!(reserved, kept);
}
