//! A node's other programs: podman, containerd, the reference plugins, and the pages' commands.
//!
//! Needs: root, podman, containerd, containernetworking-plugins. Takes half a minute.

mod allocator_example;
mod bridges_and_subnets;
mod differential;
mod failed_dels;
mod manual;
mod merged;
mod on_a_bridge;
mod probe;
mod reference_delegates;
mod with_podman;
