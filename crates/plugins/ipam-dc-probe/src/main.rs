//! The executable `ipam-dc-probe`.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_dc_probe::IpamDcProbe)
}
