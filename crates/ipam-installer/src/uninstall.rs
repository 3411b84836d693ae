//! Removes an installation from a node: conflists first, plugins last.

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use crate::folder::Folder;
use crate::manifest::{self, MANIFEST};
use crate::node::{Node, exists, say};
use crate::{catalogue, conflists, kubeconfig};

/// Removes the installed files.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn uninstall(node: &Node) -> Result<()> {
    let Arguments {
        conflists: net,
        pools,
        plugins,
        sbin,
        ..
    } = &node.arguments;
    let plugin_folder = match exists(plugins)? {
        true => Some(Folder::open(plugins)?),
        false => None,
    };
    if let Some(folder) = &plugin_folder {
        // Prevents another installer that is still running from restoring the files.
        node.take(folder)?;
    }
    if exists(&net.join(MANIFEST))? {
        let folder = Folder::open(net)?;
        let installed = manifest::installed_files(net)?;
        conflists::remove(&folder, &installed)?;
        say("removed", net, &installed);
    }
    for pools in pools {
        if catalogue::is_installed(pools)? {
            let parent = pools.parent().context("--pools has no parent")?;
            catalogue::remove(&Folder::open(parent)?, pools)?;
            say("removed", parent, &[pools.display().to_string()]);
        }
    }
    kubeconfig::remove(&node.arguments)?;
    if let Some(folder) = &plugin_folder {
        let mut removed = Vec::new();
        for placed in &node.plugins {
            removed.extend(placed.remove(folder)?);
        }
        say("removed", plugins, &removed);
    }
    if let (Some(tool), Some(sbin)) = (&node.tool, sbin)
        && exists(sbin)?
    {
        let removed = tool.remove(&Folder::open(sbin)?)?;
        say("removed", sbin, &removed);
    }
    Ok(())
}
