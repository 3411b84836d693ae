//! The executable.

fn main() -> std::process::ExitCode {
    cni::main(&ipam_delegated::IpamDelegated::default())
}
