//! Each system call of the allocator fails in turn: no living container's reservation is released,
//! no recorded one is lost, and a successful call has done all of its work.

use harness::{Call, FaultPoint, FaultWalk, Sandbox, needs};
use serde_json::json;

/// A network's own directory and that of named pools. In each, one container is alive and one is
/// gone.
#[derive(Default)]
struct Place {
    sandbox: Sandbox,
}

impl Place {
    fn new() -> Self {
        let place = Self::default();
        for container in ["lives", "gone"] {
            place.call("ADD", container).run().result();
        }
        place
    }

    fn call(&self, command: &str, container: &str) -> Call {
        let mut config = self.sandbox.config("1.1.0", &[], &json!({}));
        config["prevResult"] = json!({"pools": [
            {"subnet": "10.1.0.0/24"}, {"name": "blue", "subnet": "10.2.0.0/24"}]});
        config["cni.dev/valid-attachments"] = json!([{"containerID": "lives", "ifname": "eth0"}]);
        self.sandbox
            .call("ipam-da-host-local", command, &config)
            .container(container)
    }

    /// The addresses of a container.
    fn of(&self, container: &str) -> Vec<String> {
        let all = ["testnet", "pools"].map(|name| self.sandbox.reservations(name));
        let all = all.into_iter().flatten();
        all.filter(|(_, content)| content.starts_with(&format!("{container}\r\n")))
            .map(|(ip, _)| ip)
            .collect()
    }

    fn assert_lives(&self, point: &FaultPoint) {
        assert_eq!(self.of("lives"), ["10.1.0.2", "10.2.0.2"], "{point}");
    }
}

/// Walks the system calls of a command for a container. `verify` gets the point, and whether the
/// call succeeded without a warning.
fn walk(command: &str, container: &str, verify: impl Fn(&Place, bool, &FaultPoint)) {
    let place = Place::new();
    let trace = place.sandbox.root().join("trace");
    let call = place.call(command, container);
    let (walk, output) = FaultWalk::record(call, &trace, "/networks");
    assert!(output.status.success(), "{output:?}");
    // A real failed close still closes the descriptor; strace's doesn't.
    for point in walk.points.iter().filter(|point| point.name != "close") {
        let place = Place::new();
        let output = FaultWalk::run_at(place.call(command, container), point);
        place.assert_lives(point);
        // An unreadable file is kept, with a warning.
        let is_done = output.status.success() && !output.stderr.contains("WARN");
        verify(&place, is_done, point);
        place.assert_lives(point);
    }
    println!("{command}: {} points", walk.points.len());
}

#[test]
fn an_add_gives_what_it_answers_or_leaves_what_a_del_releases() {
    needs!("trace");
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
    needs!("trace");
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
    needs!("trace");
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
    needs!("trace");
    walk("STATUS", "gone", |place, _, point| {
        assert_eq!(place.of("gone").len(), 2, "{point}");
    });
}
