//! The executable.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_da_kubernetes::PLUGIN)
}
