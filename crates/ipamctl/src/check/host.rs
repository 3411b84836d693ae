//! The machine, as far as conflists depend on it: plugins, routes, folders, runtimes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use chain::{Failure, SearchPath};
use cni::{DelegateName, Environment, SpecVersion};
use ipam::IpNet;
use rustix::fs::{Access, access, statfs};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Types of file systems that a reboot empties: tmpfs and ramfs (statfs(2)).
const VOLATILE: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// A route of the host, to a subnet through an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: IpNet,
    pub(crate) interface: String,
}

/// An installed plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    Missing(String),
    /// It is there, and was not asked.
    Present,
    /// The versions that it supports.
    Versions(Vec<String>),
    /// It can't say its versions.
    Failing(String),
}

/// A folder, by itself or by its nearest parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folder {
    /// The reason why nothing can be written there.
    pub(crate) unwritable: Option<String>,
    /// True if this user may not write there, and root may.
    pub(crate) is_roots: bool,
    /// True if a reboot empties it.
    pub(crate) volatile: bool,
}

/// Looks for a plugin, and asks it for its versions.
type AskPlugin<'a> = Box<dyn Fn(&str, SpecVersion) -> Plugin + 'a>;

/// A machine.
pub(crate) struct Host<'a> {
    pub(crate) routes: Vec<Route>,
    pub(crate) has_podman: bool,
    pub(crate) has_docker: bool,
    pub(crate) plugin: AskPlugin<'a>,
    pub(crate) folder: Box<dyn Fn(&Path) -> Folder + 'a>,
}

impl<'a> Host<'a> {
    /// This machine. `executes` is true if plugins may be asked for their versions.
    pub(crate) fn this(environment: &'a Environment, executes: bool) -> Self {
        let proc = environment
            .get("IPAM_DELEGATED_PROC")
            .unwrap_or("/proc".as_ref());
        let net = Path::new(proc).join("net");
        let read = |name: &str| fs::read_to_string(net.join(name)).unwrap_or_default();
        let mut routes = ipv4_routes(&read("route"));
        routes.extend(ipv6_routes(&read("ipv6_route")));
        let has = |program: &str| {
            let folders = std::env::split_paths(environment.get("PATH").unwrap_or_default());
            let folders = folders.chain([PathBuf::from("/usr/bin")]);
            folders
                .into_iter()
                .any(|folder| folder.join(program).exists())
        };
        // Each plugin is asked once, however many networks have it.
        let asked = RefCell::new(HashMap::new());
        let ask = move |name: &str, version: SpecVersion| {
            let key = (name.to_owned(), version.as_str());
            if let Some(known) = asked.borrow().get(&key) {
                return Plugin::clone(known);
            }
            let answer = plugin(name, version, environment, executes);
            asked.borrow_mut().insert(key, answer.clone());
            answer
        };
        Self {
            routes,
            has_podman: has("podman"),
            has_docker: has("dockerd"),
            plugin: Box::new(ask),
            folder: Box::new(folder),
        }
    }
}

fn plugin(name: &str, version: SpecVersion, environment: &Environment, executes: bool) -> Plugin {
    let name: DelegateName = match name.parse() {
        Ok(name) => name,
        Err(error) => return Plugin::Missing(format!("{name:?}: {error}")),
    };
    let found = SearchPath::from_environment(environment).map(|path| path.find(&name));
    match found {
        Err(error) => Plugin::Missing(error.msg),
        Ok(Err(failure @ Failure::NotFound { .. })) => Plugin::Missing(failure.to_error().msg),
        Ok(_) if !executes => Plugin::Present,
        Ok(_) => match chain::tools::versions(&name, version, environment) {
            Ok(versions) => Plugin::Versions(versions),
            Err(reason) => Plugin::Failing(format!("{name}: {reason}")),
        },
    }
}

fn folder(path: &Path) -> Folder {
    let Some(existing) = path.ancestors().find(|it| it.exists()) else {
        return Folder::default();
    };
    let mut is_roots = false;
    let unwritable = match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !existing.is_dir() => Some(format!("{} is no folder", existing.display())),
        Ok(()) => None,
        Err(Errno::ACCESS) if !geteuid().is_root() => {
            is_roots = true;
            None
        }
        Err(error) => Some(format!("{}: {error}", existing.display())),
    };
    #[expect(
        clippy::unnecessary_cast,
        reason = "the type is not the same everywhere"
    )]
    let volatile = statfs(existing).is_ok_and(|it| VOLATILE.contains(&(it.f_type as i64)));
    Folder {
        unwritable,
        is_roots,
        volatile,
    }
}

/// The routes in `/proc/net/route` that lead to a subnet: neither the default route nor
/// one to a single address.
fn ipv4_routes(text: &str) -> Vec<Route> {
    let route = |line: &str| {
        let mut fields = line.split_whitespace();
        let interface = fields.next()?.to_owned();
        let number = |field: Option<&str>| u32::from_str_radix(field?, 16).ok();
        let to = number(fields.next())?.swap_bytes();
        let mask = number(fields.nth(5))?.swap_bytes();
        let prefix = u8::try_from(mask.leading_ones()).ok()?;
        let to = IpNet::new(Ipv4Addr::from_bits(to).into(), prefix).ok()?;
        (1..32).contains(&prefix).then_some(Route { to, interface })
    };
    text.lines().skip(1).filter_map(route).collect()
}

/// The routes in `/proc/net/ipv6_route` that lead to a subnet, without link-local and
/// multicast ones.
fn ipv6_routes(text: &str) -> Vec<Route> {
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let to = Ipv6Addr::from_bits(u128::from_str_radix(fields.first()?, 16).ok()?);
        let prefix = u8::from_str_radix(fields.get(1)?, 16).ok()?;
        let interface = (*fields.get(9)?).to_owned();
        let is_ordinary = !to.is_unicast_link_local() && !to.is_multicast() && !to.is_loopback();
        let to = IpNet::new(to.into(), prefix).ok()?;
        ((1..128).contains(&prefix) && is_ordinary).then_some(Route { to, interface })
    };
    text.lines().filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_to_subnets_are_read_from_the_kernels_tables() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t0000110A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
            veth1\t0202110A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n";
        let texts = |routes: &[Route]| -> Vec<String> {
            let routes = routes.iter();
            routes
                .map(|it| format!("{} {}", it.to, it.interface))
                .collect()
        };
        assert_eq!(texts(&ipv4_routes(v4)), ["10.17.0.0/16 eth0"]);
        let v6 = "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n\
            fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n\
            ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n";
        assert_eq!(texts(&ipv6_routes(v6)), ["fd00::/64 eth0"]);
    }

    #[test]
    fn a_folder_is_judged_by_its_nearest_parent() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(folder(&root.path().join("a/b")).unwritable, None);
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        let below = folder(&file.join("x"));
        assert!(below.unwritable.unwrap().contains("is no folder"));
    }
}
