//! Root file system of a test container: only a static busybox.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::elf::segment_types;
use crate::{Cgroup, Node, Reason, Sandbox, needs, skip, skip_for};

/// The executable of Debian's `busybox-static`.
pub const BUSYBOX: &str = "/bin/busybox";

/// The type of the segment with an executable's dynamic linker.
const PT_INTERP: u32 = 3;

/// The commands in the container.
const COMMANDS: [&str; 6] = ["cat", "ip", "ping", "sh", "sleep", "true"];

/// Mount points for container runtimes.
const FOLDERS: [&str; 6] = ["bin", "dev", "etc", "proc", "sys", "tmp"];

/// A node with a separate PID namespace, a sandbox with a container's root file system in `rootfs`,
/// and the containers' control group. Reports and returns `None` if the machine can't have them.
pub(crate) fn place_for_containers() -> Option<(Node, Sandbox, Cgroup)> {
    needs!("root", BUSYBOX);
    let node = Node::with_own_processes().map_err(|reason| skip(&reason));
    let sandbox = Sandbox::default();
    make_rootfs(&sandbox.root().join("rootfs"))
        .map_err(|reason| skip_for(&reason))
        .ok()?;
    let cgroup = Cgroup::named(sandbox.root().file_name()?.to_str()?);
    Some((node.ok()?, sandbox, cgroup))
}

/// True if the probe of a container runtime was successful. Otherwise, reports the test as skipped.
pub(crate) fn can_run(runtime: &str, probe: &Output) -> bool {
    let said = String::from_utf8_lossy(&probe.stderr);
    if !probe.status.success() {
        skip(&format!(
            "{runtime} can't run a container here: {}",
            said.trim()
        ));
    }
    probe.status.success()
}

/// Creates the root file system in a new folder, from [`BUSYBOX`].
///
/// # Errors
///
/// The executable needs a dynamic linker, like the one in the package `busybox`.
pub fn make_rootfs(folder: &Path) -> Result<PathBuf, Reason> {
    let busybox = fs::read(BUSYBOX).unwrap();
    if segment_types(&busybox).contains(&PT_INTERP) {
        let text = format!("{BUSYBOX} is not static; Debian's busybox-static has a static one");
        return Err(Reason::Package(text));
    }
    for name in FOLDERS {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::copy(BUSYBOX, folder.join("bin/busybox")).unwrap();
    for command in COMMANDS {
        symlink("busybox", folder.join("bin").join(command)).unwrap();
    }
    Ok(folder.to_owned())
}
