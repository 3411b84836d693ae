//! Installs all parts on a node, and repairs them later.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ipnet::IpNet;
use semver::Version;

use crate::arguments::Arguments;
use crate::config_map::{Files, files_for};
use crate::executables::Placed;
use crate::folder::Folder;
use crate::image::Image;
use crate::manifest::{self, MANIFEST, Owner};
use crate::status::Status;
use crate::{api_server, catalogue, conflists, kubeconfig, placeholders, runtime_view, verify};

/// A node, and what is installed on it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) arguments: Arguments,
    pub(crate) image: Image,
    version: Version,
    pub(crate) owner: Owner,
    arrived: conflists::Arrived,
    /// Subnets of the node's pods, or the text of the error. Kubernetes never changes
    /// `spec.podCIDRs` of a Node, so they are read once.
    subnets: OnceCell<Result<Vec<IpNet>, String>>,
}

impl Node {
    /// The node of these arguments. Installs nothing yet.
    ///
    /// # Errors
    ///
    /// The image is incomplete, or for another architecture.
    pub(crate) fn new(arguments: Arguments) -> Result<Self> {
        let image = Image::new(&arguments)?;
        Ok(Self {
            version: image.number()?,
            owner: Owner::this(&image.version)?,
            arrived: conflists::Arrived::new(),
            subnets: OnceCell::new(),
            arguments,
            image,
        })
    }

    /// Installs the plugins and `ipamctl`, and replaces any version. With `stays`, this process
    /// becomes the one that keeps the plugins.
    ///
    /// # Errors
    ///
    /// A foreign file of the same name; an I/O error.
    pub(crate) fn install(&mut self, stays: bool) -> Result<()> {
        let folder = Folder::open(&self.arguments.plugins)?;
        let changed = put_all(&mut self.image.plugins, &folder, None)?;
        say("installed", folder.path(), &changed);
        if stays {
            self.take(&folder)?;
        }
        put_tool(self.image.tool.as_mut(), &self.arguments, None)
    }

    /// Checks all parts in the order of their dependencies, and repairs those that have changed.
    pub(crate) fn look(&mut self) -> Status {
        // After an error, each look asks the API server once, and not each part.
        if self.subnets.get().is_some_and(Result::is_err) {
            self.subnets = OnceCell::new();
        }
        let up_to = Some(&self.version);
        let tool = put_tool(self.image.tool.as_mut(), &self.arguments, up_to);
        let parts = [
            ("plugins", self.put_plugins_right()),
            ("ipamctl", tool),
            ("kubeconfig", kubeconfig::put(&self.arguments)),
            ("pools", self.put_pools()),
            ("conflists", self.put_conflists()),
            ("network", self.check_network()),
        ];
        let problems = parts.into_iter().filter_map(|(part, result)| {
            let error = result.err()?;
            Some((part.to_owned(), format!("{error:#}")))
        });
        Status {
            version: self.image.version.clone(),
            problems: problems.collect::<BTreeMap<_, _>>(),
        }
    }

    fn put_plugins_right(&mut self) -> Result<()> {
        let path = &self.arguments.plugins;
        if self.owner.has(path)? && are_in_place(&self.image.plugins)? {
            return Ok(());
        }
        let folder = Folder::open(path)?;
        if let Some(other) = manifest::read::<Owner>(path)?
            && other != self.owner
        {
            let path = path.display();
            let version = other.version;
            bail!("version {version} of another installer has taken over {path}");
        }
        let up_to = Some(&self.version);
        let changed = put_all(&mut self.image.plugins, &folder, up_to)?;
        say("repaired", folder.path(), &changed);
        self.take(&folder)
    }

    /// Makes this process the one that keeps the plugins.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn take(&self, folder: &Folder) -> Result<()> {
        let path = folder.path();
        manifest::write(folder, &self.owner).with_context(|| path.display().to_string())
    }

    /// Installs all catalogues.
    ///
    /// # Errors
    ///
    /// A catalogue is invalid, or its folder has a foreign file; an I/O error.
    pub(crate) fn put_pools(&self) -> Result<()> {
        let catalogues = self.arguments.catalogues()?.into_iter();
        let mut catalogues = catalogues;
        catalogues.try_for_each(|(from, pools)| self.put_catalogue(from, pools))
    }

    fn put_catalogue(&self, from: &Path, pools: &Path) -> Result<()> {
        let files = self.files(from, &["json"])?;
        if files.is_empty() {
            ensure!(
                !catalogue::is_installed(pools)?,
                "{} is empty; the catalogue in {} stays as it was",
                from.display(),
                pools.display()
            );
            return Ok(());
        }
        let parent = pools.parent().context("--pools has no parent")?;
        if catalogue::is_in_place(pools, &files)? {
            // A killed installation may have left the old catalogue.
            return Folder::clean(parent);
        }
        let folder = Folder::open(parent)?;
        let staged = catalogue::Staged::write(&folder, pools, &files)?;
        // The new catalogue is checked with the conflists that will use it.
        let all = self.future_conflists()?;
        let readers = verify::readers(&all, pools);
        if readers.is_empty() {
            verify::check_catalogue(pools, &staged.path())?;
        }
        let moved = Some((pools, &*staged.path()));
        verify::check(self, &folder, &all, &readers, moved)?;
        staged.put()?;
        say("installed", pools, &files.into_keys().collect::<Vec<_>>());
        Ok(())
    }

    /// Installs the conflists.
    ///
    /// # Errors
    ///
    /// A conflist is invalid, or a foreign file has its name; an I/O error.
    pub(crate) fn put_conflists(&mut self) -> Result<()> {
        let files = self.conflists()?;
        let path = &self.arguments.conflists;
        if files.is_empty() {
            ensure!(
                !exists(&path.join(MANIFEST))?,
                "no conflist is wanted any more; those in {} stay as they were",
                path.display()
            );
            return Ok(());
        }
        let changes = conflists::changes(path, &files, &self.arrived)?;
        if changes.is_empty() {
            return Folder::clean(path);
        }
        let folder = Folder::open(path)?;
        let all = self.future_conflists()?;
        verify::check(self, &folder, &all, &files, None)?;
        conflists::put(&folder, &files, &changes, &mut self.arrived)?;
        say("installed", path, &changes.written);
        say("removed", path, &changes.removed);
        Ok(())
    }

    /// Checks that a runtime would use the network of the ConfigMap, if there is one.
    fn check_network(&self) -> Result<()> {
        let Arguments {
            conflists, plugins, ..
        } = &self.arguments;
        let wanted = self.conflists()?;
        if wanted.is_empty() {
            return Ok(());
        }
        runtime_view::check(conflists, plugins, &wanted.keys().collect::<Vec<_>>())
    }

    /// The conflists of the ConfigMap; empty if there is none.
    fn conflists(&self) -> Result<Files> {
        let from = self.arguments.conflists_from.as_deref();
        let files = from.map(|from| self.files(from, &conflist::EXTENSIONS));
        Ok(files.transpose()?.unwrap_or_default())
    }

    /// This node's files of a ConfigMap, in which its subnets replace the placeholders.
    fn files(&self, from: &Path, extensions: &[&str]) -> Result<Files> {
        let files = files_for(from, self.arguments.node.as_deref(), extensions)?;
        placeholders::replace(files, || self.subnets())
            .with_context(|| format!("{}: nothing of it is installed", from.display()))
    }

    fn subnets(&self) -> Result<Vec<IpNet>> {
        let Arguments {
            node,
            service_account,
            ..
        } = &self.arguments;
        let read = || {
            let node = node.as_deref();
            let node = node.context("--node doesn't say which node this is")?;
            api_server::pod_cidrs(service_account, node)
        };
        let answer = self.subnets.get_or_init(|| {
            let read: Result<_> = read();
            read.map_err(|error| format!("{error:#}"))
        });
        answer.clone().map_err(anyhow::Error::msg)
    }

    /// The conflists that the node will have: those of the ConfigMap, and the existing other ones.
    fn future_conflists(&self) -> Result<Files> {
        let path = &self.arguments.conflists;
        let mut all = verify::in_folder(path)?;
        let wanted = self.conflists()?;
        if !wanted.is_empty() {
            for name in manifest::installed_files(path)? {
                all.remove(&name);
            }
        }
        all.extend(wanted);
        Ok(all)
    }

    /// Gives up the plugins, so that another installer can keep them.
    pub(crate) fn leave(&self) {
        if let Err(error) = self.owner.leave(&self.arguments.plugins) {
            eprintln!("the plugins are not left to another installer: {error:#}");
        }
    }
}

fn are_in_place(all: &[Placed]) -> Result<bool> {
    for placed in all {
        if !placed.is_in_place()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Installs all plugins; returns the replaced names.
fn put_all(all: &mut [Placed], folder: &Folder, up_to: Option<&Version>) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    for placed in all {
        changed.extend(placed.put(folder, up_to)?);
    }
    Ok(changed)
}

fn put_tool(
    tool: Option<&mut Placed>,
    arguments: &Arguments,
    up_to: Option<&Version>,
) -> Result<()> {
    if let (Some(tool), Some(path)) = (tool, &arguments.sbin)
        && !tool.is_in_place()?
    {
        let changed = tool.put(&Folder::open(path)?, up_to)?;
        say("installed", path, &changed);
    }
    Ok(())
}

/// True if a path exists.
///
/// # Errors
///
/// An I/O error: it is unknown whether the path exists.
pub(crate) fn exists(path: &Path) -> Result<bool> {
    path.try_exists()
        .with_context(|| path.display().to_string())
}

/// Logs an action on these files of a folder.
pub(crate) fn say(done: &str, folder: &Path, names: &[String]) {
    if !names.is_empty() {
        eprintln!("{done} in {}: {}", folder.display(), names.join(", "));
    }
}
