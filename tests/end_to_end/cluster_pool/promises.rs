//! Runs the promises of cluster pools with the API server.

use harness::{ALL_POINTS, KUBECTL, KUBERNETES_PROGRAMS, needs, skip};

use super::api_cluster::ApiCluster;
use crate::cluster;

macro_rules! promises_of {
    ($($subject:ident),* $(,)?) => {
        $(
            #[test]
            fn $subject() {
                needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
                ApiCluster::default().keep(cluster::$subject::PROMISES);
            }
        )*
    };
}

promises_of! {
    allocator,
    blocks,
    conflicts,
    identity,
    import,
}

#[test]
fn files() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = ApiCluster::default();
    cluster.are_administrators = true;
    cluster.keep(cluster::files::PROMISES);
}

#[test]
fn killed() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = ApiCluster::default();
    cluster.are_administrators = true;
    cluster.keep(cluster::killed::PROMISES);
}

#[test]
fn faults() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    if std::env::var_os(ALL_POINTS).is_none() {
        // It takes ten minutes. The plugins for etcd have no index and no view of addresses, so
        // their walk doesn't replace this one.
        skip(
            "cluster_pool::promises::faults",
            &format!("it runs with {ALL_POINTS} only"),
        );
        return;
    }
    let mut cluster = ApiCluster::default();
    cluster.are_administrators = true;
    cluster.keep(cluster::faults::PROMISES);
}

#[test]
fn reconcile() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    ApiCluster::default().keep(cluster::reconcile::PROMISES);
}
