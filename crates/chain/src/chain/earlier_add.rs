//! Prepares an attachment for an ADD: undoes an earlier ADD that the runtime has let go of, and
//! refuses the attachment if that isn't proven.

use cni::{Attachment, Error, NetworkConfig, code};
use serde_json::{Map, Value};

use crate::chain::Chain;
use crate::chain::del::undo_recorded;
use crate::record::{
    AttachmentRecord, IfMissing, Liveness, LockedRecord, Lookup, RecordFile, WhenBusy, lock,
};

/// Prepares an attachment for an ADD: an earlier ADD is undone if it didn't end, if its DEL has begun, or if
/// its network namespace is gone. Returns the file of the attachment's record, locked and empty;
/// `None` if it can't be opened.
///
/// # Errors
///
/// Code 110 if the attachment is on the network; code 11 if another call is running, or if
/// it is unknown whether there is a record; code 5 if the record can't be emptied; otherwise the
/// error of the DEL that undoes the earlier ADD.
pub(super) fn clear(
    chain: &Chain<'_>,
    attachment: &Attachment,
) -> Result<Option<RecordFile>, Error> {
    let path = chain.records.file(attachment);
    let found = lock::acquire(&chain.records, attachment, IfMissing::Make, WhenBusy::Wait)?;
    let LockedRecord { file, content } = match found {
        Lookup::Found(locked) => locked,
        Lookup::Missing => return Ok(None),
        Lookup::Unusable(error) => {
            tracing::warn!(path = %path.display(), %error, "the attachment is not recorded");
            return Ok(None);
        }
    };
    match content {
        None => return Ok(Some(file)),
        Some(Err(reason)) => {
            tracing::warn!(path = %path.display(), reason, "replacing a record that can't be used");
        }
        Some(Ok(record)) => {
            let reason =
                reason_to_undo(&record).ok_or_else(|| refusal(chain, attachment, &record))?;
            tracing::warn!(reason, "undoing an earlier ADD");
            let environment = chain.environment_of(attachment, Some(&record));
            let mut delegates = chain.delegates(environment, Some(&file));
            delegates.limits.is_bounded = true;
            let failed = undo_recorded(attachment, &record, &file, None, delegates);
            Error::all_as_one(failed).map_err(|error| chain.with_record(attachment, error))?;
        }
    }
    if !file.clear() {
        let why = "the earlier ADD can't be removed from it";
        return Err(lock::unusable(&path, why));
    }
    Ok(Some(file))
}

/// The proof that the runtime has let go of the attachment; `None` without one.
fn reason_to_undo(record: &AttachmentRecord) -> Option<String> {
    match record.liveness() {
        Liveness::LetGo(reason) | Liveness::Gone(reason) => Some(reason),
        Liveness::Alive(_) | Liveness::Unknown(_) | Liveness::Unproven(_) => None,
    }
}

/// The refusal of a second ADD, or of the first one of another plugin of the conflist.
fn refusal(chain: &Chain<'_>, attachment: &Attachment, record: &AttachmentRecord) -> Error {
    let (network, path) = (chain.config.name(), chain.records.file(attachment));
    let reason = another_plugin(&chain.config, record);
    let reason = reason.unwrap_or_else(|| "another ADD needs a DEL first".to_owned());
    Error::new(
        code::ALREADY_ALLOCATED,
        format!("{attachment} is already on network {network}: {reason}"),
    )
    .with_line(&format!("recorded in {}", path.display()))
}

/// Names the plugin that a record is of, and what to do, if its configuration isn't this one: it is
/// another plugin of the conflist, or the conflist has changed.
fn another_plugin(config: &NetworkConfig, record: &AttachmentRecord) -> Option<String> {
    const OWN: &str = "\"stateDir\" and a \"dataDir\" of its own in its ipam section";
    let (then, now) = (plugin(&record.config().ok()?)?, plugin(config)?);
    let kind = |plugin: &Map<String, Value>| plugin.get("type").cloned().unwrap_or_default();
    let (recorded, called) = (kind(&then), kind(&now));
    if recorded != called {
        return Some(format!(
            "the plugin {recorded} of the conflist has recorded it, and {called} has called. Each \
             needs a {OWN}"
        ));
    }
    (then != now).then(|| {
        format!(
            "a plugin {recorded} with another configuration has recorded it. If the conflist has \
             two of them, each needs a {OWN}; else another ADD needs a DEL first"
        )
    })
}

/// The keys of a plugin in its conflist: those of the configuration that no runtime adds.
fn plugin(config: &NetworkConfig) -> Option<Map<String, Value>> {
    let config = config.without_call();
    let mut keys: Map<String, Value> = serde_json::from_slice(config.as_bytes()).ok()?;
    for of_runtime in ["cniVersion", "args", "runtimeConfig"] {
        keys.remove(of_runtime);
    }
    Some(keys)
}
