//! The daemon for Docker: its protocol, and real dockerds.
//!
//! Needs: root, docker.io, strace. Takes four minutes.

mod as_libnetworks;
mod calls;
mod conflists;
mod dockerd;
mod endpoint_plugins;
mod endpoints;
mod endpoints_killed;
mod killed;
mod pools;
mod protocol;
mod releases;
mod run_out;
mod socket;
mod sweep;
