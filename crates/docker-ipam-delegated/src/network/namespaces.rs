//! Network namespaces of endpoints, `/run/netns/docker-<endpoint>`: creates and removes them, and
//! moves an interface to the host's namespace and back, with `ip` (iproute2).

use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use chain::Execution;
use chain::record::is_namespace;
use docker_records::records::{DOCKER_PREFIX, IFNAME};
use ipam::IpNet;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use state_files::remove_file;

/// The namespace of an endpoint, and the name of its interface outside.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    name: String,
    pub(crate) outside: String,
}

impl Namespace {
    /// The namespace of the endpoint of this ID, which need not exist.
    pub(crate) fn of(endpoint_id: &str) -> Self {
        // An interface's name has 15 bytes.
        let start: String = endpoint_id.chars().take(12).collect();
        Self {
            name: format!("{DOCKER_PREFIX}{endpoint_id}"),
            outside: format!("cni{start}"),
        }
    }

    /// The path of the namespace.
    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// Creates the namespace. An existing one is replaced.
    ///
    /// # Errors
    ///
    /// The error of `ip`.
    pub(crate) fn make(&self, execution: &Execution<'_>) -> Result<()> {
        self.remove(execution)?;
        ip(execution, &["netns", "add", &self.name], "")
    }

    /// Removes the namespace, if it exists.
    ///
    /// # Errors
    ///
    /// The error of `ip`.
    pub(crate) fn remove(&self, execution: &Execution<'_>) -> Result<()> {
        if self.is_there()? {
            return ip(execution, &["netns", "delete", &self.name], "");
        }
        // What is left of a namespace: the file on which it was mounted.
        remove_file(CWD, self.path()).with_context(|| self.path())
    }

    /// Moves the interface to the host's namespace, where Docker takes it from.
    ///
    /// # Errors
    ///
    /// The interface is missing, or the error of `ip`.
    pub(crate) fn move_out(&self, execution: &Execution<'_>) -> Result<()> {
        let (host, outside) = (std::process::id(), &self.outside);
        if self.is_outside()? {
            return Ok(());
        }
        // A daemon that was killed may have renamed it already: then the first lines fail.
        let lines = format!(
            "link set dev {IFNAME} down\nlink set dev {IFNAME} name {outside}\n\
             link set dev {outside} netns {host}\n"
        );
        let moved = self.ip(execution, &lines);
        if self.is_outside()? { Ok(()) } else { moved }
    }

    /// Moves the interface back, if it is in the host's namespace, and gives it these addresses
    /// again: it has lost them on its way, and the plugins' DEL looks for them (`bridge` and `ptp`
    /// find by them which rules of `ipMasq` to remove). An interface that ended with the container's
    /// namespace is replaced, for the same reason.
    ///
    /// # Errors
    ///
    /// The error of `ip`.
    pub(crate) fn move_back(&self, execution: &Execution<'_>, addresses: &[IpNet]) -> Result<()> {
        let (name, outside) = (&self.name, &self.outside);
        let is_there = self.is_there()?;
        let is_outside = self.is_outside()?;
        if is_outside && !is_there {
            // The namespace ended with a crash of the node: the interface is of no use.
            return ip(execution, &["link", "delete", "dev", outside], "");
        }
        if is_outside {
            let back = ["link", "set", "dev", outside, "netns", name];
            ip(execution, &back, "")?;
        }
        if !is_there {
            return Ok(());
        }
        let mut lines = format!("link set dev {outside} name {IFNAME}\n");
        if !is_outside && !addresses.is_empty() {
            // Fails if the interface is there.
            lines += &format!("link add name {IFNAME} type veth\n");
        }
        for address in addresses {
            lines += &format!("address replace {address} dev {IFNAME}\n");
        }
        // Without a rename, its first line fails.
        if let Err(error) = self.ip(execution, &lines)
            && is_outside
        {
            let link = ["-netns", name, "link", "show", "dev", IFNAME];
            ip(execution, &link, "")?;
            tracing::warn!("an address could not be given again: {error:#}");
        }
        Ok(())
    }

    /// True if the namespace exists.
    ///
    /// # Errors
    ///
    /// An I/O error: it is unknown.
    pub(crate) fn is_there(&self) -> Result<bool> {
        match is_namespace(Path::new(&self.path())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            looked => looked.with_context(|| self.path()),
        }
    }

    /// True if the interface is in the host's namespace.
    fn is_outside(&self) -> Result<bool> {
        is_on_host(&self.outside).with_context(|| self.path())
    }

    /// Runs lines of `ip` in it, also after one that fails.
    fn ip(&self, execution: &Execution<'_>, lines: &str) -> Result<()> {
        let options = ["-force", "-netns", &self.name, "-batch", "-"];
        ip(execution, &options, lines)
    }
}

/// True if the host's namespace, which is the daemon's, has an interface of this name.
///
/// # Errors
///
/// An I/O error: it is unknown.
fn is_on_host(interface: &str) -> io::Result<bool> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    match name_to_index(&socket, interface) {
        Ok(_) => Ok(true),
        Err(Errno::NODEV) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn ip(execution: &Execution<'_>, arguments: &[&str], stdin: &str) -> Result<()> {
    execution.tool("ip", arguments, stdin).map_err(|error| {
        let line = [arguments, &stdin.lines().collect::<Vec<_>>()].concat();
        anyhow!("ip {}: {}", line.join(" "), error.msg)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_name() {
        assert!(is_on_host("lo").unwrap());
        assert!(!is_on_host("cninone").unwrap());
    }

    #[test]
    fn the_interface_has_a_name_that_the_kernel_takes() {
        let id = "ff667514287896a89c295998f8d2bb0703b6f707e93f9b4fa4852eb8667078fc";
        assert_eq!(Namespace::of(id).outside, "cniff6675142878");
        assert_eq!(Namespace::of("e1").outside, "cnie1");
    }
}
