//! The executable `ipam-ds-static`.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_ds_static::IPAM_DS_STATIC)
}
