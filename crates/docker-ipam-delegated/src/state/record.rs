//! Reads the chains' and the endpoints' records of attachments.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use chain::record::{self, AttachmentRecord};
use cni::{Attachment, NetworkName};

/// A record.
#[derive(Debug)]
pub(crate) struct Record {
    /// Network of the attachment.
    pub(crate) network: NetworkName,
    /// The attachment.
    pub(crate) attachment: Attachment,
    /// The file, or its folder if nothing was written.
    pub(crate) file: PathBuf,
    /// The content: `None` if nothing was written, `Err` with the reason if it can't be read.
    pub(crate) content: Result<Option<AttachmentRecord>, String>,
}

/// Reads the records of a network.
///
/// # Errors
///
/// An I/O error of the folder. A missing one is empty.
pub(crate) fn read_all(folder: &Path, network: &NetworkName) -> io::Result<Vec<Record>> {
    let mut empty = BTreeSet::from_iter(record::attachments(folder, network)?);
    let read = |attachment, file, content| Record {
        network: network.clone(),
        attachment,
        file,
        content,
    };
    let mut all = Vec::new();
    for record in record::records(folder, network)? {
        empty.remove(&record.attachment);
        all.push(read(
            record.attachment,
            record.file,
            record.content.map(Some),
        ));
    }
    let file = folder.join(network.as_str());
    all.extend(
        empty
            .into_iter()
            .map(|attachment| read(attachment, file.clone(), Ok(None))),
    );
    Ok(all)
}
