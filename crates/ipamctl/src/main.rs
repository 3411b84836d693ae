//! The executable `ipamctl`.

use std::process::ExitCode;

/// The C library's allocator of musl is slow where many files are read.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    ipamctl::main()
}
