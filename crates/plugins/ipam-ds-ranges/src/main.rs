//! The executable `ipam-ds-ranges`.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_ds_ranges::IpamDsRanges)
}
