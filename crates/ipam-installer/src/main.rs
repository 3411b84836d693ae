//! The executable `ipam-installer`.

use std::process::ExitCode;

/// As in the plugins: musl's own allocator makes a system call for most requests.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    ipam_installer::main()
}
