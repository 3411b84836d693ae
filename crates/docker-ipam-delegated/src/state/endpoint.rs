//! An endpoint of the network driver, and its record: that of the attachment that its plugins
//! make.

use std::io;
use std::path::{Path, PathBuf};

use chain::record::{self, AttachmentRecord};
use cni::{Attachment, NetworkName};

use crate::state::attachment_id::PREFIX;
use crate::state::caller_line::{CallerLine, Plugged, Progress};

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Docker's IDs, and what Docker gives the interface.
    pub(crate) plugged: Plugged,
    /// Network configuration of its ADD, as JSON.
    pub(crate) list: String,
    /// Network namespace of its plugins.
    pub(crate) netns: String,
    /// `CNI_ARGS` of its plugins.
    pub(crate) args: String,
    /// Result of its plugins, as JSON, once there is one.
    pub(crate) result: Option<String>,
    /// Path of the container's namespace, once the endpoint has joined it.
    pub(crate) sandbox: Option<String>,
}

impl Endpoint {
    /// The container ID that its plugins are told.
    pub(crate) fn container_id(&self) -> String {
        format!("{PREFIX}{}", self.plugged.id)
    }
}

/// The record of an endpoint.
pub(crate) struct EndpointRecord {
    /// The network of the plugins.
    pub(crate) network: NetworkName,
    /// The attachment.
    pub(crate) attachment: Attachment,
    /// The content; `None` if nothing was written, `Err` with the reason if it can't be read.
    pub(crate) content: Result<Option<(Endpoint, Progress)>, String>,
}

/// The folder of the records of endpoints, in a daemon's state folder.
pub(crate) fn records(state_dir: &Path) -> PathBuf {
    state_dir.join("endpoints")
}

/// Reads the records of all endpoints.
///
/// # Errors
///
/// An I/O error of a folder. A missing one is empty.
pub(crate) fn read_all(folder: &Path) -> io::Result<Vec<EndpointRecord>> {
    let mut all = Vec::new();
    for network in record::networks(folder)? {
        for attachment in record::attachments(folder, &network)? {
            let content = match record::record_of(folder, &network, &attachment)? {
                Some(record) => record.content.and_then(endpoint).map(Some),
                None => Ok(None),
            };
            all.push(EndpointRecord {
                network: network.clone(),
                attachment,
                content,
            });
        }
    }
    Ok(all)
}

/// The endpoint of a record.
pub(crate) fn endpoint(record: AttachmentRecord) -> Result<(Endpoint, Progress), String> {
    let lines = CallerLine::all(&record);
    let progress = Progress::of(&record, &lines);
    let (mut plugged, mut sandbox) = (None, None);
    for line in lines {
        match line {
            CallerLine::Endpoint(line) => plugged = Some(line),
            CallerLine::Sandbox(path) => sandbox = Some(path),
            CallerLine::Pool(_) | CallerLine::Answered => {}
        }
    }
    let plugged = plugged.ok_or("it names no endpoint of Docker's")?;
    let list = record.raw_config().ok_or("it has no configuration")?;
    Ok((
        Endpoint {
            plugged,
            list: list.get().to_owned(),
            result: record.answer().map(|raw| raw.get().to_owned()),
            netns: record.netns,
            args: record.args,
            sandbox,
        },
        progress,
    ))
}
