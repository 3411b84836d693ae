//! SIGKILL before each system call of the allocator between its input and its end. No address is
//! lost or given twice, and none stays reserved after the next DEL or GC.

use std::os::unix::process::ExitStatusExt;

use harness::call_points::{Point, points};
use harness::{Call, sample};
use serde_json::{Value, json};

use crate::pool_cluster::{PoolCluster, promises};

// They need strace.
promises! {
    del_or_gc_releases_what_a_killed_add_has_reserved,
    a_killed_del_or_gc_is_made_up_for_by_the_next,
}

/// System calls with an effect outside of the process, and those between a request and its answer.
/// A kill before any other system call has the same result as before the next one of these.
const WITH_EFFECT: [&str; 8] = [
    "connect",
    "epoll_wait",
    "exit_group",
    "recvfrom",
    "recvmsg",
    "sendto",
    "write",
    "writev",
];

/// The system calls of a call at which it may be killed.
fn points_of(cluster: &dyn PoolCluster, call: Call) -> Vec<Point> {
    let trace = cluster.sandbox().root().join("trace");
    let output = call.traced(&trace, &[]).run();
    output.ends(0);
    sample(points(&trace, "read(0,", |call| {
        WITH_EFFECT.contains(&call.name)
    }))
}

/// Kills a call at this point. It may end without reaching the point, because the number of waits
/// for the engine varies.
fn kill(call: Call, point: &Point) -> bool {
    let output = call.injected(&point.to_string()).run();
    let is_killed = output.status.signal() == Some(9);
    assert!(
        is_killed || output.status.success(),
        "{point:?}: {output:?}"
    );
    is_killed
}

/// A configuration in which the container `other` is valid and has an address.
fn config(cluster: &dyn PoolCluster) -> Value {
    let pools = json!([{"name": "red", "subnet": "10.1.0.0/24"}]);
    let mut config = cluster.config("n1", &pools);
    config["cni.dev/valid-attachments"] = json!([{"containerID": "other", "ifname": "eth0"}]);
    cluster.alone("ADD", "other", &config).run().result();
    config
}

fn del_or_gc_releases_what_a_killed_add_has_reserved(cluster: &mut dyn PoolCluster) {
    let config = config(cluster);
    let others = cluster.addresses();
    let points = points_of(cluster, cluster.alone("ADD", "c", &config));
    cluster.alone("DEL", "c", &config).run().nothing();
    let mut killed = 0;
    for (i, point) in points.iter().enumerate() {
        killed += usize::from(kill(cluster.alone("ADD", "c", &config), point));
        let then = ["DEL", "GC"][i % 2];
        cluster.alone(then, "c", &config).run().nothing();
        let now = cluster.addresses();
        assert_eq!(now, others, "ADD killed at {point:?}, then {then}");
    }
    assert!(killed * 2 >= points.len(), "{killed} of {points:?}");
}

fn a_killed_del_or_gc_is_made_up_for_by_the_next(cluster: &mut dyn PoolCluster) {
    let config = config(cluster);
    let others = cluster.addresses();
    for command in ["DEL", "GC"] {
        cluster.alone("ADD", "c", &config).run().result();
        let points = points_of(cluster, cluster.alone(command, "c", &config));
        let mut killed = 0;
        for point in &points {
            cluster.alone("ADD", "c", &config).run().result();
            killed += usize::from(kill(cluster.alone(command, "c", &config), point));
            cluster.alone(command, "c", &config).run().nothing();
            let now = cluster.addresses();
            assert_eq!(now, others, "{command} killed at {point:?}");
        }
        assert!(killed * 2 >= points.len(), "{killed} of {points:?}");
    }
}
