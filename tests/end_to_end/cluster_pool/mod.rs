//! Pools of a cluster in Kubernetes' API: `docs/kubernetes-cluster-pool` on a real API server.

mod administered;
mod api_cluster;
mod bad_days;
mod collect;
mod faults;
mod foreign_metadata;
mod full_disk;
mod interrupted_import;
mod ipamctl;
mod lost_answers;
mod meanwhile;
mod messages;
mod networks_of_multus;
mod objects;
mod overlaps;
mod policy;
mod promises;
mod restore_notes;
mod restored_meanwhile;
mod rights;
mod schemas;
mod strange_answers;
mod traffic;
mod unprivileged;
mod unread_policies;
mod whereabouts;
