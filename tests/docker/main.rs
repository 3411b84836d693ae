//! The daemon for Docker: its protocol, and real dockerds.
//!
//! Needs: root, docker.io, strace. Takes four minutes.

mod docker_as_libnetworks;
mod docker_calls;
mod docker_conflists;
mod docker_endpoint_plugins;
mod docker_endpoints;
mod docker_endpoints_killed;
mod docker_killed;
mod docker_pools;
mod docker_protocol;
mod docker_releases;
mod docker_run_out;
mod docker_socket;
mod docker_sweep;
mod with_docker;
mod with_docker_and_podman;
mod with_docker_as_own;
mod with_docker_later;
mod with_docker_networks;
mod with_docker_networks_killed;
mod with_docker_plumbing;
mod with_docker_restarted;
mod with_docker_swarm;

harness::print_left_out_at_the_end!();
