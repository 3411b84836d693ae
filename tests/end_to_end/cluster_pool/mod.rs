//! Pools of a cluster in Kubernetes' API: `docs/kubernetes-cluster-pool` on a real API server.

mod administered;
mod collect;
mod faults;
mod ipamctl;
mod objects;
mod policy;
mod rights;
mod schemas;
mod whereabouts;
