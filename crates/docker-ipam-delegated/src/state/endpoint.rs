//! An endpoint of the network driver, and its record.

use std::io;
use std::path::{Path, PathBuf};

use chain::record::AttachmentRecord;
use serde_json::value::RawValue;

use crate::state::attachment_id::PREFIX;
use crate::state::caller_line::{CallerLine, Plugged};
use crate::state::record::{self, Record};
use crate::state::stage::Stage;

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

    /// The result of its plugins as a raw value.
    pub(crate) fn raw_result(&self) -> Option<Box<RawValue>> {
        RawValue::from_string(self.result.clone()?).ok()
    }
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
pub(crate) fn read_all(folder: &Path) -> io::Result<Vec<Record>> {
    let networks = chain::record::networks(folder)?.into_iter();
    let records: Vec<_> = networks
        .map(|network| record::read_all(folder, &network))
        .collect::<io::Result<_>>()?;
    Ok(records.into_iter().flatten().collect())
}

/// The endpoint of a record.
pub(crate) fn endpoint(record: AttachmentRecord) -> Result<(Endpoint, Stage), String> {
    let lines = CallerLine::all(&record);
    let stage = record.state.into();
    let (mut plugged, mut sandbox) = (None, None);
    for line in lines {
        match line {
            CallerLine::Endpoint(line) => plugged = Some(line),
            CallerLine::Sandbox(path) => sandbox = Some(path),
            CallerLine::Pool(_) => {}
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
        stage,
    ))
}
