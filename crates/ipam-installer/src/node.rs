//! A node: what should be there, what is there, and one step from one to the other.
//!
//! A look reads what is wanted (`image`, `config`), compares it with the node (`wanted`), writes what differs
//! beside its place (`staged`), lets `ipamctl` check catalogues and conflists (`check`), and only then
//! renames all of it into place. If a ConfigMap can't be read, or `ipamctl` refuses what is in it, catalogues
//! and conflists stay as they were; executables and kubeconfig are installed. `uninstall` is the way back.
//! One installer works on a node at a time, by a lock on the folder of the plugins.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use ipnet::IpNet;
use state_files::{FileId, lock_file};

use crate::arguments::Arguments;
use crate::config::Config;
use crate::image::Image;
use crate::path_context::PathContext;
use crate::staged::{create_all, remove_installed, remove_staged, restore_conflists};
use crate::wanted::{KnownStates, Wanted};

/// A node, and what this process knows of it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) arguments: Arguments,
    pub(crate) image: Image,
    /// The locked folder. The kernel unlocks it when the process ends.
    lock: Option<File>,
    known: KnownStates,
    /// Subnets of the node's pods. Kubernetes never changes them, so they are read once.
    subnets: Vec<IpNet>,
}

impl Node {
    /// The node of these arguments. Installs nothing yet.
    ///
    /// # Errors
    ///
    /// The image is incomplete, or for another architecture.
    pub(crate) fn new(arguments: Arguments) -> Result<Self> {
        Ok(Self {
            image: Image::new(&arguments)?,
            lock: None,
            known: KnownStates::new(),
            subnets: Vec::new(),
            arguments,
        })
    }

    /// Becomes the installer of this node, after a wait of at most this time, by a lock on the
    /// folder of the plugins; and tidies up after a killed one. A folder that replaces the locked
    /// one, or is mounted over it, is locked again.
    ///
    /// # Errors
    ///
    /// Another installer works on this node; an I/O error.
    pub(crate) fn lock(&mut self, at_most: Duration) -> Result<()> {
        let plugins = &self.arguments.plugins;
        create_all(plugins).at(plugins)?;
        let folder = File::open(plugins).at(plugins)?;
        let id = |folder: &File| Ok::<_, io::Error>(FileId::from(&folder.metadata()?));
        if let Some(locked) = &self.lock
            && id(locked)? == id(&folder)?
        {
            return Ok(());
        }
        self.lock = None;
        let is_locked = lock_file(&folder, plugins, Some(at_most), None).at(plugins)?;
        let busy = "another installer works on this node; this one waits, and changes nothing";
        ensure!(is_locked, "{}: {busy}", plugins.display());
        self.lock = Some(folder);
        self.tidy()
    }

    /// Removes what was staged, and brings back what was put aside.
    fn tidy(&self) -> Result<()> {
        let arguments = &self.arguments;
        restore_conflists(&arguments.conflists)?;
        let files = arguments.pools.iter().chain(&arguments.kubeconfig);
        let folders = [&arguments.plugins, &arguments.conflists].into_iter();
        let folders = folders.chain(&arguments.sbin).map(PathBuf::as_path);
        let mut folders = folders.chain(files.filter_map(|path| path.parent()));
        folders.try_for_each(remove_staged)
    }

    /// Puts everything right; or removes everything, once nothing is in use.
    ///
    /// # Errors
    ///
    /// As [`Self::put_right`] and [`Self::uninstall`].
    pub(crate) fn look(&mut self) -> Result<()> {
        let looked = if self.arguments.uninstall {
            self.uninstall_if_unused()
        } else {
            self.put_right()
        };
        let tidied = self.tidy();
        looked.and(tidied)
    }

    fn uninstall_if_unused(&mut self) -> Result<()> {
        let conflists = &self.arguments.conflists;
        let Err(in_use) = self.refuse_if_in_use(&[conflists]) else {
            return self.uninstall();
        };
        if self.arguments.wait {
            // The DELs of running pods need the plugins and the token.
            let put_right = self.put_right();
            put_right.map_err(|why| anyhow!("{why:#}; {in_use:#}"))?;
        }
        Err(in_use)
    }

    /// Puts everything right.
    ///
    /// # Errors
    ///
    /// A foreign file, or an I/O error: nothing is changed before all new files are written. A
    /// ConfigMap or the service account lacks something: the rest is put right. The runtime would not
    /// use the installed conflist.
    fn put_right(&mut self) -> Result<()> {
        let mut config = Config::default();
        let read = config.read(&self.arguments, &mut self.subnets);
        let wanted = self.image.executables.iter().chain(&config.wanted);
        let mut different = different(wanted, &mut self.known)?;
        // The check reads staged catalogues, and copies of the conflists.
        stage(&different, |wanted| !wanted.is_conflist())?;
        let is_changed = different.iter().any(|wanted| wanted.is_of_config_map());
        let checked = if is_changed || !config.obsolete.is_empty() {
            self.check_new(&config.conflists, &different)
        } else {
            Ok(())
        };
        if checked.is_err() {
            different.retain(|wanted| !wanted.is_of_config_map());
            config.obsolete.clear();
        }
        stage(&different, Wanted::is_conflist)?;
        for wanted in different {
            wanted.install(&mut self.known)?;
        }
        for path in &config.obsolete {
            remove_installed(path)?;
        }
        joined_errors([
            read.context("config"),
            checked.context("config: what is in use stays as it was"),
        ])?;
        let stays = !self.arguments.once && !self.arguments.uninstall;
        match config.conflists.keys().next() {
            Some(first) if stays => self.check_default(first).context("network"),
            _ => Ok(()),
        }
    }
}

/// What the node doesn't have as it should be.
fn different<'a>(
    wanted: impl Iterator<Item = &'a Wanted>,
    known: &mut KnownStates,
) -> Result<Vec<&'a Wanted>> {
    let mut different = Vec::new();
    for wanted in wanted {
        if !wanted.is_right(known)? {
            different.push(wanted);
        }
    }
    Ok(different)
}

/// Writes the new files of these beside their places.
fn stage(all: &[&Wanted], which: impl Fn(&Wanted) -> bool) -> Result<()> {
    let mut chosen = all.iter().filter(|wanted| which(wanted));
    chosen.try_for_each(|wanted| wanted.stage())
}

/// One error of all that are there.
fn joined_errors(results: [Result<()>; 2]) -> Result<()> {
    let problems = results.into_iter().filter_map(Result::err);
    let problems: Vec<String> = problems.map(|error| format!("{error:#}")).collect();
    ensure!(problems.is_empty(), problems.join("; "));
    Ok(())
}
