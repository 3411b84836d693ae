//! The executable.

fn main() -> std::process::ExitCode {
    cni::main(&ipam_da_host_local::IpamDaHostLocal)
}
