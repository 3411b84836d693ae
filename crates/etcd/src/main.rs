//! The executable `ipam-da-etcd`: an allocator with one pool for a whole cluster, in etcd.

use cluster::Allocator;

static PLUGIN: Allocator = Allocator {
    about: cni::about!(
        "ipam-da-etcd",
        "Allocator for ipam-delegated: one pool for a whole cluster, in etcd"
    ),
    engine: &etcd::ENGINE,
};

fn main() -> std::process::ExitCode {
    plugin::main(&PLUGIN)
}
