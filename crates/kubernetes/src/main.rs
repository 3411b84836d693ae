//! The executable `ipam-da-kubernetes`: an allocator with one pool for a whole cluster, in
//! Kubernetes' API.

use cluster::Allocator;

static PLUGIN: Allocator = Allocator {
    about: cni::about!(
        "ipam-da-kubernetes",
        "Allocator for ipam-delegated: one pool for a whole cluster, in Kubernetes' API"
    ),
    engine: kubernetes::ENGINE,
};

fn main() -> std::process::ExitCode {
    plugin::main(&PLUGIN)
}
