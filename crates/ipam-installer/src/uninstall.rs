//! Removes an installation from a node: conflists first, plugins last.

use std::path::Path;

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use crate::folder::Folder;
use crate::manifest::{self, MANIFEST};
use crate::node::{Node, exists, say};
use crate::{catalogue, conflists, in_use, kubeconfig, verify};

/// Removes the installed files.
///
/// # Errors
///
/// The node has reservations or records; an I/O error.
pub(crate) fn uninstall(node: &Node) -> Result<()> {
    let Arguments {
        conflists: net,
        pools,
        plugins,
        sbin,
        ..
    } = &node.arguments;
    in_use::refuse(node, net)?;
    let plugin_folder = match exists(plugins)? {
        true => Some(Folder::open(plugins)?),
        false => None,
    };
    if let Some(folder) = &plugin_folder {
        // Prevents another installer that is still running from restoring the files.
        node.take(folder)?;
    }
    if exists(&net.join(MANIFEST))?
        && let Err(error) = remove_conflists(node, net)
    {
        // Nothing else is removed, so an installer that is still running keeps the plugins.
        drop(plugin_folder);
        node.leave();
        return Err(error);
    }
    // One that was killed may have left something behind the manifest.
    Folder::clean(net)?;
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
        for placed in &node.image.plugins {
            removed.extend(placed.remove(folder)?);
        }
        say("removed", plugins, &removed);
    }
    if let (Some(tool), Some(sbin)) = (&node.image.tool, sbin)
        && exists(sbin)?
    {
        let removed = tool.remove(&Folder::open(sbin)?)?;
        say("removed", sbin, &removed);
    }
    Ok(())
}

/// Removes the installed conflists. From then on, no container starts with them. One that has
/// started since the first look at the reservations gets them back.
fn remove_conflists(node: &Node, net: &Path) -> Result<()> {
    let folder = Folder::open(net)?;
    let installed = manifest::installed_files(net)?;
    // They name the folders of reservations and records.
    let copies = folder.path_of(verify::SCRATCH);
    verify::write_copies(&copies, &verify::in_folder(net)?)?;
    let refused = conflists::put_aside(&folder, &installed);
    if let Err(error) = refused.and_then(|()| in_use::refuse(node, &copies)) {
        conflists::put_back(&folder, &installed)?;
        return Err(error);
    }
    conflists::remove(&folder, &installed)?;
    say("removed", net, &installed);
    Ok(())
}
