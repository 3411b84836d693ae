//! The list of the project's own plugins, for tests, builds, installations and releases.

/// The plugin that a CNI main plugin calls.
pub const ORCHESTRATOR: &str = "ipam-delegated";

/// The allocator that keeps `host-local`'s files.
pub const ALLOCATOR: &str = "ipam-da-host-local";

/// All plugins. Each is a crate of this name, and an executable.
pub const PLUGINS: [&str; 6] = [
    ORCHESTRATOR,
    "ipam-ds-ranges",
    "ipam-ds-rules",
    "ipam-ds-static",
    ALLOCATOR,
    "ipam-gc",
];

/// The plugins with a network client. Each is a crate and a separate executable of this name:
/// [`MULTI_CALL`] contains no network client.
pub const NETWORK_PLUGINS: [&str; 2] = ["ipam-da-etcd", "ipam-da-kubernetes"];

/// The crate and the executable that contains all of [`PLUGINS`].
pub const MULTI_CALL: &str = "ipam-plugins";

/// The administrator's command, a crate and an executable of this name. It isn't a plugin, and is
/// installed in another folder.
pub const TOOL: &str = "ipamctl";

/// The entry point of the image, a crate and an executable of this name. Only the image contains
/// it.
pub const INSTALLER: &str = "ipam-installer";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::repository;

    #[test]
    fn the_list_names_every_plugin_that_the_multi_call_executable_links() {
        let crates = repository().join("crates/plugins");
        let manifest = fs::read_to_string(crates.join(MULTI_CALL).join("Cargo.toml")).unwrap();
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
