//! Callers on a cluster's nodes use one pool while its engine fails. Calls and judgement are the same
//! for each engine; the faults here are those of etcd's members.

mod blocks;
mod caller;
mod judgement;
pub(crate) mod node;
pub(crate) mod traffic;
mod under_faults;
