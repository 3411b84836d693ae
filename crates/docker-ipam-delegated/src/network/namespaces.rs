//! Network namespaces of endpoints, `/run/netns/docker-<endpoint>`: creates and removes them, and
//! moves an interface to the host's namespace and back, with `ip` (iproute2).

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow};
use chain::Execution;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use state_files::is_namespace;

use crate::records::IFNAME;

/// The namespace of an endpoint, and the name of its interface outside.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    name: String,
    outside: String,
}

impl Namespace {
    /// The namespace of the endpoint of this ID, which need not exist.
    pub(crate) fn of(endpoint_id: &str) -> Self {
        // An interface's name has 15 bytes.
        let start: String = endpoint_id.chars().take(12).collect();
        Self {
            name: format!("docker-{endpoint_id}"),
            outside: format!("cni{start}"),
        }
    }

    /// The path of the namespace.
    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// The name of the interface while it is in the host's namespace.
    pub(crate) fn outside(&self) -> &str {
        &self.outside
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
        match fs::remove_file(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.with_context(|| self.path()),
        }
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
        let mut steps = String::new();
        // A daemon that was killed may have renamed it already.
        if !self.has(outside)? {
            steps += &format!("link set dev {IFNAME} down\nlink set dev {IFNAME} name {outside}\n");
        }
        steps += &format!("link set dev {outside} netns {host}\n");
        self.ip(execution, &steps)
    }

    /// Moves the interface back, if it is in the host's namespace.
    ///
    /// # Errors
    ///
    /// The error of `ip`.
    pub(crate) fn move_back(&self, execution: &Execution<'_>) -> Result<()> {
        let (name, outside) = (&self.name, &self.outside);
        let is_there = self.is_there()?;
        if self.is_outside()? {
            if !is_there {
                // The namespace ended with a crash of the node: the interface is of no use.
                return ip(execution, &["link", "delete", "dev", outside], "");
            }
            ip(
                execution,
                &["link", "set", "dev", outside, "netns", name],
                "",
            )?;
        }
        if is_there && self.has(outside)? {
            self.ip(
                execution,
                &format!("link set dev {outside} name {IFNAME}\n"),
            )?;
        }
        Ok(())
    }

    fn is_there(&self) -> Result<bool> {
        is_there(Path::new(&self.path())).with_context(|| self.path())
    }

    /// True if the interface is in the host's namespace.
    fn is_outside(&self) -> Result<bool> {
        is_on_host(&self.outside).with_context(|| self.path())
    }

    /// True if there is an interface of this name in it.
    fn has(&self, interface: &str) -> Result<bool> {
        Ok(self.is_there()? && self.look_for(interface).with_context(|| self.path())?)
    }

    fn look_for(&self, interface: &str) -> io::Result<bool> {
        let namespace = File::open(self.path())?;
        // Only this thread enters the namespace, and it ends after the look.
        let look = || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), network)?;
            is_on_host(interface)
        };
        let looking = thread::Builder::new();
        thread::scope(|scope| {
            let looked = looking.spawn_scoped(scope, look)?.join();
            looked.unwrap_or_else(|_| Err(io::Error::other("the thread that looks has panicked")))
        })
    }

    /// Runs lines of `ip` in it.
    fn ip(&self, execution: &Execution<'_>, lines: &str) -> Result<()> {
        ip(execution, &["-netns", &self.name, "-batch", "-"], lines)
    }
}

/// True if there is a namespace at this path.
///
/// # Errors
///
/// An I/O error: it is unknown.
pub(crate) fn is_there(path: &Path) -> io::Result<bool> {
    match is_namespace(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        looked => looked,
    }
}

/// True if the namespace of this thread, which is the host's, has an interface of this name.
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
        assert_eq!(Namespace::of(id).outside(), "cniff6675142878");
        assert_eq!(Namespace::of("e1").outside(), "cnie1");
    }
}
