//! The executable `ipam-da-kubernetes`: an allocator with one pool for a whole cluster, in
//! Kubernetes' API. By the name `ipam-df-kubernetes`, it finds facts of a pod there.

use cluster::Allocator;
use kubernetes::FactsOfPod;
use plugin::{Linked, MultiCall};

static ALLOCATOR: Allocator = Allocator {
    about: cni::about!(
        "ipam-da-kubernetes",
        "Allocator for ipam-delegated: one pool for a whole cluster, in Kubernetes' API"
    ),
    engine: kubernetes::ENGINE,
};

static FACTS: FactsOfPod = FactsOfPod {
    about: cni::about!(
        "ipam-df-kubernetes",
        "Facts for ipam-delegated: labels and annotations of a pod, from Kubernetes' API"
    ),
};

fn main() -> std::process::ExitCode {
    match MultiCall(&[Linked(&ALLOCATOR), Linked(&FACTS)]).selected() {
        Ok(selected) => plugin::main(selected),
        Err(refused) => refused,
    }
}
