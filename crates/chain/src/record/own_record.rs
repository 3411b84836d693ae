//! The record of an attachment whose plugins the chain's caller runs itself, such as those of a
//! network configuration list. File, format and lock are a chain's.

use std::path::{Path, PathBuf};

use cni::{Attachment, DelegateName, Environment, Error, NetworkConfig, NetworkName, code};
use serde_json::value::RawValue;

use crate::record::file::RecordFile;
use crate::record::folder::{Lookup, Records};
use crate::record::line::{Intent, Line};
use crate::record::lock::{self, IfMissing, LockedRecord, WhenBusy, unusable};

/// The record, locked until this is dropped. A program that inherits the lock
/// ([`crate::Execution`]) holds it on if this process is killed.
pub struct OwnRecord {
    pub(crate) file: RecordFile,
    pub(crate) path: PathBuf,
}

impl OwnRecord {
    /// Makes the record of an attachment that is about to be made by these plugins, with
    /// `CNI_NETNS` and `CNI_ARGS` of this environment and a line of the caller.
    ///
    /// # Errors
    ///
    /// Code 5 if it can't be written; code 110 if there is one; code 11 as for a chain's ADD. Then
    /// there is no new record.
    pub fn begin(
        state_dir: &Path,
        config: &NetworkConfig,
        attachment: &Attachment,
        plugins: &[DelegateName],
        environment: &Environment,
        line: Box<RawValue>,
    ) -> Result<Self, Error> {
        let mut intent = Intent::new(config, attachment, plugins, environment);
        intent.is_undone_by_caller = true;
        let records = Records::new(state_dir, config.name());
        let path = records.file(attachment);
        let found = lock::acquire(&records, attachment, IfMissing::Make, WhenBusy::Wait)?;
        let LockedRecord { file, content } = match found {
            Lookup::Found(locked) => locked,
            Lookup::Missing => return Err(unusable(&path, "it can't be made")),
            Lookup::Unusable(error) => return Err(unusable(&path, error)),
        };
        if content.is_some() {
            let why = format!("{attachment} is recorded already in {}", path.display());
            return Err(Error::new(code::ALREADY_ALLOCATED, why));
        }
        let record = Self { file, path };
        let begun = record.append(&[Line::Adding(Box::new(intent)), Line::Caller(line)]);
        if let Err(error) = begun {
            record.remove();
            return Err(error);
        }
        Ok(record)
    }

    /// Opens and locks the record of an attachment; `None` if there is none. Its lock is waited
    /// for, at most two seconds.
    ///
    /// # Errors
    ///
    /// Code 11 if a process holds the lock, or it is unknown whether there is a record; code 5
    /// if the file may not be used.
    pub fn open(
        state_dir: &Path,
        network: &NetworkName,
        attachment: &Attachment,
    ) -> Result<Option<Self>, Error> {
        let records = Records::new(state_dir, network);
        let path = records.file(attachment);
        match lock::acquire(&records, attachment, IfMissing::Leave, WhenBusy::Wait)? {
            Lookup::Missing => Ok(None),
            Lookup::Unusable(error) => Err(unusable(&path, error)),
            Lookup::Found(LockedRecord { file, .. }) => Ok(Some(Self { file, path })),
        }
    }

    /// Notes that all plugins have succeeded, with the result of each.
    ///
    /// # Errors
    ///
    /// Code 5 if this can't be written.
    pub fn note_added(&self, results: &[Box<RawValue>]) -> Result<(), Error> {
        let mut lines: Vec<Line> = results.iter().cloned().map(Line::Result).collect();
        lines.push(Line::Added {});
        self.append(&lines)
    }

    /// Notes that the attachment is about to be undone. If this can't be written, it is logged.
    pub fn note_deleting(&self) {
        self.file.append(&[Line::deleting()]);
    }

    fn append(&self, lines: &[Line]) -> Result<(), Error> {
        self.file.append(lines);
        if !self.file.is_whole() {
            return Err(unusable(&self.path, "it can't be written"));
        }
        Ok(())
    }

    /// Removes the record: nothing is left of the attachment.
    pub fn remove(self) {
        self.file.remove();
    }
}

#[cfg(test)]
mod tests;
