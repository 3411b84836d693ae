//! Histories of concurrent calls on a store in memory. The checker of the end-to-end tests
//! verifies that no address is given twice, and that none is lost. Needs nothing, takes seconds.

mod lost_answers;
mod memory_store;
mod owners;
mod restored;
mod rules;
mod traffic;

use std::net::IpAddr;
use std::ops::Range;
use std::thread;

use cluster::{Held, Node, Restored};
use harness::{Address, Command, History, Observation, Outcome};

use memory_store::{Cluster, Faults};
use traffic::{Traffic, entries, node, pools_of};

const CALLERS: usize = 3;
const CALLS: usize = 60;

/// Nodes, of which the first two are machines with one name.
fn nodes() -> Vec<Node> {
    let twin = Node {
        machine: Some("twin".to_owned()),
        ..node("n0")
    };
    let others = (0..3).map(|i| node(&format!("n{i}")));
    [twin].into_iter().chain(others).collect()
}

/// Callers on all nodes add and delete containers with these numbers.
fn run(traffic: &Traffic<'_>, nodes: &[Node], numbers: &Range<usize>) {
    thread::scope(|scope| {
        for node in nodes {
            for caller in 0..CALLERS {
                scope.spawn(move || traffic.run_caller(node, caller, numbers.clone()));
            }
        }
    });
}

/// A living container of a machine, its caller and its addresses.
struct Living {
    machine: String,
    container: String,
    caller: usize,
    ips: Vec<IpAddr>,
}

/// The living containers, as records and runtimes know them.
fn living(traffic: &Traffic<'_>) -> Vec<Living> {
    let calls = traffic.calls();
    let history = History::new(calls.clone(), Vec::new()).unwrap();
    let living = history.living().into_iter();
    let containers = living.filter(|attachment| !attachment.starts_with(owners::PREFIX));
    let living = containers.map(|attachment| {
        let added = calls.iter().find_map(|call| match &call.command {
            Command::Add(Outcome::Succeeded(added)) if call.attachment == attachment => Some(added),
            _ => None,
        });
        let (_, container) = attachment.split_once('/').unwrap();
        let container = container.trim_end_matches(":eth0");
        let parts: Vec<&str> = container.split('.').collect();
        Living {
            machine: parts[0].to_owned(),
            container: container.to_owned(),
            caller: parts[1].parse().unwrap(),
            ips: added.unwrap().iter().map(|address| address.ip).collect(),
        }
    });
    living.collect()
}

/// GC on each node, without faults: a machine knows only its own containers.
fn collect(cluster: &Cluster, traffic: &Traffic<'_>, nodes: &[Node]) {
    let healthy = Traffic::new(cluster, Faults::default());
    let living = living(traffic);
    for node in nodes {
        let own = living
            .iter()
            .filter(|one| Some(&one.machine) == node.machine.as_ref());
        let own: Vec<String> = own.map(|one| one.container.clone()).collect();
        healthy.gc(node, &own).unwrap();
    }
}

/// The addresses in the store with their holders.
fn observe(cluster: &Cluster, traffic: &Traffic<'_>, sent_once: bool) -> Observation {
    let started = traffic.now();
    let address = |held: Held| {
        let holder = held.holder?;
        let address = Address {
            pool: holder.pool,
            ip: held.key.ip,
        };
        let attachment = match holder.owner {
            Some(owner) => owners::attachment(&owner.name),
            None => format!("{}/{}:{}", holder.node, holder.container_id, holder.ifname),
        };
        Some((address, attachment))
    };
    Observation {
        started,
        ended: traffic.now(),
        addresses: owners::counted(cluster)
            .into_iter()
            .filter_map(address)
            .collect(),
        index: None,
        sent_once,
        collected: false,
    }
}

fn cluster_of_two_pools() -> Cluster {
    let cluster = Cluster::default();
    cluster.define("blue", r#"{"subnet":"10.0.0.0/27"}"#);
    cluster.define("green", r#"{"subnet":"fd00::/124"}"#);
    cluster
}

/// Callers on all nodes add and delete containers while the store has these faults. Then GC runs
/// on each node without faults. Returns the violations.
fn violations(faults: Faults, after: impl FnOnce(&Cluster)) -> Vec<String> {
    let cluster = cluster_of_two_pools();
    let traffic = Traffic::new(&cluster, faults);
    run(&traffic, &nodes(), &(0..CALLS));
    cluster.settle();
    after(&cluster);
    judged(&cluster, &traffic, faults.lost_answers + faults.late == 0)
}

/// Runs GC, and returns the violations of all calls and of the state before and after GC.
fn judged(cluster: &Cluster, traffic: &Traffic<'_>, sent_once: bool) -> Vec<String> {
    let before = observe(cluster, traffic, sent_once);
    collect(cluster, traffic, &nodes());
    let mut collected = observe(cluster, traffic, sent_once);
    collected.collected = true;
    let history = History::new(traffic.calls(), vec![before, collected]).unwrap();
    let (succeeded, all) = history.adds();
    assert!(succeeded > all / 4, "{succeeded} of {all} ADDs succeeded");
    let violations = history.violations();
    violations.iter().map(ToString::to_string).collect()
}

#[test]
fn no_address_is_given_twice_and_none_is_lost() {
    let found = violations(Faults::default(), |_| ());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn lost_requests_and_answers_give_no_address_twice_and_lose_none() {
    let faults = Faults {
        lost_requests: 10,
        lost_answers: 10,
        late: 5,
        unable_lists: 5,
        old_looks: 20,
    };
    let found = violations(faults, |_| ());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn an_address_that_the_store_loses_is_found() {
    let found = violations(Faults::default(), |cluster| {
        let addresses = cluster.addresses();
        cluster.lose(&addresses[0].key);
    });
    assert!(!found.is_empty());
}

/// The engine is set back between calls. What it has and nobody uses is collected, and then the records
/// claim again.
#[test]
fn an_older_state_gives_no_address_twice_and_loses_none_if_the_records_claim_again() {
    let cluster = cluster_of_two_pools();
    let traffic = Traffic::new(&cluster, Faults::default());
    let nodes = nodes();
    run(&traffic, &nodes, &(0..CALLS / 3));
    let older = cluster.snapshot();
    run(&traffic, &nodes, &(CALLS / 3..CALLS / 3 * 2));
    cluster.restore(older);
    collect(&cluster, &traffic, &nodes);
    for one in living(&traffic) {
        let mut machines = nodes.iter();
        let node = machines.find(|node| node.machine.as_ref() == Some(&one.machine));
        let pools = entries(pools_of(one.caller));
        let claimed =
            restored::reconcile(&cluster, node.unwrap(), &one.container, &pools, &one.ips);
        let is_kept = |restored: &Restored| !matches!(restored, Restored::Taken(_));
        assert!(
            claimed.iter().all(is_kept),
            "{}: {claimed:?}",
            one.container
        );
    }
    run(&traffic, &nodes, &(CALLS / 3 * 2..CALLS));
    let found = judged(&cluster, &traffic, true);
    assert!(found.is_empty(), "{found:#?}");
}
