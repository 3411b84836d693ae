//! The executable `ipam-da-dhcp`.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_da_dhcp::IpamDaDhcp)
}
