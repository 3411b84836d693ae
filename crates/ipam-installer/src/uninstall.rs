//! Removes an installation from a node: conflists first, so that no container starts, plugins last. Foreign
//! files, reservations and records stay.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use state_files::names_in;

use crate::node::Node;
use crate::path_context::PathContext;
use crate::staged::{aside_folder, create_all, remove, remove_installed};
use crate::wanted::{installed_conflists, metadata};

impl Node {
    /// Removes what was installed, and logs what stays and why.
    ///
    /// # Errors
    ///
    /// A container has started meanwhile; an I/O error.
    pub(crate) fn uninstall(&self) -> Result<()> {
        let arguments = &self.arguments;
        self.remove_conflists()?;
        for pools in &arguments.pools {
            if metadata(pools)?.is_some_and(|found| found.is_dir()) {
                for name in names_in(pools).at(pools)? {
                    remove_installed(&pools.join(name))?;
                }
                let removed = fs::remove_dir(pools);
                removed.unwrap_or_else(|why| eprintln!("{} stays: {why}", pools.display()));
            }
        }
        if let Some(path) = &arguments.kubeconfig {
            remove_installed(path)?;
        }
        let executables = self.image.executables.iter();
        let executables: Vec<&PathBuf> = executables.flat_map(|wanted| &wanted.paths).collect();
        for path in &executables {
            remove_installed(path)?;
        }
        for name in names_in(&arguments.plugins).at(&arguments.plugins)? {
            let path = arguments.plugins.join(&name);
            if name.starts_with("ipam-") && !executables.contains(&&path) {
                eprintln!("{} stays: this image does not have it", path.display());
            }
        }
        let [data, state] = [&arguments.data_dir, &arguments.state_dir].map(|path| path.display());
        eprintln!("reservations in {data} and records in {state} stay, if there are any");
        Ok(())
    }

    /// Removes the installed conflists. From then on, no container starts with them. If one has started
    /// since the first look at the reservations, the node gets them back.
    fn remove_conflists(&self) -> Result<()> {
        let folder = &self.arguments.conflists;
        let (aside, all) = (aside_folder(folder), installed_conflists(folder)?);
        for path in &all {
            create_all(&aside).at(&aside)?;
            let name = path.file_name().unwrap_or_default();
            fs::rename(path, aside.join(name)).at(path)?;
        }
        self.refuse_if_in_use(&[folder, &aside])?;
        remove(&aside)?;
        all.iter()
            .for_each(|path| eprintln!("removed {}", path.display()));
        Ok(())
    }
}
