//! The executables that the project delivers: their packages, files and names.
//!
//! `cargo xtask install` and `dist` install what is listed here, and the tests run it. A plugin that
//! is added to [`PLUGINS`] or to an [`Executable`] is built, installed, archived and tested. [`cargo()`]
//! builds in the repository.

mod cargo;

pub use cargo::{
    BUILD_ENV, COMPILER_WRAPPER, TARGET, cargo, cargo_by_hand, debug_dir, repository, target_dir,
};

/// The plugin that a CNI main plugin calls.
pub const IPAM_DELEGATED: &str = "ipam-delegated";

/// The allocator that keeps `host-local`'s files.
pub const ALLOCATOR: &str = "ipam-da-host-local";

/// The plugins without a network client. Each is a crate of this name, and a name of [`MULTI_CALL`].
pub const PLUGINS: [&str; 7] = [
    IPAM_DELEGATED,
    "ipam-ds-ranges",
    "ipam-ds-rules",
    "ipam-ds-static",
    ALLOCATOR,
    "ipam-dc-probe",
    "ipam-gc",
];

/// A file with plugins. `argv[0]` selects one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executable {
    /// The package of the workspace that contains it.
    pub package: &'static str,
    /// Its name as cargo builds it.
    pub file: &'static str,
    /// The plugins that it is installed as.
    pub plugins: &'static [&'static str],
}

/// The executable with all of [`PLUGINS`].
pub const MULTI_CALL: Executable = Executable {
    package: "ipam-plugins",
    file: "ipam-plugins",
    plugins: &PLUGINS,
};

/// The executables with a network client: one for each engine of a cluster's pools, and the client
/// of DHCP.
pub const NETWORK_EXECUTABLES: [Executable; 3] = [
    Executable {
        package: "etcd",
        file: "ipam-da-etcd",
        plugins: &["ipam-da-etcd"],
    },
    Executable {
        package: "kubernetes",
        file: "ipam-da-kubernetes",
        plugins: &["ipam-da-kubernetes", "ipam-df-kubernetes"],
    },
    Executable {
        package: "ipam-da-dhcp",
        file: "ipam-da-dhcp",
        plugins: &["ipam-da-dhcp"],
    },
];

/// The names of the plugins with a network client.
pub fn network_plugins() -> impl Iterator<Item = &'static str> {
    let executables = NETWORK_EXECUTABLES.into_iter();
    executables.flat_map(|executable| executable.plugins.iter().copied())
}

/// The administrator's command, a crate and an executable of this name. It isn't a plugin, and is
/// installed in another folder.
pub const IPAMCTL: &str = "ipamctl";

/// The daemon for Docker, a crate and an executable of this name.
pub const DOCKER_DAEMON: &str = "docker-ipam-delegated";

/// The daemon that renews leases of DHCP, a crate and an executable of this name.
pub const DHCP_RENEWER: &str = "ipam-dhcp-renew";

/// The entry point of the image, a crate and an executable of this name. Only the image contains
/// it.
pub const INSTALLER: &str = "ipam-installer";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn the_list_names_every_plugin_that_the_multi_call_executable_links() {
        let crates = repository().join("crates/plugins");
        let manifest = crates.join(MULTI_CALL.package).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
        let linked: BTreeSet<&str> = dependencies
            .lines()
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            // A crate without `main.rs` isn't a plugin.
            .filter(|name| crates.join(name).join("src/main.rs").exists())
            .collect();
        assert_eq!(linked, BTreeSet::from(PLUGINS));
    }
}
