//! Pools of a cluster in Kubernetes' API: `docs/kubernetes-cluster-pool` on a real API server.

mod faults;
mod objects;
mod policy;
mod rights;
mod schemas;
