//! The executable `ipam-ds-rules`.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_ds_rules::IpamDsRules)
}
