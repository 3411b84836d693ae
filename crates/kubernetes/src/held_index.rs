//! The addresses of each attachment on this node, in files of `cacheDir`: a list by label would
//! look at all addresses of the cluster.
//!
//! An address is noted before it is created, and its note is removed after it is deleted. So an
//! attachment without a file has no address, if the index is complete: once in each boot, one
//! list of the node's addresses completes it. Without a usable folder there is no index.
//!
//! `ipamctl` may create addresses of the node elsewhere, and changes the node's registration after
//! that. So an attachment that isn't noted has no address only if the registration is still the
//! one that the list has followed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use cluster::{HeldKey, Key};
use cni::{Attachment, NetworkName};
use rustix::fs::OFlags;
use state_files::{Journal, StateFolder};

use crate::names::object_of;
use crate::objects::attachment;

/// Name of the file that says in which boot the index was completed.
const COMPLETE: &str = "complete";

/// Longest wait for another process that changes the same file.
const LOCK: Duration = Duration::from_secs(2);

/// The files.
pub(crate) struct HeldIndex {
    folder: StateFolder,
    /// This boot.
    boot: String,
}

impl HeldIndex {
    /// The index of this node in this boot; `None` if the folder can't be used, or the boot isn't
    /// known.
    pub(crate) fn open(cache_dir: &Path, node: &str, boot: Option<String>) -> Option<Self> {
        let (folder, boot) = (cache_dir.join(format!("held_{node}")), boot?);
        match StateFolder::create(&folder) {
            Ok(folder) => Some(Self { folder, boot }),
            Err(error) => {
                tracing::warn!(%error, folder = %folder.display(), "each call lists all addresses, since this folder can't be used");
                None
            }
        }
    }

    /// True if each address that the node has in this cluster is noted.
    pub(crate) fn is_complete(&self, cluster: u64) -> bool {
        let stamp = self.stamp(cluster, None);
        matches!(self.folder.read(COMPLETE), Ok(content) if content.starts_with(stamp.as_bytes()))
    }

    /// True if it was completed after this revision of the node's registration was written.
    pub(crate) fn follows(&self, cluster: u64, registration: i64) -> bool {
        let stamp = self.stamp(cluster, Some(registration));
        matches!(self.folder.read(COMPLETE), Ok(content) if content == stamp.as_bytes())
    }

    /// Notes these addresses, which are all that the node has in this cluster. The list of them
    /// began after the node's registration with this revision was read.
    pub(crate) fn complete(
        &self,
        cluster: u64,
        registration: Option<i64>,
        all: &[HeldKey],
    ) -> io::Result<()> {
        let mut by_file: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for held in all {
            by_file.entry(file_of(held)).or_default().extend(line(held));
        }
        for (file, lines) in by_file {
            self.append(&file, &lines)?;
        }
        self.folder
            .replace(COMPLETE, self.stamp(cluster, registration).as_bytes())
    }

    /// Content of the file [`COMPLETE`]; its first line without a registration.
    fn stamp(&self, cluster: u64, registration: Option<i64>) -> String {
        let registration =
            registration.map_or_else(String::new, |revision| format!("{revision}\n"));
        format!("{cluster:x} {}\n{registration}", self.boot)
    }

    /// The names of the addresses that an attachment may have.
    pub(crate) fn of(&self, network: &NetworkName, of: &Attachment) -> io::Result<Vec<String>> {
        let file = attachment(
            network.as_str(),
            of.container_id.as_str(),
            of.ifname.as_str(),
        );
        self.names_in(&file)
    }

    /// Notes an address that will be created.
    pub(crate) fn note(&self, held: &HeldKey) -> io::Result<()> {
        self.append(&file_of(held), &line(held))
    }

    /// Removes the note of an address that doesn't exist any more, or never did.
    pub(crate) fn forget(&self, held: &HeldKey) -> io::Result<()> {
        let file = file_of(held);
        self.folder.with_lock(LOCK, || {
            let mut names = self.names_in(&file)?;
            names.retain(|name| name.as_bytes() != line(held).trim_ascii_end());
            match names.is_empty() {
                true => self.folder.remove(&file),
                false => self
                    .folder
                    .replace(&file, (names.join("\n") + "\n").as_bytes()),
            }
        })
    }

    fn append(&self, file: &str, lines: &[u8]) -> io::Result<()> {
        self.folder.with_lock(LOCK, || {
            let access = OFlags::RDWR | OFlags::APPEND;
            Journal::new(self.folder.create_file(file, access)?).append(lines)
        })
    }

    fn names_in(&self, file: &str) -> io::Result<Vec<String>> {
        let content = match self.folder.read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names: Vec<String> = String::from_utf8_lossy(&content)
            .lines()
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }
}

fn file_of(held: &HeldKey) -> String {
    let of = &held.attachment;
    attachment(
        held.network.as_str(),
        of.container_id.as_str(),
        of.ifname.as_str(),
    )
}

/// The name of the address.
fn line(held: &HeldKey) -> Vec<u8> {
    let name = object_of(&Key::Held(held.clone())).map(|(_, name)| name);
    (name.unwrap_or_default() + "\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn held(container_id: &str, ip: &str) -> HeldKey {
        HeldKey {
            node: "n1".to_owned(),
            network: "net".parse().unwrap(),
            attachment: Attachment {
                container_id: container_id.parse().unwrap(),
                ifname: "eth0".parse().unwrap(),
            },
            pool: "blue".parse().unwrap(),
            ip: ip.parse::<IpAddr>().unwrap(),
        }
    }

    fn open(folder: &Path, boot: &str) -> HeldIndex {
        HeldIndex::open(folder, "n1", Some(boot.to_owned())).unwrap()
    }

    #[test]
    fn what_is_noted_is_found_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let index = open(folder.path(), "b1");
        let [first, second] = [held("c1", "10.0.0.5"), held("c1", "10.0.0.6")];
        let names = || index.of(&first.network, &first.attachment).unwrap();
        for held in [&first, &second, &held("c2", "10.0.0.7")] {
            index.note(held).unwrap();
        }
        assert_eq!(names(), ["blue.10.0.0.5", "blue.10.0.0.6"]);
        index.forget(&first).unwrap();
        assert_eq!(names(), ["blue.10.0.0.6"]);
        index.forget(&second).unwrap();
        assert!(names().is_empty());
    }

    #[test]
    fn it_is_complete_in_the_boot_and_the_cluster_in_which_it_was_completed() {
        let folder = tempfile::tempdir().unwrap();
        let index = open(folder.path(), "b1");
        assert!(!index.is_complete(1));
        let held = held("c1", "10.0.0.5");
        index
            .complete(1, Some(7), std::slice::from_ref(&held))
            .unwrap();
        assert!(index.follows(1, 7) && !index.follows(1, 8) && !index.follows(2, 7));
        assert!(open(folder.path(), "b1").is_complete(1));
        assert!(!open(folder.path(), "b2").is_complete(1));
        assert!(!open(folder.path(), "b1").is_complete(2));
        let names = index.of(&held.network, &held.attachment);
        assert_eq!(names.unwrap(), ["blue.10.0.0.5"]);
    }
}
