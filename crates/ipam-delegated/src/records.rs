//! Where records are kept: `<stateDir>/<network>/<containerID>:<ifname>.json`.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cni::{Attachment, NetworkName, read_file, replace_file, unfinished};

use crate::record::Record;

/// The records of one network.
pub(crate) struct Records {
    folder: PathBuf,
    network: NetworkName,
}

/// What there is of an attachment.
pub(crate) enum Found {
    /// No record.
    Nothing,
    /// One that can't be used, and why.
    Broken(String),
    /// A record.
    Record(Box<Record>),
}

impl Records {
    pub(crate) fn new(state_dir: &Path, network: &NetworkName) -> Self {
        Self {
            folder: state_dir.join(network.as_str()),
            network: network.clone(),
        }
    }

    /// The file of an attachment's record.
    pub(crate) fn file(&self, attachment: &Attachment) -> PathBuf {
        let Attachment {
            container_id,
            ifname,
        } = attachment;
        self.folder.join(format!("{container_id}:{ifname}.json"))
    }

    /// The file of an attachment's record, if there is one.
    pub(crate) fn standing(&self, attachment: &Attachment) -> Option<PathBuf> {
        Some(self.file(attachment)).filter(|file| file.exists())
    }

    pub(crate) fn find(&self, attachment: &Attachment) -> Found {
        match read_file(&self.file(attachment)) {
            Ok(json) => match Record::parse(&json, &self.network, attachment) {
                Ok(record) => Found::Record(Box::new(record)),
                Err(reason) => Found::Broken(reason),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
            Err(error) => Found::Broken(error.to_string()),
        }
    }

    /// Keeps a record in place of what is there. That it can't be kept is no
    /// reason to fail.
    pub(crate) fn keep(&self, attachment: &Attachment, record: &Record) {
        let file = self.file(attachment);
        let json = record.to_json();
        let mut kept = replace_file(&file, &json);
        for _ in 0..10 {
            match &kept {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => break,
            }
            // Whoever removes the last record takes the folder along, even just now.
            kept = DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.folder)
                .and_then(|()| replace_file(&file, &json));
        }
        if let Err(error) = kept {
            tracing::warn!(path = %file.display(), %error, "the record can't be kept");
        }
    }

    /// Removes a record, and what a killed process has left of one that it was
    /// writing. The last one takes the folder along.
    pub(crate) fn remove(&self, attachment: &Attachment) {
        let file = self.file(attachment);
        for path in [unfinished(&file), file] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "the record can't be removed");
                }
                _ => {}
            }
        }
        let _ = fs::remove_dir(&self.folder);
    }

    /// The attachments of which there are records, broken ones included. What
    /// killed processes have left of unfinished ones is removed.
    pub(crate) fn attachments(&self) -> Vec<Attachment> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let mut attachments: Vec<Attachment> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                if name.ends_with(".json.tmp") {
                    let _ = fs::remove_file(entry.path());
                }
                attachment_of(&name)
            })
            .collect();
        attachments.sort_unstable();
        attachments
    }
}

fn attachment_of(file: &str) -> Option<Attachment> {
    let (container_id, ifname) = file.strip_suffix(".json")?.split_once(':')?;
    Some(Attachment {
        container_id: container_id.parse().ok()?,
        ifname: ifname.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_whose_record_it_is() {
        let name = |file: &str| attachment_of(file).map(|it| it.to_string());
        assert_eq!(name("c1:eth0.json").as_deref(), Some("c1 eth0"));
        assert_eq!(name("a.b:eth0.100.json").as_deref(), Some("a.b eth0.100"));
        for file in [
            "c1.json",
            "c1:eth0",
            "c1:eth0.json.tmp",
            ":eth0.json",
            ".x:y.json",
        ] {
            assert_eq!(name(file), None, "{file}");
        }
    }
}
