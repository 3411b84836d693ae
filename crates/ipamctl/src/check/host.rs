//! The parts of the machine that conflists depend on: plugins, routes, folders, runtimes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use chain::SearchPath;
use cni::{DelegateName, Environment, SpecVersion};
use ipam::Route;
use rustix::fs::{Access, access, statfs};
use rustix::process::geteuid;

/// Types of file systems that a reboot empties: tmpfs and ramfs (statfs(2)).
const VOLATILE: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// An installed plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    Missing(String),
    /// Installed; its versions are unknown.
    Present,
    /// The versions that it supports.
    Versions(Vec<String>),
    /// Installed; it doesn't answer VERSION.
    Failing(String),
}

/// A folder; if it doesn't exist, its nearest existing parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folder {
    /// The reason why nothing can be written there.
    pub(crate) unwritable: Option<String>,
    /// The reason why it is unknown whether it can be written.
    pub(crate) unknown: Option<String>,
    /// True if only root has the permission to write there.
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
    /// The environment of calls.
    pub(crate) environment: &'a Environment,
}

impl<'a> Host<'a> {
    /// This machine. `executes` is true if plugins may be asked for their versions.
    pub(crate) fn this(environment: &'a Environment, executes: bool) -> Self {
        let proc = environment
            .get("IPAM_DELEGATED_PROC")
            .unwrap_or("/proc".as_ref());
        let net = Path::new(proc).join("net");
        let read = |name: &str| fs::read_to_string(net.join(name)).unwrap_or_default();
        let routes = Route::of_tables(&read("route"), &read("ipv6_route"));
        let has = |program: &str| {
            let folders = std::env::split_paths(environment.get("PATH").unwrap_or_default());
            let mut folders = folders.chain([PathBuf::from("/usr/bin")]);
            folders.any(|folder| folder.join(program).exists())
        };
        // Each plugin is asked once, even if several networks have it.
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
            routes: to_subnets(routes),
            has_podman: has("podman"),
            has_docker: has("dockerd"),
            plugin: Box::new(ask),
            folder: Box::new(folder),
            environment,
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
        Ok(Err(failure)) => Plugin::Missing(failure.to_error().msg),
        Ok(_) if !executes => Plugin::Present,
        Ok(_) => match chain::versions(&name, version, environment) {
            Ok(versions) => Plugin::Versions(versions),
            Err(reason) => Plugin::Failing(format!("{name}: {reason}")),
        },
    }
}

fn folder(path: &Path) -> Folder {
    let mut folder = Folder::default();
    let missing = [ErrorKind::NotFound, ErrorKind::NotADirectory];
    let mut found = path.ancestors().map(|path| (path, fs::metadata(path)));
    let existing = found.find(|(_, metadata)| match metadata {
        Err(error) => !missing.contains(&error.kind()),
        Ok(_) => true,
    });
    let Some((existing, metadata)) = existing else {
        return folder;
    };
    let shown = existing.display();
    match metadata {
        Err(error) if is_refused_to_others(&error) => folder.is_roots = true,
        Err(error) => folder.unknown = Some(format!("{shown}: {error}")),
        Ok(metadata) if !metadata.is_dir() => {
            folder.unwritable = Some(format!("{shown} is not a folder"));
        }
        Ok(_) => match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => {}
            Err(error) if is_refused_to_others(&error.into()) => folder.is_roots = true,
            Err(error) => folder.unwritable = Some(format!("{shown}: {error}")),
        },
    }
    if folder.unknown.is_none() && folder.unwritable.is_none() {
        match statfs(existing) {
            #[expect(
                clippy::unnecessary_cast,
                reason = "the type is not the same everywhere"
            )]
            Ok(stat) => folder.volatile = VOLATILE.contains(&(stat.f_type as i64)),
            Err(_) if folder.is_roots => {}
            Err(error) => folder.unknown = Some(format!("file system of {shown}: {error}")),
        }
    }
    folder
}

/// True if this user has no permission and isn't root.
fn is_refused_to_others(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied && !geteuid().is_root()
}

/// The routes to subnets, without default routes and routes to a single address.
fn to_subnets(mut routes: Vec<Route>) -> Vec<Route> {
    routes.retain(|route| (1..route.to.max_prefix_len()).contains(&route.to.prefix_len()));
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_judged_by_its_nearest_parent() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(folder(&root.path().join("a/b")).unwritable, None);
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        let below = folder(&file.join("x"));
        assert!(below.unwritable.unwrap().contains("is not a folder"));
        // Whether the folder exists is unknown.
        let looped = root.path().join("loop");
        std::os::unix::fs::symlink(&looped, &looped).unwrap();
        let unknown = folder(&looped.join("x"));
        assert!(unknown.unknown.unwrap().contains("loop"));
    }
}
