//! The parts of an installation on a node: each is put into place, or put right.

mod removal;
mod watched;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use conflist::Conflist;
use semver::Version;

use crate::arguments::Arguments;
use crate::contents::FileState;
use crate::folder::{Folder, Foreign};
use crate::node_subnets::NodeSubnets;
use crate::owner::Owner;
use crate::release::{Release, TOOL};
use crate::source::{Files, files_for};
use crate::watch::Part;
use crate::work_folder::NAME;
use crate::{catalogue, conflists, placeholders, runtime_view, verify};

/// A node with its folders, and what was installed into them.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) arguments: Arguments,
    pub(crate) release: Release,
    owner: Owner,
    version: Version,
    /// States of the executables of the plugins, in order; none before they were put.
    plugins: Vec<FileState>,
    tool: Option<FileState>,
    conflists: conflists::Arrived,
    subnets: NodeSubnets,
}

impl Node {
    /// The node of these arguments.
    ///
    /// # Errors
    ///
    /// The image is not complete, or not for this machine.
    pub(crate) fn new(arguments: Arguments) -> Result<Self> {
        let release = Release::in_folder(&arguments.from)?;
        Ok(Self {
            owner: Owner::this(&release.version)?,
            version: release.number()?,
            subnets: NodeSubnets::new(&arguments),
            arguments,
            release,
            plugins: Vec::new(),
            tool: None,
            conflists: conflists::Arrived::new(),
        })
    }

    /// The parts that the arguments ask for, in the order in which they are put into place:
    /// a conflist comes last, when all that it needs is there.
    pub(crate) fn parts(&self) -> BTreeSet<Part> {
        let mut parts = BTreeSet::from([Part::Plugins]);
        parts.extend(self.arguments.sbin.is_some().then_some(Part::Tool));
        parts.extend((!self.arguments.pools_from.is_empty()).then_some(Part::Pools));
        parts.extend(
            self.arguments
                .conflists_from
                .is_some()
                .then_some(Part::Conflists),
        );
        parts
    }

    /// Puts the plugins and `ipamctl` into place, whatever version is there. With `stays`,
    /// it becomes the one that keeps them.
    ///
    /// # Errors
    ///
    /// As [`Folder::put`].
    pub(crate) fn install(&mut self, stays: bool) -> Result<()> {
        let folder = Folder::open(&self.arguments.plugins)?;
        let changed = self.put_plugins(&folder)?;
        let path = &self.arguments.plugins;
        say("installed", path, &changed);
        if stays {
            self.owner
                .take(&folder)
                .with_context(|| format!("{}", path.display()))?;
        }
        self.put_tool()
    }

    /// Puts all plugins into the folder; returns the names that were changed.
    fn put_plugins(&mut self, folder: &Folder) -> Result<Vec<String>> {
        let (mut states, mut changed) = (Vec::new(), Vec::new());
        for it in &self.release.plugins {
            let installed = folder.put(&it.names(), &it.content()?, Foreign::Refuse)?;
            states.push(installed.state);
            changed.extend(installed.changed);
        }
        self.plugins = states;
        Ok(changed)
    }

    /// True if each plugin in the folder is the executable that was put there.
    fn has_plugins(&self, folder: &std::fs::File) -> std::io::Result<bool> {
        for (it, state) in self.release.plugins.iter().zip(&self.plugins) {
            for name in it.names() {
                if FileState::of(folder, name)? != Some(*state) {
                    return Ok(false);
                }
            }
        }
        Ok(!self.plugins.is_empty())
    }

    /// Looks at a part, and puts it right.
    ///
    /// # Errors
    ///
    /// What it can't put right.
    pub(crate) fn put_right(&mut self, part: Part) -> Result<bool> {
        match part {
            Part::Plugins => self.put_plugins_right(),
            Part::Tool => self.put_tool().map(|()| false),
            Part::Pools => self.put_pools(),
            Part::Conflists => self.put_conflists(),
        }
    }

    fn put_plugins_right(&mut self) -> Result<bool> {
        let path = &self.arguments.plugins;
        if self.owner.has(path)? {
            let open = std::fs::File::open(path);
            let open = open.with_context(|| format!("{}", path.display()))?;
            if self.has_plugins(&open)? {
                return Ok(false);
            }
        }
        let folder = Folder::open(path)?;
        if let Some(other) = Owner::of(path)?.filter(|it| *it != self.owner) {
            bail!(
                "version {} of another installer has taken over {}",
                other.version,
                path.display()
            );
        }
        for it in &self.release.plugins {
            let newest = folder.newest(&it.names(), &it.content()?)?;
            if let Some(newer) = newest.filter(|it| *it > self.version) {
                bail!(
                    "{} has the newer version {newer}, which stays",
                    path.display()
                );
            }
        }
        let changed = self.put_plugins(&folder)?;
        let path = &self.arguments.plugins;
        say("repaired", path, &changed);
        self.owner
            .take(&folder)
            .with_context(|| format!("{}", path.display()))?;
        Ok(!changed.is_empty())
    }

    fn put_tool(&mut self) -> Result<()> {
        let Some(path) = &self.arguments.sbin else {
            return Ok(());
        };
        let now = std::fs::File::open(path).and_then(|it| FileState::of(&it, TOOL));
        let is_missing = now
            .as_ref()
            .is_err_and(|it| it.kind() == ErrorKind::NotFound);
        if self.tool.is_some()
            && !is_missing
            && now.with_context(|| format!("{}", path.display()))? == self.tool
        {
            return Ok(());
        }
        let folder = Folder::open(path)?;
        let content = self.release.tool()?;
        let newest = folder.newest(&[TOOL], &content)?;
        let is_newer = newest.is_some_and(|it| it > self.version);
        if self.tool.is_none() || !is_newer {
            let installed = folder.put(&[TOOL], &content, Foreign::Refuse)?;
            say("installed", path, &installed.changed);
            self.tool = Some(installed.state);
        }
        Ok(())
    }

    fn put_pools(&self) -> Result<bool> {
        let mut is_changed = false;
        for (from, pools) in self.arguments.catalogues()? {
            is_changed |= self.put_catalogue(from, pools)?;
        }
        Ok(is_changed)
    }

    fn put_catalogue(&self, from: &Path, pools: &Path) -> Result<bool> {
        let files = self.files(from, &["json"])?;
        if files.is_empty() {
            ensure!(
                !catalogue::is_installed(pools)?,
                "{} is empty; the catalogue in {} stays as it was",
                from.display(),
                pools.display()
            );
            return Ok(false);
        }
        let parent = pools.parent().context("--pools has no parent")?;
        if catalogue::is_in_place(pools, &files)? {
            if exists(&parent.join(NAME))? {
                // One that was killed may have left the old catalogue.
                Folder::open(parent)?;
            }
            return Ok(false);
        }
        let folder = Folder::open(parent)?;
        let staged = catalogue::Staged::write(&folder, pools, &files)?;
        let path = folder.work().path_of(catalogue::STAGED);
        // The catalogue and the conflists that read it, as they will be together.
        let all = self.future_conflists()?;
        let conflists = verify::readers(&all, pools);
        if conflists.is_empty() {
            verify::check_catalogue(pools, &path)?;
        }
        let tool = self.release.tool_path();
        let moved = Some((pools, path.as_path()));
        verify::check(&self.places(&tool, &folder), &all, &conflists, moved)?;
        staged.put()?;
        say("installed", pools, &files.into_keys().collect::<Vec<_>>());
        Ok(true)
    }

    fn put_conflists(&mut self) -> Result<bool> {
        let files = self.conflists()?;
        let path = &self.arguments.conflists;
        if files.is_empty() {
            ensure!(
                !exists(&path.join(NAME).join(conflists::LIST))?,
                "no conflist is wanted any more; those in {} stay as they were",
                path.display()
            );
            return Ok(false);
        }
        let folder = Folder::open(path)?;
        let changes = conflists::changes(&folder, path, &files, &self.conflists)?;
        if changes == conflists::Changes::default() {
            return Ok(false);
        }
        let tool = self.release.tool_path();
        let all = self.future_conflists()?;
        verify::check(&self.places(&tool, &folder), &all, &files, None)?;
        conflists::put(&folder, path, &files, &changes, &mut self.conflists)?;
        say("installed", path, &changes.written);
        say("removed", path, &changes.removed);
        Ok(true)
    }

    /// The conflists of the source; none if there is no source.
    fn conflists(&self) -> Result<Files> {
        let from = self.arguments.conflists_from.as_deref();
        let files = from.map(|it| self.files(it, &runtime_view::EXTENSIONS));
        Ok(files.transpose()?.unwrap_or_default())
    }

    /// The files of a source for this node, with its subnets in them.
    fn files(&self, from: &Path, extensions: &[&str]) -> Result<Files> {
        let files = files_for(from, self.arguments.node.as_deref(), extensions)?;
        placeholders::replace(files, || self.subnets.get())
            .with_context(|| format!("{}: nothing of it is installed", from.display()))
    }

    /// The plugins that the conflists of the source name.
    fn plugin_types(&self) -> Result<BTreeSet<String>> {
        let path = &self.arguments.conflists;
        let lists = self.conflists()?.into_iter();
        let lists = lists.filter_map(|(name, it)| Conflist::parse(&path.join(name), &it).ok());
        let plugins: Vec<_> = lists.flat_map(|it| it.plugins).collect();
        let ipam = plugins
            .iter()
            .filter_map(|it| it.ipam_type().map(str::to_owned));
        let types = plugins.iter().map(|it| it.kind.clone()).chain(ipam);
        Ok(types.collect())
    }

    /// Checks that a runtime would use the network of the source, if there is one.
    ///
    /// # Errors
    ///
    /// As [`runtime_view::check`].
    pub(crate) fn check_network(&self) -> Result<()> {
        let Arguments {
            conflists, plugins, ..
        } = &self.arguments;
        let wanted = self.conflists()?;
        if wanted.is_empty() {
            return Ok(());
        }
        runtime_view::check(conflists, plugins, &wanted.keys().collect::<Vec<_>>())
    }

    /// The conflists that the node will have: those of the source, and others that it has
    /// already.
    fn future_conflists(&self) -> Result<Files> {
        let path = &self.arguments.conflists;
        let mut all = verify::in_folder(path)?;
        let wanted = self.conflists()?;
        if !wanted.is_empty() {
            for name in conflists::listed(path)? {
                all.remove(&name);
            }
        }
        all.extend(wanted);
        Ok(all)
    }

    fn places<'a>(&'a self, tool: &'a Path, folder: &Folder) -> verify::Places<'a> {
        verify::Places {
            tool,
            plugins: &self.arguments.plugins,
            scratch: folder.work().path_of("check"),
        }
    }

    /// Leaves the plugins to another installer.
    pub(crate) fn leave(&self) {
        if let Err(error) = self.owner.leave(&self.arguments.plugins) {
            eprintln!("the plugins are not left to another installer: {error:#}");
        }
    }
}

/// True if there is something at a path.
///
/// # Errors
///
/// The system's: what can't be looked at isn't missing.
fn exists(path: &Path) -> Result<bool> {
    path.try_exists()
        .with_context(|| format!("{}", path.display()))
}

fn say(done: &str, folder: &Path, names: &[String]) {
    if !names.is_empty() {
        eprintln!("{done} in {}: {}", folder.display(), names.join(", "));
    }
}
