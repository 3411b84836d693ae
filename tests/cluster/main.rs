//! One pool for many nodes: promises that hold for each engine, the tests of etcd and of Kubernetes'
//! API, and traffic under faults.
//!
//! Needs: root, etcd, strace, kubectl, the programs of a Kubernetes control plane. Takes six minutes.

mod etcd;
mod killed;
mod kubernetes;
mod on_a_wire;
mod owners;
mod pool_cluster;
mod promises;
mod selection;
mod tools;
mod traffic;
