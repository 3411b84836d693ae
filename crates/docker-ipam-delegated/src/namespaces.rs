//! Network namespaces of endpoints, and the way of an interface out of them and back, by
//! `ip` (iproute2): `/run/netns/docker-<endpoint>`.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use rustix::fs::statfs;

use crate::plugin_list::IFNAME;
use crate::refusal::{Refusal, impossible};

/// The type of the file system of namespaces, `NSFS_MAGIC`.
const NSFS: i64 = 0x6e73_6673;

/// The namespace of an endpoint, and the name of its interface outside.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    name: String,
    outside: String,
}

impl Namespace {
    /// The namespace of the endpoint of this ID, which need not be there.
    pub(crate) fn of(endpoint_id: &str) -> Self {
        // An interface's name has 15 bytes.
        let start: String = endpoint_id.chars().take(12).collect();
        Self {
            name: format!("docker-{endpoint_id}"),
            outside: format!("cni{start}"),
        }
    }

    /// Its path.
    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// The name of the interface while it is in the host's namespace.
    pub(crate) fn outside(&self) -> &str {
        &self.outside
    }

    /// Makes it; one that is there is made anew.
    ///
    /// # Errors
    ///
    /// What `ip` says.
    pub(crate) fn make(&self) -> Result<(), Refusal> {
        self.remove()?;
        ip(&["netns", "add", &self.name])
    }

    /// Removes it, if it is there.
    ///
    /// # Errors
    ///
    /// What `ip` says.
    pub(crate) fn remove(&self) -> Result<(), Refusal> {
        if self.is_there() {
            return ip(&["netns", "delete", &self.name]);
        }
        // What a namespace was mounted on.
        match fs::remove_file(self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(impossible(format!("{}: {error}", self.path())))
            }
            _ => Ok(()),
        }
    }

    /// Moves the interface to the host's namespace, where Docker takes it from.
    ///
    /// # Errors
    ///
    /// It isn't there, or what `ip` says.
    pub(crate) fn move_out(&self) -> Result<(), Refusal> {
        if self.is_outside() {
            return Ok(());
        }
        let host = std::process::id().to_string();
        // It may have its outer name: a daemon that was killed has come so far.
        if self.has(IFNAME) {
            self.ip(&["link", "set", "dev", IFNAME, "down"])?;
            self.ip(&["link", "set", "dev", IFNAME, "name", &self.outside])?;
        }
        self.ip(&["link", "set", "dev", &self.outside, "netns", &host])
    }

    /// Moves the interface back, if it is in the host's namespace.
    ///
    /// # Errors
    ///
    /// What `ip` says.
    pub(crate) fn move_back(&self) -> Result<(), Refusal> {
        let is_there = self.is_there();
        if self.is_outside() {
            if !is_there {
                // The namespace is gone: a node that has crashed. So is the use of it.
                return ip(&["link", "delete", "dev", &self.outside]);
            }
            ip(&["link", "set", "dev", &self.outside, "netns", &self.name])?;
        }
        if is_there && self.has(&self.outside) {
            self.ip(&["link", "set", "dev", &self.outside, "name", IFNAME])?;
        }
        Ok(())
    }

    /// True if the interface is here, or in the host's namespace: Docker hasn't taken it,
    /// or has given it back.
    pub(crate) fn has_interface(&self) -> bool {
        let is_there = self.is_there();
        self.is_outside() || (is_there && (self.has(IFNAME) || self.has(&self.outside)))
    }

    fn is_there(&self) -> bool {
        is_namespace(Path::new(&self.path()))
    }

    fn is_outside(&self) -> bool {
        is_on_host(&self.outside)
    }

    fn has(&self, interface: &str) -> bool {
        self.ip(&["link", "show", "dev", interface]).is_ok()
    }

    fn ip(&self, arguments: &[&str]) -> Result<(), Refusal> {
        ip(&[&["-netns", &self.name][..], arguments].concat())
    }
}

/// True if a namespace is there, and not only the file that one was mounted on.
pub(crate) fn is_namespace(path: &Path) -> bool {
    // Its type is an `i32` on some machines.
    #[allow(clippy::useless_conversion)]
    statfs(path).is_ok_and(|it| i64::from(it.f_type) == NSFS)
}

/// True if the host has an interface of this name.
pub(crate) fn is_on_host(interface: &str) -> bool {
    ip(&["link", "show", "dev", interface]).is_ok()
}

fn ip(arguments: &[&str]) -> Result<(), Refusal> {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .map_err(|error| impossible(format!("ip (Debian: iproute2) can't be run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(impossible(format!(
        "ip {}: {}",
        arguments.join(" "),
        said.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_told_from_the_file_that_it_was_mounted_on() {
        assert!(is_namespace(Path::new("/proc/self/ns/net")));
        assert!(!is_namespace(Path::new("/proc/self/status")));
        assert!(!is_namespace(Path::new("/nowhere")));
    }

    #[test]
    fn the_interface_has_a_name_that_the_kernel_takes() {
        let id = "ff667514287896a89c295998f8d2bb0703b6f707e93f9b4fa4852eb8667078fc";
        assert_eq!(Namespace::of(id).outside(), "cniff6675142878");
        assert_eq!(Namespace::of("e1").outside(), "cnie1");
    }
}
