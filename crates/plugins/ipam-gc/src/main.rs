//! The executable.

fn main() -> std::process::ExitCode {
    plugin::main(&ipam_gc::IpamGc::default())
}
