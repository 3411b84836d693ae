//! SIGKILL at every point of each changing call of Docker's IPAM protocol: before each system call
//! of the daemon's own threads. Then the daemon is started again. If Docker has no answer, it
//! repeats the call with an empty body, or gives up. The daemon asks Docker what it has, and keeps
//! exactly that.
//!
//! Meanwhile, two containers of another network keep their addresses of the pool.

use std::collections::BTreeSet;
use std::fs;
use std::thread;

use harness::{DockerDaemon, FakeDocker, Sandbox, docker_pool, is_answered, needs};
use serde_json::{Map, Value, json};

use harness::kill_points::{Point, Traced, is_killed, is_killed_soon, points, recorded};
use harness::waiting::{wait_for, wait_until_equal};

/// Docker's reaction to the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Docker repeats the call with an empty body, and removes the containers later.
    Repeats,
    /// Docker gives up.
    GivesUp,
}

/// The call during which the daemon is killed. `POOL` is replaced with the pool's ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Victim {
    path: &'static str,
    body: &'static str,
}

/// The calls, as dockerd makes them.
const REQUEST_ADDRESS: Victim = Victim {
    path: "/IpamDriver.RequestAddress",
    body: r#"{"PoolID":"POOL","Address":"","Options":null}"#,
};
const RELEASE_ADDRESS: Victim = Victim {
    path: "/IpamDriver.ReleaseAddress",
    body: r#"{"PoolID":"POOL","Address":"10.9.0.3"}"#,
};
const OTHERS: [Victim; 3] = [
    Victim {
        path: "/IpamDriver.RequestAddress",
        body: r#"{"PoolID":"POOL","Address":"10.9.0.1","Options":{"RequestAddressType":"com.docker.network.gateway"}}"#,
    },
    Victim {
        path: "/IpamDriver.RequestPool",
        body: r#"{"AddressSpace":"ipam-delegated-local","Pool":"","SubPool":"","Options":{},"V6":false}"#,
    },
    RELEASE_ADDRESS,
];

/// The folders, and the pool.
struct Setting {
    sandbox: Sandbox,
    pool: String,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            sandbox: Sandbox::default(),
            pool: docker_pool("10.9.0.0/29"),
        }
    }
}

impl Setting {
    /// A daemon with the pool, two networks that use it, and the addresses of two containers.
    fn daemon(&self) -> DockerDaemon {
        for folder in [self.sandbox.data_dir(), self.sandbox.docker_state()] {
            let _ = fs::remove_dir_all(folder);
        }
        let daemon = DockerDaemon::start(&self.sandbox, &[]);
        for ip in ["10.9.0.2", "10.9.0.3"] {
            daemon.address(&self.pool, ip);
        }
        daemon
    }

    /// Makes the call; returns its answer, if there is one.
    fn call(&self, daemon: &DockerDaemon, victim: Victim) -> Option<Value> {
        let pool = self.pool.replace('"', "\\\"");
        let body = victim.body.replace("POOL", &pool);
        let answer = daemon.try_call(victim.path, &body);
        answer.ok().map(|answer| answer.body)
    }

    fn reserved(&self) -> Vec<String> {
        self.sandbox.reserved("docker")
    }

    /// The daemon's records of addresses.
    fn records(&self) -> Vec<String> {
        self.sandbox.docker_contents("addresses")
    }

    /// Starts the daemon again, and a fake Docker whose containers have these addresses. If Docker
    /// repeats the call, it must be refused.
    fn again(
        &self,
        gateway: &str,
        ips: &[&str],
        repeats: Option<&str>,
    ) -> (DockerDaemon, FakeDocker) {
        let container = |ip: &&str| {
            let of_it = json!({"Name": ip, "EndpointID": ip, "IPv4Address": format!("{ip}/29")});
            ((*ip).to_owned(), of_it)
        };
        let containers: Map<String, Value> = ips.iter().map(container).collect();
        // If the gateway's request was not answered, the network has another gateway.
        let gateway = Some(gateway).filter(|ip| !ip.is_empty());
        let config = json!({"Subnet": "10.9.0.0/29", "Gateway": gateway.unwrap_or("10.9.0.6")});
        let ipam = json!({"Driver": "ipam-delegated", "Config": [config]});
        let net = json!({"Name": "net", "IPAM": ipam, "Containers": containers});
        let ipam = json!({"Driver": "default", "Config": null});
        let none = json!({"Name": "none", "IPAM": ipam, "Containers": {}});
        let networks = [("a", none), ("b", net)].map(|(id, network)| (id.to_owned(), network));
        let docker = FakeDocker::start(&self.sandbox, networks.into());
        let daemon = DockerDaemon::start(&self.sandbox, &["--unanswered-after=0s"]);
        if let Some(path) = repeats {
            assert_eq!(daemon.try_call(path, "").unwrap().status, 400);
        }
        (daemon, docker)
    }

    /// Waits until the daemon is idle, and this is the number of addresses.
    fn wait_until_settled(&self, addresses: usize) {
        let is_settled = || {
            let records = self.records();
            records.len() == addresses && records.iter().all(|content| is_answered(content))
        };
        wait_for(is_settled);
    }

    /// The points of the call.
    fn points(&self, victim: Victim) -> BTreeSet<Point> {
        let trace = self.sandbox.root().join("trace");
        let daemon = self.daemon();
        let traced = Traced::recorded(&daemon, &trace);
        assert!(self.call(&daemon, victim).is_some());
        wait_for(|| self.records().iter().all(|content| is_answered(content)));
        let points = points(&daemon, &trace);
        daemon.kill();
        traced.end();
        points
    }

    /// Kills the daemon at this point. Returns Docker's answer, and whether the daemon was killed:
    /// the waits between threads vary.
    fn kill_at(&self, point: &Point, victim: Victim) -> (Option<Value>, bool) {
        let daemon = self.daemon();
        let traced = Traced::killing(&daemon, point);
        let was_killed_early = is_killed(&daemon);
        let answer = self.call(&daemon, victim);
        let was_killed = !was_killed_early && is_killed_soon(&daemon);
        daemon.kill();
        traced.end();
        (answer, was_killed)
    }

    /// Docker removes the network. Checks that nothing remains.
    fn assert_removed(&self, daemon: &DockerDaemon, docker: FakeDocker, what: &str) {
        drop(docker);
        let _docker = FakeDocker::start(&self.sandbox, [].into());
        for ip in ["10.9.0.1", "10.9.0.2", "10.9.0.3"] {
            daemon.release(&self.pool, ip);
        }
        daemon.release_pool(&self.pool);
        // The gateway, once Docker is asked.
        wait_until_equal(|| self.reserved(), [""; 0]);
        wait_for(|| self.records().is_empty());
        let records = self.sandbox.docker_state().join("records");
        let records = fs::read_dir(records.join("docker-local"));
        assert_eq!(records.into_iter().flatten().count(), 0, "{what}");
    }
}

/// An address is requested, and then Docker reacts so. Returns whether the daemon was killed.
fn address_is_kept(setting: &Setting, point: &Point, then: Then) -> bool {
    let (answer, was_killed) = setting.kill_at(point, REQUEST_ADDRESS);
    let what = format!("killed at {point:?}, then Docker {then:?}, {answer:?}");
    let own = answer.map(|answer| {
        let own = answer["Address"]
            .as_str()
            .unwrap_or_else(|| panic!("{what}"));
        own.strip_suffix("/29").unwrap().to_owned()
    });
    let has = [own.as_deref(), Some("10.9.0.2"), Some("10.9.0.3")];
    let mut has: Vec<&str> = has.into_iter().flatten().collect();
    has.sort_unstable();
    let repeats = own.is_none() && then == Then::Repeats;
    let path = repeats.then_some(REQUEST_ADDRESS.path);
    let (daemon, docker) = setting.again("", &has, path);
    // The addresses of the other containers, at every point.
    let reserved = setting.reserved();
    assert!(
        has.iter().all(|own| reserved.iter().any(|ip| ip == own)),
        "{what}: {reserved:?}"
    );
    setting.wait_until_settled(has.len());
    assert_eq!(setting.reserved(), has, "{what}");
    // The next container gets another address.
    let next = daemon.address(&setting.pool, "");
    assert!(!has.contains(&next.as_str()), "{what}");
    daemon.release(&setting.pool, &next);
    if let Some(own) = &own {
        daemon.release(&setting.pool, own);
    }
    assert_eq!(setting.reserved(), ["10.9.0.2", "10.9.0.3"], "{what}");
    setting.assert_removed(&daemon, docker, &what);
    was_killed
}

/// Another call: its result is kept if Docker has the answer, and released addresses can be
/// released and given again. Returns whether the daemon was killed.
fn is_done_or_not(setting: &Setting, point: &Point, victim: Victim) -> bool {
    let (answer, was_killed) = setting.kill_at(point, victim);
    let what = format!("{victim:?} killed at {point:?}, {answer:?}");
    let has_answer = answer.is_some();
    let path = (!has_answer).then_some(victim.path);
    let is_gateway = victim.body.contains("gateway");
    let gateway = if is_gateway && has_answer {
        "10.9.0.1"
    } else {
        ""
    };
    let (daemon, docker) = setting.again(gateway, &["10.9.0.2", "10.9.0.3"], path);
    if victim == RELEASE_ADDRESS {
        // Docker may release an address again, a second later.
        daemon.release(&setting.pool, "10.9.0.3");
        let again = || daemon.address(&setting.pool, "10.9.0.3");
        assert_eq!(again(), "10.9.0.3", "{what}");
        setting.call(&daemon, victim).unwrap();
        assert_eq!(setting.reserved(), ["10.9.0.2"], "{what}");
        assert_eq!(again(), "10.9.0.3", "{what}");
    }
    let has = [gateway, "10.9.0.2", "10.9.0.3"];
    let has: Vec<&str> = has.into_iter().filter(|ip| !ip.is_empty()).collect();
    setting.wait_until_settled(has.len());
    assert_eq!(setting.reserved(), has, "{what}");
    setting.assert_removed(&daemon, docker, &what);
    was_killed
}

/// An address is released, Docker doesn't call again, and has forgotten the container. Returns
/// whether the daemon was killed.
fn is_released(setting: &Setting, point: &Point) -> bool {
    let (answer, was_killed) = setting.kill_at(point, RELEASE_ADDRESS);
    let what = format!("ReleaseAddress killed at {point:?}, {answer:?}");
    let (daemon, docker) = setting.again("", &["10.9.0.2"], None);
    setting.wait_until_settled(1);
    wait_until_equal(|| setting.reserved(), ["10.9.0.2"]);
    setting.assert_removed(&daemon, docker, &what);
    was_killed
}

/// Most tries for a point that is missed because another thread was faster.
const TRIES: usize = 3;

/// Kills the daemon at each point. Most points must be reached: the number of waits between
/// threads differs from run to run.
fn walk(what: &str, points: &BTreeSet<Point>, kill: impl Fn(&Point) -> bool) {
    let is_missed = |point: &&Point| !(0..TRIES).any(|_| kill(point));
    let missed: Vec<&Point> = points.iter().filter(is_missed).collect();
    let (all, killed) = (points.len(), points.len() - missed.len());
    println!("{what}: killed at {killed} of {all} points");
    assert!(
        all > 0 && killed * 2 >= all,
        "{what}: {killed} of {all}, without {missed:?}"
    );
}

#[test]
fn no_address_is_lost_or_given_twice_or_leaked_wherever_the_daemon_is_killed() {
    needs!("trace");
    thread::scope(|scope| {
        for then in [Then::Repeats, Then::GivesUp] {
            scope.spawn(move || {
                let setting = Setting::default();
                let points = recorded(|| setting.points(REQUEST_ADDRESS));
                walk(&format!("{then:?}"), &points, |point| {
                    address_is_kept(&setting, point, then)
                });
            });
        }
    });
}

#[test]
fn nothing_is_lost_or_leaked_by_any_other_call_that_is_killed() {
    needs!("trace");
    let setting = Setting::default();
    for victim in OTHERS {
        let points = recorded(|| setting.points(victim));
        walk(victim.body, &points, |point| {
            is_done_or_not(&setting, point, victim)
        });
    }
}

#[test]
fn an_address_is_released_though_docker_does_not_ask_again() {
    needs!("trace");
    let setting = Setting::default();
    let points = setting.points(RELEASE_ADDRESS);
    walk("ReleaseAddress alone", &points, |point| {
        is_released(&setting, point)
    });
}
