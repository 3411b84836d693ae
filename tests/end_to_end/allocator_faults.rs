//! Each system call of the allocator fails in turn: no living container's reservation is released,
//! no recorded one is lost, and a successful call has done all of its work.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use harness::{Call, FaultPoint, FaultWalk, STRACE, Sandbox, needs, skip};
use serde_json::{Value, json};

/// A network's own directory and a shared one. In each, one container is alive and one is gone.
struct Place {
    sandbox: Sandbox,
    reclaim: Value,
}

impl Place {
    fn new(reclaim: Value) -> Self {
        let network = Self {
            sandbox: Sandbox::default(),
            reclaim,
        };
        let random = network.sandbox.root().join("proc/sys/kernel/random");
        fs::create_dir_all(&random).unwrap();
        fs::write(random.join("boot_id"), "this\n").unwrap();
        // Reserved before the allocator's first call, so listed in the file about the boot.
        let own = network.sandbox.data_dir().join("testnet");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("10.1.0.9"), "listed\r\neth0").unwrap();
        for container in ["lives", "gone"] {
            network.call("ADD", container).run().result();
        }
        // The clock was set, so all files are older than the boot's start: only the boot's ID
        // keeps them.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let stat = format!("btime {}\n", now.as_secs() + 60);
        fs::write(network.sandbox.root().join("proc/stat"), stat).unwrap();
        network
    }

    fn call(&self, command: &str, container: &str) -> Call {
        let ipam = json!({"reclaim": self.reclaim});
        let mut config = self.sandbox.config("1.1.0", &[], &ipam);
        config["prevResult"] = json!({"pools": [
            {"subnet": "10.1.0.0/24", "sticky": container},
            {"name": "blue", "subnet": "10.2.0.0/24"}]});
        config["cni.dev/valid-attachments"] = json!([
            {"containerID": "lives", "ifname": "eth0"},
            {"containerID": "listed", "ifname": "eth0"}]);
        self.sandbox
            .call("ipam-da-host-local", command, &config)
            .container(container)
            .env("IPAM_DELEGATED_PROC", self.sandbox.root().join("proc"))
    }

    /// The addresses of a container.
    fn of(&self, container: &str) -> Vec<String> {
        let all = ["testnet", "blue"].map(|name| self.sandbox.reservations(name));
        let all = all.into_iter().flatten();
        all.filter(|(_, content)| content.starts_with(&format!("{container}\r\n")))
            .map(|(ip, _)| ip)
            .collect()
    }

    fn assert_lives(&self, point: &FaultPoint) {
        assert_eq!(self.of("lives"), ["10.1.0.2", "10.2.0.2"], "{point}");
        assert_eq!(self.of("listed"), ["10.1.0.9"], "{point}");
        let keys = self.sandbox.data_dir().join("testnet/sticky_keys");
        let keys = fs::read_to_string(keys).unwrap();
        let known = "10.1.0.2 \"lives\"\n10.1.0.3 \"gone\"\n";
        assert!(keys.starts_with(known), "{point}: {keys}");
    }
}

/// Walks the system calls of a command for a container. `verify` gets the point, and whether the
/// call succeeded without a warning.
fn walk(command: &str, container: &str, verify: impl Fn(&Place, bool, &FaultPoint)) {
    if !FaultWalk::is_possible() {
        return skip("allocator_faults", "no process may trace another");
    }
    for reclaim in [json!("boot"), Value::Null] {
        let place = Place::new(reclaim.clone());
        let trace = place.sandbox.root().join("trace");
        let call = place.call(command, container);
        let (walk, output) = FaultWalk::record(call, &trace, "/networks");
        assert!(output.status.success(), "{output:?}");
        // A real failed close still closes the descriptor; strace's doesn't.
        for point in walk.points.iter().filter(|point| point.name != "close") {
            let place = Place::new(reclaim.clone());
            let output = FaultWalk::run_at(place.call(command, container), point);
            place.assert_lives(point);
            // An unreadable file is kept, with a warning.
            let is_done = output.status.success() && !output.stderr.contains("WARN");
            verify(&place, is_done, point);
            place.assert_lives(point);
        }
        println!("{command}: {} points", walk.points.len());
    }
}

#[test]
fn an_add_gives_what_it_answers_or_leaves_what_a_del_releases() {
    needs!(STRACE);
    walk("ADD", "new", |place, is_done, point| {
        if is_done {
            assert_eq!(place.of("new").len(), 2, "{point}");
        }
        place.call("DEL", "new").run().nothing();
        assert!(place.of("new").is_empty(), "{point}");
    });
}

#[test]
fn a_del_that_succeeds_has_released_everything() {
    needs!(STRACE);
    walk("DEL", "gone", |place, is_done, point| {
        if is_done {
            assert!(place.of("gone").is_empty(), "{point}");
        }
        place.call("DEL", "gone").run().nothing();
        assert!(place.of("gone").is_empty(), "{point}");
    });
}

#[test]
fn a_gc_that_succeeds_has_collected_everything() {
    needs!(STRACE);
    walk("GC", "gone", |place, is_done, point| {
        if is_done {
            assert!(place.of("gone").is_empty(), "{point}");
        }
        place.call("GC", "gone").run().nothing();
        assert!(place.of("gone").is_empty(), "{point}");
    });
}

#[test]
fn a_status_releases_nothing() {
    needs!(STRACE);
    walk("STATUS", "gone", |place, _, point| {
        assert_eq!(place.of("gone").len(), 2, "{point}");
    });
}

#[test]
fn sticky_keys_that_can_not_be_opened_once_are_all_kept() {
    needs!(STRACE);
    if !FaultWalk::is_possible() {
        return skip("allocator_faults", "no process may trace another");
    }
    let place = Place::new(Value::Null);
    let keys = place.sandbox.data_dir().join("testnet/sticky_keys");
    let before = fs::read_to_string(&keys).unwrap();
    assert_eq!(before.lines().count(), 2, "{before}");
    let (path, name) = (keys.to_str().unwrap(), "sticky_keys");
    let no_file_left = "inject=openat:error=ENFILE:when=1";
    let strace = [
        STRACE,
        "-qq",
        "-o",
        "/dev/null",
        "-P",
        path,
        "-P",
        name,
        "-e",
        no_file_left,
    ];
    place.call("ADD", "new").through(&strace).run();
    let after = fs::read_to_string(&keys).unwrap();
    assert!(after.starts_with(&before), "{after}");
}
