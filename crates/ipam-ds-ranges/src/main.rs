//! The executable.

fn main() -> std::process::ExitCode {
    cni::main(&ipam_ds_ranges::IpamDsRanges)
}
