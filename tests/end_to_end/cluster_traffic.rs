//! Callers on the nodes of a cluster, on one pool, while its engine fails: the calls and the
//! judgement on them for any engine, and the faults of etcd's members.

mod blocks;
mod caller;
mod judgement;
pub(crate) mod node;
pub(crate) mod traffic;
mod under_faults;
