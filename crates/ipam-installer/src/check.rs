//! Asks `ipamctl`: are new catalogues and conflists valid, which conflist does the runtime take, and
//! is anything reserved?

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use conflist::Listing;
use tokio::process::Command;

use crate::image::FOLDERS;
use crate::node::Node;
use crate::path_context::PathContext;
use crate::staged::{create_all, remove};
use crate::time_limit::run;
use crate::wanted::{Files, Wanted};

/// Most lines of `ipamctl ls` in a message.
const MOST_LINES: usize = 20;

impl Node {
    /// Checks conflists, and the staged ones of these catalogues.
    ///
    /// # Errors
    ///
    /// The errors that were found; an I/O error.
    pub(crate) fn check_new(&self, conflists: &Files, different: &[&Wanted]) -> Result<()> {
        let folder = self.arguments.status_file.with_file_name("new-conflists");
        remove(&folder)?;
        create_all(&folder).at(&folder)?;
        for (name, text) in conflists {
            fs::write(folder.join(name), text).at(&folder)?;
        }
        let mut words = Vec::new();
        for wanted in different.iter().filter(|wanted| wanted.is_catalogue()) {
            let (path, staged) = (wanted.paths[0].display(), wanted.staged_path());
            words.push(format!("--pools-dir={path}={}", staged.display()));
        }
        self.check(&folder, &words)
    }

    /// Checks that a runtime takes this installed conflist, and could use it.
    ///
    /// # Errors
    ///
    /// The errors that were found.
    pub(crate) fn check_default(&self, name: &str) -> Result<()> {
        let folder = &self.arguments.conflists;
        let file = folder.join(name).to_string_lossy().into_owned();
        self.check(folder, &["--default".to_owned(), file])
    }

    /// Checks the conflists of a folder. No plugin is executed: the image may lack the C library of
    /// one.
    fn check(&self, folder: &PathBuf, words: &[String]) -> Result<()> {
        let mut check = self.ipamctl(&[folder]);
        run(check.args(["check", "--no-exec", "--errors"]).args(words)).map(|_| ())
    }

    /// Refuses while there are reservations or records, without `--even-in-use`: without the
    /// plugins, nobody could release them. `conf_dirs` are the folders with the node's conflists.
    ///
    /// # Errors
    ///
    /// There are some, which the error names; or they can't be read.
    pub(crate) fn refuse_if_in_use(&self, conf_dirs: &[&PathBuf]) -> Result<()> {
        if self.arguments.even_in_use {
            return Ok(());
        }
        let mut all = folders(conf_dirs, "dataDir");
        all.extend(folders(conf_dirs, "stateDir"));
        all.extend([&self.arguments.data_dir, &self.arguments.state_dir].map(PathBuf::clone));
        for folder in &all {
            let is_seen = self.is_of_node(folder).at(folder)?;
            let unseen = "is not mounted here, and may be in use: mount it, or say --even-in-use";
            ensure!(is_seen, "{} {unseen}", folder.display());
        }
        let answer = run(self.ipamctl(conf_dirs).arg("ls"))?;
        let held: Vec<&str> = answer.lines().take(MOST_LINES).collect();
        let why = "nothing is removed: drain the node, since without the plugins nobody could \
                   release this, or say --even-in-use";
        ensure!(held.is_empty(), "{why}\n{}", held.join("\n"));
        Ok(())
    }

    /// A call of `ipamctl` without its words. `conf_dirs` are folders with conflists.
    pub(crate) fn ipamctl(&self, conf_dirs: &[&PathBuf]) -> Command {
        let arguments = &self.arguments;
        // Plugins that the node lacks are installed together with the conflists.
        let [one_file, network_plugins, sbin] = FOLDERS.map(|name| arguments.from.join(name));
        let plugins = [&arguments.plugins, &one_file, &network_plugins];
        let plugins = plugins.map(|folder| folder.to_string_lossy());
        let mut ipamctl = Command::new(sbin.join("ipamctl"));
        ipamctl.args(["--cni-path", &plugins.join(":")]);
        ipamctl.arg("--data-dir").arg(&arguments.data_dir);
        ipamctl.arg("--state-dir").arg(&arguments.state_dir);
        for folder in conf_dirs {
            ipamctl.arg("--conf-dir").arg(folder);
        }
        ipamctl
    }

    /// False for a folder of the image, where nothing is the node's: no mount contains it.
    fn is_of_node(&self, folder: &Path) -> io::Result<bool> {
        let root = Path::new("/");
        if self.arguments.from != root {
            return Ok(true);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let mut points = mounts.lines().filter_map(|mount| mount.split(' ').nth(4));
        Ok(points.any(|point| Path::new(point) != root && folder.starts_with(point)))
    }
}

/// The folders that the conflists in these folders name by a key of `ipam`.
pub(crate) fn folders(conf_dirs: &[&PathBuf], key: &str) -> BTreeSet<PathBuf> {
    let lists = Listing::in_folders(conf_dirs).conflists;
    let plugins = lists.iter().flat_map(|list| &list.plugins);
    let folders = plugins.filter_map(|plugin| plugin.ipam.as_ref()?.read("ipam", key).ok()?);
    folders.collect()
}
