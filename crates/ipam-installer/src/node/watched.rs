//! Folders of a node in which a change concerns an installation.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Node;
use crate::arguments::Arguments;
use crate::owner::OWNER;
use crate::release::TOOL;
use crate::watch::{Part, Watched};
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
        let all = |folder: &Path, part| Watched {
            folder: folder.to_owned(),
            names: None,
            part,
        };
        let named = |folder: &Path, part, names: BTreeSet<String>| Watched {
            folder: folder.to_owned(),
            names: Some(names),
            part,
        };
        let names = self.release.names().into_iter().map(str::to_owned);
        let names: BTreeSet<String> = names.collect();
        let mut watched = vec![
            named(plugins, Part::Plugins, names),
            named(
                &plugins.join(NAME),
                Part::Plugins,
                BTreeSet::from([OWNER.to_owned()]),
            ),
        ];
        if let Some(sbin) = sbin {
            watched.push(named(sbin, Part::Tool, BTreeSet::from([TOOL.to_owned()])));
        }
        for (from, pools) in self.arguments.catalogues()? {
            let parent = pools.parent().context("--pools has no parent")?;
            let name = pools.file_name().context("--pools has no name")?;
            let name = name.to_string_lossy().into_owned();
            watched.push(named(parent, Part::Pools, BTreeSet::from([name])));
            watched.push(all(from, Part::Pools));
            if pools.is_dir() {
                watched.push(all(pools, Part::Pools));
            }
        }
        if let Some(from) = conflists_from {
            watched.push(all(from, Part::Conflists));
            let names = self.conflists().unwrap_or_default();
            watched.push(named(
                conflists,
                Part::Conflists,
                names.into_keys().collect(),
            ));
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
