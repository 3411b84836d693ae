//! The executable `ipam-da-host-local`.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_da_host_local::IpamDaHostLocal)
}
