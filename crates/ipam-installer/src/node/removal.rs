//! Removes an installation from a node.

use anyhow::{Context, Result};

use super::{Node, exists, say};
use crate::arguments::Arguments;
use crate::conflists::Arrived;
use crate::folder::Folder;
use crate::release::TOOL;
use crate::source::Files;
use crate::work_folder::NAME;
use crate::{catalogue, conflists};

impl Node {
    /// Removes what was installed: conflists first, plugins last.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn uninstall(&self) -> Result<()> {
        let Arguments {
            conflists: net,
            pools,
            plugins,
            sbin,
            ..
        } = &self.arguments;
        let plugin_folder = exists(plugins)?.then(|| Folder::open(plugins));
        let plugin_folder = plugin_folder.transpose()?;
        if let Some(folder) = &plugin_folder {
            // An installer that is still there doesn't put right what is removed now.
            self.owner
                .take(folder)
                .with_context(|| format!("{}", plugins.display()))?;
        }
        if exists(&net.join(NAME))? {
            let folder = Folder::open(net)?;
            let removed = conflists::listed(net)?;
            let changes = conflists::Changes {
                removed,
                ..Default::default()
            };
            conflists::put(&folder, net, &Files::new(), &changes, &mut Arrived::new())?;
            folder.work().remove(conflists::LIST)?;
            say("removed", net, &changes.removed);
        }
        for pools in pools {
            if !catalogue::is_installed(pools)? {
                continue;
            }
            let parent = pools.parent().context("--pools has no parent")?;
            let folder = Folder::open(parent)?;
            if catalogue::remove(&folder, pools)? {
                say("removed", parent, &[pools.display().to_string()]);
            }
        }
        if let Some(folder) = plugin_folder {
            let mut removed = Vec::new();
            for it in &self.release.plugins {
                removed.extend(folder.remove(&it.names(), &it.content()?)?);
            }
            say("removed", plugins, &removed);
        }
        if let Some(sbin) = sbin
            && exists(sbin)?
        {
            let folder = Folder::open(sbin)?;
            let removed = folder.remove(&[TOOL], &self.release.tool()?)?;
            say("removed", sbin, &removed);
        }
        Ok(())
    }
}
