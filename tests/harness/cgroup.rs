//! Control group of a test's containers, in every hierarchy.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::waiting::wait_within;

/// The folder of all hierarchies.
const HIERARCHIES: &str = "/sys/fs/cgroup";

/// Longest wait for the processes of a control group to leave it after they were killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The name of a control group. Runtimes create the control group; dropping this value removes it.
pub struct Cgroup(String);

impl Cgroup {
    /// The control group with this name, at the top of each hierarchy.
    pub fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Its path, from the top of a hierarchy.
    pub fn path(&self) -> String {
        format!("/{}", self.0)
    }

    /// A script that creates it, and moves the shell into it.
    pub(crate) fn join_script(&self) -> String {
        format!(
            "for top in {HIERARCHIES} {HIERARCHIES}/*; do
    [ -e $top/cgroup.procs ] || continue
    mkdir -p $top/{name}
    for file in cpuset.cpus cpuset.mems; do
        if [ -e $top/$file ]; then cat $top/$file > $top/{name}/$file; fi
    done
    echo $$ > $top/{name}/cgroup.procs
done",
            name = self.0
        )
    }

    /// Removes the control group and its children, once their processes have left.
    pub(crate) fn remove(&self) {
        for folder in self.folders() {
            wait_within(PATIENCE, || remove(&folder));
        }
    }

    /// Its folders: one in the only hierarchy of version 2, or one in each of version 1.
    fn folders(&self) -> Vec<PathBuf> {
        let top = Path::new(HIERARCHIES);
        let hierarchies = subfolders(top);
        let all = hierarchies.iter().map(PathBuf::as_path).chain([top]);
        all.map(|hierarchy| hierarchy.join(&self.0))
            .filter(|folder| folder.exists())
            .collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes a control group and its children; false if one of them has a process.
fn remove(folder: &Path) -> bool {
    subfolders(folder).iter().all(|folder| remove(folder)) && fs::remove_dir(folder).is_ok()
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries
        .filter(is_folder)
        .map(|entry| entry.path())
        .collect()
}
