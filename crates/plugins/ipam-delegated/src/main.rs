//! The executable.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_delegated::IpamDelegated::default())
}
