#![doc = include_str!("../README.md")]

mod command_line;
mod daemon;
mod docker;
mod http;
mod ipam;
mod network;
mod threads;

use std::process::ExitCode;

/// As in the plugins: musl's own allocator makes a system call for most requests.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    daemon::main()
}
