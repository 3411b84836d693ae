//! Keeps Debian's packages from starting their services when they are installed.
//!
//! A test starts what it needs by itself, in namespaces. On the machine, containerd and
//! podman's socket would only be in the way.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The program that `invoke-rc.d` and `deb-systemd-invoke` ask before they start a
/// service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// While this lives, an installed package starts no service.
pub(crate) struct NoServices(PathBuf);

impl NoServices {
    /// Makes the policy; `None` if there is one already, which stays as it is.
    pub(crate) fn new() -> io::Result<Option<Self>> {
        Self::at(Path::new(POLICY))
    }

    fn at(policy: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o755);
        let mut file = match options.open(policy) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            file => file?,
        };
        let no_services = Self(policy.to_owned());
        // 101 is "action forbidden by policy", while this process is alive: it may be killed before
        // it removes the file.
        let process = std::process::id();
        writeln!(file, "#!/bin/sh\n[ ! -d /proc/{process} ] || exit 101")?;
        Ok(Some(no_services))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn services_are_forbidden_until_it_is_dropped_and_a_policy_that_exists_stays() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        let no_services = NoServices::at(&policy).unwrap();
        let asked = Command::new("sh").arg(&policy).status().unwrap();
        assert_eq!(asked.code(), Some(101));
        assert!(NoServices::at(&policy).unwrap().is_none());
        assert!(policy.exists());
        drop(no_services);
        assert!(!policy.exists());
    }
}
