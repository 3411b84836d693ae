//! Programs of Kubernetes clusters that Debian doesn't package.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};

use crate::repository;

/// The environment variable with the folder of the programs.
pub const RUNTIMES: &str = "IPAM_DELEGATED_RUNTIMES";

/// For [`needs!`](crate::needs): the programs of a cluster.
pub const KUBERNETES_PROGRAMS: &str = "kubernetes-programs";

/// The client, of Debian's `kubernetes-client` or another package.
pub const KUBECTL: &str = "/usr/bin/kubectl";

/// The folder of the programs: [`RUNTIMES`], or else the programs that are extracted from
/// `shared/runtimes` beside the repository.
pub fn kubernetes_programs() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(RUNTIMES) {
        return Some(PathBuf::from(folder));
    }
    let unpack = repository().parent()?.join("shared/runtimes/unpack");
    if !unpack.exists() {
        return None;
    }
    let target = repository().join("target");
    let folder = target.join("runtimes");
    // A lock file, because each test is a separate process.
    let lock = File::create(target.join("runtimes.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let done = Command::new(unpack).arg(&folder).status().unwrap();
    assert!(done.success(), "the runtimes can't be unpacked");
    Some(folder)
}
