//! A border is moved between two pools again and again, with containers on both sides, while ADDs are
//! stopped between selector and allocator.

use std::collections::BTreeMap;
use std::fs;

use harness::waiting::wait_for;
use harness::{Call, Running, Sandbox, needs};
use serde_json::{Value, json};

/// A third-party delegate between selector and allocator. It passes the pools on, and stops if its
/// container's name begins with `stopped`, until the file `go` exists.
const GATE: &str = r#"root="${0%/*}/.."
[ "$CNI_COMMAND" = ADD ] || exit 0
input=$(cat)
case $CNI_CONTAINERID in stopped*)
    : > "$root/$CNI_CONTAINERID.waits"
    while [ ! -e "$root/go" ]; do sleep 0.01; done ;;
esac
printf %s "$input" | jq -c .prevResult"#;

const SIDES: [&str; 2] = ["low", "high"];

/// A network whose pools `low` and `high` share a subnet.
struct Network {
    sandbox: Sandbox,
    /// The highest address of the pool `low`, in its last byte.
    border: u8,
    /// Containers that run, with their addresses.
    running: BTreeMap<String, String>,
}

impl Network {
    fn new() -> Self {
        let sandbox = Sandbox::default().with_script("gate", GATE);
        fs::create_dir(sandbox.root().join("pools.d")).unwrap();
        Self {
            sandbox,
            border: 0,
            running: BTreeMap::new(),
        }
    }

    fn pools(&self) -> Value {
        let pool = |start: u8, end: u8| {
            json!({"subnet": "10.1.0.0/24", "gateway": "10.1.0.254",
                "rangeStart": format!("10.1.0.{start}"), "rangeEnd": format!("10.1.0.{end}")})
        };
        json!({"low": pool(1, self.border), "high": pool(self.border + 1, 60)})
    }

    /// Moves the border, for all calls from now on.
    fn move_border(&mut self, to: u8) {
        self.border = to;
        let file = self.sandbox.root().join("pools.d/pools.json");
        let new = file.with_extension("new");
        fs::write(&new, json!({"pools": self.pools()}).to_string()).unwrap();
        fs::rename(new, file).unwrap();
    }

    fn call(&self, command: &str, container: &str, side: &str) -> Call {
        let rules = SIDES.map(|side| json!({"when": {"SIDE": side}, "pools": [side]}));
        let ipam = json!({"rules": rules, "poolsDir": self.sandbox.root().join("pools.d")});
        let chain = ["ipam-ds-rules", "gate", "ipam-da-host-local"];
        let config = self.sandbox.config("1.1.0", &chain, &ipam);
        let call = self.sandbox.chain_call(command, container, &config);
        call.env("CNI_ARGS", format!("SIDE={side}"))
    }

    /// Notes the address of a container, which no running one has.
    #[track_caller]
    fn note(&mut self, container: &str, ips: &[String]) {
        let [ip] = ips else {
            panic!("{container}: {ips:?}")
        };
        let mut taken = self.running.iter();
        let holder = taken.find(|(_, address)| *address == ip);
        assert_eq!(holder, None, "{container} is given {ip}, too");
        self.running.insert(container.to_owned(), ip.clone());
    }

    /// The reservations are those of the running containers.
    #[track_caller]
    fn verify(&self) {
        let holders = self.sandbox.reservations("pools").into_iter();
        let reserved: BTreeMap<String, String> = holders
            .map(|(ip, content)| (content.split("\r\n").next().unwrap().to_owned(), ip))
            .collect();
        assert_eq!(reserved, self.running);
    }

    /// Starts an ADD, and waits until it is stopped between selector and allocator.
    fn stop_in_between(&self, container: &str, side: &str) -> Running {
        let running = self.call("ADD", container, side).start();
        let mark = self.sandbox.root().join(format!("{container}.waits"));
        wait_for(|| mark.exists());
        running
    }
}

#[test]
fn no_border_that_is_moved_gives_an_address_twice() {
    needs!("/usr/bin/jq");
    let mut network = Network::new();
    network.move_border(30);
    for (round, border) in [10, 50, 25, 35, 5, 55, 30].into_iter().enumerate() {
        let name = |kind: &str, side: &str| format!("{kind}-{round}-{side}");
        for side in SIDES {
            let added = network.call("ADD", &name("before", side), side).run();
            network.note(&name("before", side), &added.ips());
        }
        let stopped = SIDES.map(|side| network.stop_in_between(&name("stopped", side), side));
        network.move_border(border);
        for side in SIDES {
            let added = network.call("ADD", &name("after", side), side).run();
            network.note(&name("after", side), &added.ips());
        }
        let go = network.sandbox.root().join("go");
        fs::write(&go, "").unwrap();
        for (side, running) in SIDES.into_iter().zip(stopped) {
            network.note(&name("stopped", side), &running.output().ips());
        }
        fs::remove_file(go).unwrap();
        network.verify();
        // One of each kind ends, and nobody else loses anything.
        for kind in ["before", "stopped", "after"] {
            let container = name(kind, SIDES[round % 2]);
            network.running.remove(&container).unwrap();
            let del = network.call("DEL", &container, SIDES[round % 2]);
            del.run().nothing();
        }
        network.verify();
    }
    for (container, _) in std::mem::take(&mut network.running) {
        network.call("DEL", &container, "low").run().nothing();
    }
    network.verify();
    assert!(network.sandbox.records("testnet").is_empty());
}
