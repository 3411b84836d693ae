//! Network namespaces of endpoints, and the way of an interface out of them and back, by
//! `ip` (iproute2): `/run/netns/docker-<endpoint>`.

use std::path::Path;
use std::process::Command;

use crate::plugin_list::IFNAME;
use crate::refusal::{Refusal, impossible};

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
        if !Path::new(&self.path()).exists() {
            return Ok(());
        }
        ip(&["netns", "delete", &self.name])
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
        let is_there = Path::new(&self.path()).exists();
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

    fn is_outside(&self) -> bool {
        ip(&["link", "show", "dev", &self.outside]).is_ok()
    }

    fn has(&self, interface: &str) -> bool {
        self.ip(&["link", "show", "dev", interface]).is_ok()
    }

    fn ip(&self, arguments: &[&str]) -> Result<(), Refusal> {
        ip(&[&["-netns", &self.name][..], arguments].concat())
    }
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
