//! Nodes of a cluster on one pool, while the members of its etcd fail.

mod blocks;
mod callers;
mod under_faults;
