//! The executable.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_ds_kubernetes::PLUGIN)
}
