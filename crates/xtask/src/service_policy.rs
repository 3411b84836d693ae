//! Keeps Debian's packages from starting their services when they are installed.
//!
//! A test starts what it needs by itself, in namespaces. On the machine, containerd and
//! podman's socket would only be in the way.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The program that `invoke-rc.d` and `deb-systemd-invoke` ask before they start a
/// service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The second line of a policy that this has made.
const MARK: &str = "# Of cargo xtask test: no service is started while it installs packages.";

/// Answers "action forbidden by policy" while this process is alive: it may be killed
/// before it removes the file.
fn policy() -> String {
    let process = std::process::id();
    format!("#!/bin/sh\n{MARK}\n[ ! -d /proc/{process} ] || exit 101\n")
}

/// While this lives, an installed package starts no service.
pub(crate) struct NoServices {
    /// The policy, if this has made it. Somebody else's stays as it is.
    made: Option<PathBuf>,
}

impl NoServices {
    pub(crate) fn new() -> Result<Self> {
        Self::at(Path::new(POLICY))
    }

    fn at(policy: &Path) -> Result<Self> {
        let failed = || policy.display().to_string();
        match fs::read_to_string(policy) {
            Ok(existing) if !existing.contains(MARK) => return Ok(Self { made: None }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(failed);
            }
            _ => {}
        }
        let no_services = Self {
            made: Some(policy.to_owned()),
        };
        fs::write(policy, self::policy()).with_context(failed)?;
        fs::set_permissions(policy, fs::Permissions::from_mode(0o755)).with_context(failed)?;
        Ok(no_services)
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = &self.made {
            let _ = fs::remove_file(policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn services_are_forbidden_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        let no_services = NoServices::at(&policy).unwrap();
        assert_eq!(
            Command::new("sh").arg(&policy).status().unwrap().code(),
            Some(101)
        );
        drop(no_services);
        assert!(!policy.exists());
    }

    #[test]
    fn a_policy_that_exists_stays() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        fs::write(&policy, "theirs").unwrap();
        drop(NoServices::at(&policy).unwrap());
        assert_eq!(fs::read_to_string(&policy).unwrap(), "theirs");
    }

    #[test]
    fn what_a_killed_run_has_left_forbids_nothing_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        std::mem::forget(NoServices::at(&policy).unwrap());
        let own = format!("/proc/{}", std::process::id());
        let left = fs::read_to_string(&policy).unwrap();
        fs::write(&policy, left.replace(&own, "/proc/gone")).unwrap();
        assert!(Command::new("sh").arg(&policy).status().unwrap().success());
        let no_services = NoServices::at(&policy).unwrap();
        assert_eq!(
            Command::new("sh").arg(&policy).status().unwrap().code(),
            Some(101)
        );
        drop(no_services);
        assert!(!policy.exists());
    }
}
