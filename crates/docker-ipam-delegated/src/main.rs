//! The daemon's executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    docker_ipam_delegated::main()
}
