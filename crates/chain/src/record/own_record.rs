//! The record of an attachment whose plugins the chain's caller runs itself, such as those of a
//! network configuration list. File, format and lock are a chain's.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use cni::{Attachment, DelegateName, Environment, Error, NetworkConfig, NetworkName, code};
use serde_json::value::RawValue;

use crate::call_id::CallId;
use crate::leftover_processes::Left;
use crate::overtime::Overtime;
use crate::record::file::RecordFile;
use crate::record::folder::{Found, Records};
use crate::record::line::{Intent, Line, MOST, RecordedCall};
use crate::record::lock::{self, IfMissing, LockedRecord};

/// The record, locked until this is dropped. A program that inherits the lock holds it on if
/// this process is killed.
pub struct OwnRecord {
    file: RecordFile,
    path: PathBuf,
}

impl OwnRecord {
    /// Makes the record of an attachment that is about to be made by these plugins, with
    /// `CNI_NETNS` and `CNI_ARGS` of this environment and a line of the caller.
    ///
    /// # Errors
    ///
    /// Code 5 if it can't be written, or the configuration is too large for it; code 110 if
    /// there is one; code 11 as for a chain's ADD. Then there is no new record.
    pub fn begin(
        state_dir: &Path,
        config: &NetworkConfig,
        attachment: &Attachment,
        plugins: &[DelegateName],
        environment: &Environment,
        line: Box<RawValue>,
    ) -> Result<Self, Error> {
        let mut intent = Intent::new(config, attachment, plugins, CallId::new());
        if intent.config.is_none() {
            return Err(too_large("the network configuration"));
        }
        intent.netns = environment.text("CNI_NETNS");
        intent.args = environment.text("CNI_ARGS");
        let records = Records::new(state_dir, config.name());
        let path = records.file(attachment);
        match acquire(&records, attachment, IfMissing::Make)? {
            Found::Unusable(error) => Err(unusable(&path, &error)),
            Found::Record(LockedRecord { file, content }) => {
                if content.is_some() {
                    let why = format!("{attachment} is recorded already in {}", path.display());
                    return Err(Error::new(code::ALREADY_ALLOCATED, why));
                }
                let record = Self::new(file, path);
                let lines = [Line::Adding(Box::new(intent)), Line::Caller(line)];
                match record.append(&lines) {
                    Ok(()) => Ok(record),
                    Err(error) => {
                        record.remove();
                        Err(error)
                    }
                }
            }
        }
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
        match acquire(&records, attachment, IfMissing::Leave)? {
            Found::Unusable(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Found::Unusable(error) => Err(unusable(&path, &error)),
            Found::Record(LockedRecord { file, .. }) => Ok(Some(Self::new(file, path))),
        }
    }

    fn new(file: RecordFile, path: PathBuf) -> Self {
        // The caller waits for each program. A process that it leaves behind, such as a daemon,
        // doesn't keep the attachment locked.
        file.note_left(Left::Daemons);
        Self { file, path }
    }

    /// The lock, for programs that inherit it.
    pub fn lock(&self) -> Option<BorrowedFd<'_>> {
        self.file.lock_fd()
    }

    /// Notes that all plugins have succeeded, with the result of each.
    ///
    /// # Errors
    ///
    /// Code 5 if this can't be written, or a result is too large for a record.
    pub fn added(&self, results: &[Box<RawValue>]) -> Result<(), Error> {
        if results.iter().any(|result| result.get().len() > MOST) {
            return Err(too_large("a plugin's result"));
        }
        let mut lines: Vec<Line> = results.iter().map(|raw| Line::result(raw)).collect();
        lines.push(Line::Added {});
        self.append(&lines)
    }

    /// Notes that the attachment is about to be undone. If this can't be written, it is logged.
    pub fn deleting(&self) {
        let call = RecordedCall { id: CallId::new() };
        self.file.append(&[Line::Deleting(call)]);
    }

    fn append(&self, lines: &[Line]) -> Result<(), Error> {
        self.file.append(lines);
        match self.file.is_whole() {
            true => Ok(()),
            false => Err(self.error("it can't be written")),
        }
    }

    fn error(&self, reason: &str) -> Error {
        Error::io(format_args!("record {}", self.path.display()), reason)
    }

    /// Removes the record: nothing is left of the attachment.
    pub fn remove(self) {
        self.file.remove();
    }
}

fn acquire(
    records: &Records,
    attachment: &Attachment,
    if_missing: IfMissing,
) -> Result<Found<LockedRecord>, Error> {
    lock::acquire(records, attachment, if_missing, Some(&Overtime::new(false)))
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("record {}", path.display()), error)
}

fn too_large(what: &str) -> Error {
    let most = MOST >> 10;
    Error::new(
        code::IO,
        format!("{what} is larger than {most} KiB, and can't be recorded"),
    )
}

#[cfg(test)]
mod tests;
