//! Content of the image: which executables it has, and where each is installed. The multi-call executable
//! has one file under the names of all its plugins, on the node as well.

use std::path::Path;

use anyhow::Result;
use state_files::names_in;
use tokio::process::Command;

use crate::arguments::Arguments;
use crate::path_context::PathContext;
use crate::time_limit::run;
use crate::wanted::{Content, Wanted};

/// The folders of the image: with the multi-call executable under the name of each plugin in it,
/// with the plugins that have a network client, and with `ipamctl`.
pub(crate) const FOLDERS: [&str; 3] = ["plugins", "network-plugins", "sbin"];

/// The executables of the image.
#[derive(Debug)]
pub(crate) struct Image {
    /// The executables that the node should have.
    pub(crate) executables: Vec<Wanted>,
    /// Version, commit and flavour: `0.1.0 (4bf92f3577b3, normal)`.
    pub(crate) version: String,
}

impl Image {
    /// Lists the executables in the image's folders, and runs one of them as a test: executables of
    /// another architecture must not be installed.
    ///
    /// # Errors
    ///
    /// An executable is missing, or doesn't run.
    pub(crate) fn new(arguments: &Arguments) -> Result<Self> {
        let [one_file, network_plugins, sbin] = FOLDERS.map(|name| arguments.from.join(name));
        let answer = run(Command::new(one_file.join("ipam-delegated")).arg("--version"))?;
        let version = answer.trim().trim_start_matches("ipam-delegated ");
        let mut executables = Vec::new();
        let mut add = |source: &Path, folder: &Path, is_one: bool| -> Result<()> {
            let names = names_in(source).at(source)?;
            let links = if is_one { names.len() } else { 1 };
            executables.extend(names.chunks(links).map(|names| Wanted {
                paths: names.iter().map(|name| folder.join(name)).collect(),
                content: Content::Executable(source.join(&names[0])),
            }));
            Ok(())
        };
        add(&one_file, &arguments.plugins, true)?;
        add(&network_plugins, &arguments.plugins, false)?;
        if let Some(folder) = &arguments.sbin {
            add(&sbin, folder, false)?;
        }
        Ok(Self {
            executables,
            version: version.to_owned(),
        })
    }
}
