//! The executable.

fn main() -> std::process::ExitCode {
    cni_plugin::main(&ipam_ds_etcd::IpamDsEtcd)
}
