//! Debian's `host-local` and our allocator in one data directory: each sees, refuses and releases
//! the other's addresses.

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
