//! Folders of a node in which a change concerns an installation.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Node;
use crate::arguments::Arguments;
use crate::owner::OWNER;
use crate::release::TOOL;
use crate::runtime_view::EXTENSIONS;
use crate::watch::{Names, Part, Watched};
use crate::work_folder::NAME;

impl Node {
    /// The folders to watch.
    ///
    /// # Errors
    ///
    /// A path without a parent.
    pub(crate) fn watched(&self) -> Result<Vec<Watched>> {
        let Arguments {
            plugins,
            sbin,
            conflists,
            conflists_from,
            ..
        } = &self.arguments;
        let names = self.release.names().into_iter().map(str::to_owned);
        let mut watched = vec![
            those(plugins, Part::Plugins, names.collect()),
            one(&plugins.join(NAME), Part::Plugins, OWNER),
        ];
        if let Some(sbin) = sbin {
            watched.push(one(sbin, Part::Tool, TOOL));
        }
        for (from, pools) in self.arguments.catalogues()? {
            let parent = pools.parent().context("--pools has no parent")?;
            let name = pools.file_name().context("--pools has no name")?;
            watched.push(one(parent, Part::Pools, &name.to_string_lossy()));
            watched.push(all(from, Part::Pools));
            if pools.is_dir() {
                watched.push(all(pools, Part::Pools));
            }
        }
        if let Some(from) = conflists_from {
            watched.push(all(from, Part::Conflists));
            watched.push(Watched {
                folder: conflists.clone(),
                names: Names::With(&EXTENSIONS),
                part: Part::Conflists,
            });
            // A ConfigMap that can't be read is a problem, and looked at again.
            let types = self.plugin_types().unwrap_or_default();
            watched.push(those(plugins, Part::Conflists, types));
        }
        for it in &watched {
            ensure!(
                it.folder.is_absolute(),
                "{} is no absolute path",
                it.folder.display()
            );
        }
        Ok(watched)
    }
}

fn all(folder: &Path, part: Part) -> Watched {
    Watched {
        folder: folder.to_owned(),
        names: Names::All,
        part,
    }
}

fn those(folder: &Path, part: Part, names: BTreeSet<String>) -> Watched {
    Watched {
        folder: folder.to_owned(),
        names: Names::These(names),
        part,
    }
}

fn one(folder: &Path, part: Part, name: &str) -> Watched {
    those(folder, part, BTreeSet::from([name.to_owned()]))
}
