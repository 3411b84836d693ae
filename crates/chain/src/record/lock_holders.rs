//! Names the processes that hold a file's lock, for a message. Nothing is decided by it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The processes that hold the `flock(2)` lock of an open file, as far as `/proc` shows
/// them, not those of another user, nor of another PID namespace: `4711 (dhcp-helper)`, each with
/// the first 15 bytes of its executable's name.
///
/// Links and small files of `/proc` are read, which waits for no file system and for no
/// process.
///
/// # Errors
///
/// An I/O error: `/proc` can't be listed.
pub fn lock_holders(file: &File) -> io::Result<Vec<String>> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let mut holders = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let process = entry?.path();
        let Some(pid) = process
            .file_name()
            .and_then(|name| name.to_str()?.parse::<u32>().ok())
        else {
            continue;
        };
        if holds(&process, &path) {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            holders.push(format!("{pid} ({})", name.trim_end()));
        }
    }
    Ok(holders)
}

/// True if a process has the file open, by a descriptor that has its lock.
fn holds(process: &Path, path: &PathBuf) -> bool {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
    descriptors.flatten().any(|descriptor| {
        fs::read_link(descriptor.path()).is_ok_and(|link| link == *path)
            && fs::read_to_string(process.join("fdinfo").join(descriptor.file_name()))
                .is_ok_and(|info| info.contains("FLOCK"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    #[test]
    fn who_holds_the_lock_is_named_and_who_only_has_the_file_open_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert!(lock_holders(&file).unwrap().is_empty());
        flock(&other, FlockOperation::LockExclusive).unwrap();
        let holders = lock_holders(&file).unwrap();
        assert_eq!(holders.len(), 1);
        let pid = format!("{} (", std::process::id());
        assert!(holders[0].starts_with(&pid) && holders[0].len() > pid.len() + 1);
    }
}
