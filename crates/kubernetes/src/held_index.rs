//! Index of the addresses of each attachment on this node in this boot, in folders of `stateDir`.
//! Without it, each DEL would list by label, for which the API server reads all addresses of the
//! cluster. A node has one `stateDir`: with another one, it isn't the node that has registered. So
//! all networks use one index.
//!
//! An attachment's folder has an empty file for each address. The file is created before the
//! address, and removed after the address is deleted. So if the index is complete, an attachment
//! without a folder has no address. In each boot, one list of the node's addresses completes the
//! index, and the indexes of earlier boots are removed. Calls create and remove these files
//! without waiting for each other. If the folder can't be used, no address is created: another
//! call that can use the folder would miss the address.
//!
//! `ipamctl` may create addresses for this node from elsewhere. It then annotates the node's
//! registration until it is done. So an attachment without a folder has no address only if the
//! registration has no such annotation, and the same revision as when the index was completed.

use std::io;
use std::path::{Path, PathBuf};

use cluster::{HeldKey, Key};
use cni::{Attachment, NetworkName};
use rustix::fs::OFlags;
use state_files::{StateFolder, names_in};

use crate::names::{hash, object_of};

/// Name of the file that says for which cluster and registration the index was completed.
const COMPLETE: &str = "complete";

/// Most times that an attachment's folder is created again, because another call for the same
/// attachment has removed it.
const MOST_TRIES: u32 = 100;

/// The index.
pub(crate) struct HeldIndex {
    /// The folder, or why it can't be used.
    folder: Result<StateFolder, String>,
    path: PathBuf,
}

impl HeldIndex {
    /// The index of this node in this boot. Without the boot's ID, it can't be used.
    pub(crate) fn open(state_dir: &Path, node: &str, boot: Option<&str>) -> Self {
        let of_node = state_dir.join(format!("held_{node}"));
        let path = of_node.join(boot.unwrap_or_default());
        let no_boot = || io::Error::other("the boot's ID can't be read");
        // Nobody else may rename the folder.
        let folder = boot
            .ok_or_else(no_boot)
            .and_then(|_| StateFolder::create(state_dir))
            .and_then(|_| StateFolder::create(&of_node))
            .and_then(|_| StateFolder::create(&path));
        let folder = folder.inspect_err(|error| {
            tracing::warn!(%error, folder = %path.display(), "each DEL lists addresses, and no ADD succeeds, since this folder can't be used");
        });
        Self {
            folder: folder.map_err(|error| format!("{}: {error}", path.display())),
            path,
        }
    }

    /// True if the index has every address of the node in this cluster.
    pub(crate) fn is_complete(&self, cluster: u64) -> bool {
        let stamp = stamp(cluster, None);
        self.completed()
            .is_some_and(|content| content.starts_with(stamp.as_bytes()))
    }

    /// True if the index was completed after this revision of the node's registration was written.
    pub(crate) fn follows(&self, cluster: u64, registration: i64) -> bool {
        let stamp = stamp(cluster, Some(registration));
        self.completed()
            .is_some_and(|content| content == stamp.as_bytes())
    }

    /// The content of the file [`COMPLETE`].
    fn completed(&self) -> Option<Vec<u8>> {
        self.folder.as_ref().ok()?.read(COMPLETE).ok()
    }

    /// Notes `addresses`, which are all addresses that the node has in this cluster. Their list
    /// was requested after the registration's revision was read. Removes the indexes of earlier
    /// boots.
    pub(crate) fn complete(
        &self,
        cluster: u64,
        registration: Option<i64>,
        all: &[HeldKey],
    ) -> io::Result<()> {
        all.iter().try_for_each(|held| self.note(held))?;
        self.usable()?
            .replace(COMPLETE, stamp(cluster, registration).as_bytes())?;
        self.remove_earlier_boots();
        Ok(())
    }

    fn remove_earlier_boots(&self) {
        let of_node = self.path.parent().unwrap_or(&self.path);
        let boots = names_in(of_node).unwrap_or_default().into_iter();
        for other in boots.map(|name| of_node.join(name)) {
            if other != self.path
                && let Err(error) = std::fs::remove_dir_all(&other)
            {
                tracing::debug!(%error, folder = %other.display(), "not removed");
            }
        }
    }

    fn usable(&self) -> io::Result<&StateFolder> {
        self.folder
            .as_ref()
            .map_err(|why| io::Error::other(why.as_str()))
    }

    /// The folder, opened again. Its lock allows one caller at a time to list the node's
    /// addresses.
    pub(crate) fn lock_of_lists(&self) -> io::Result<StateFolder> {
        self.usable()?;
        StateFolder::open(&self.path)
    }

    /// The names of the addresses that an attachment may have.
    pub(crate) fn of(&self, network: &NetworkName, of: &Attachment) -> io::Result<Vec<String>> {
        let folder = self.folder_of(network, of);
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let name = |entry: io::Result<std::fs::DirEntry>| {
            let name = entry?.file_name().into_string();
            name.map_err(|name| io::Error::other(format!("{} is no name", name.display())))
        };
        let mut names: Vec<String> = entries.map(name).collect::<io::Result<_>>()?;
        names.sort_unstable();
        Ok(names)
    }

    /// Notes an address that will be created.
    ///
    /// # Errors
    ///
    /// An I/O error that names the folder.
    pub(crate) fn note(&self, held: &HeldKey) -> io::Result<()> {
        self.usable()?;
        let path = self.folder_of(&held.network, &held.attachment);
        self.make(&path, &name(held)).map_err(|error| {
            let msg = format!("{}: {error}", path.display());
            io::Error::new(error.kind(), msg)
        })
    }

    /// Makes an empty file in an attachment's folder.
    fn make(&self, path: &Path, name: &str) -> io::Result<()> {
        let mut tried = 0;
        loop {
            let folder = StateFolder::create(path);
            let made = folder.and_then(|folder| folder.create_file(name, OFlags::RDWR));
            match made {
                Err(error) if was_removed(&error) && tried < MOST_TRIES => tried += 1,
                other => return other.map(|_| ()),
            }
        }
    }

    /// Removes the note of an address that doesn't exist.
    pub(crate) fn forget(&self, held: &HeldKey) -> io::Result<()> {
        let path = self.folder_of(&held.network, &held.attachment);
        match StateFolder::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?.remove(&name(held))?,
        }
        // The folder stays while it has other addresses.
        let _ = std::fs::remove_dir(&path);
        Ok(())
    }

    fn folder_of(&self, network: &NetworkName, of: &Attachment) -> PathBuf {
        self.path.join(hash(&[
            network.as_str(),
            of.container_id.as_str(),
            of.ifname.as_str(),
        ]))
    }
}

/// The content of the file [`COMPLETE`]; only its first line without a registration.
fn stamp(cluster: u64, registration: Option<i64>) -> String {
    let registration = registration.map_or_else(String::new, |revision| format!("{revision}\n"));
    format!("{cluster:x}\n{registration}")
}

/// The name of the address.
fn name(held: &HeldKey) -> String {
    let object = object_of(&Key::Held(held.clone()));
    object.map(|(_, name)| name).unwrap_or_default()
}

/// True if another call has removed the folder, before it was opened or while `mkdir` checked it.
fn was_removed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
    )
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
        HeldIndex::open(folder, "n1", Some(boot))
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
        index.forget(&second).unwrap();
    }

    #[test]
    fn an_address_is_noted_while_others_of_its_attachment_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let index = open(folder.path(), "b1");
        let [stays, goes] = [held("c1", "10.0.0.5"), held("c1", "10.0.0.6")];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..500 {
                    index.note(&goes).unwrap();
                    index.forget(&goes).unwrap();
                }
            });
            for _ in 0..500 {
                index.note(&stays).unwrap();
                let names = index.of(&stays.network, &stays.attachment).unwrap();
                assert!(names.contains(&"blue.10.0.0.5".to_owned()));
                index.forget(&stays).unwrap();
            }
        });
    }

    #[test]
    fn without_a_usable_folder_nothing_is_noted_and_the_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held_n1");
        std::fs::write(&path, "").unwrap();
        let index = open(folder.path(), "b1");
        let error = index.note(&held("c1", "10.0.0.5")).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        assert!(index.complete(1, Some(7), &[]).is_err() && !index.is_complete(1));
    }

    #[test]
    fn without_a_boot_id_nothing_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let index = HeldIndex::open(folder.path(), "n1", None);
        let error = index.note(&held("c1", "10.0.0.5")).unwrap_err().to_string();
        assert!(error.ends_with("the boot's ID can't be read"), "{error}");
        assert!(index.complete(1, Some(7), &[]).is_err() && !index.is_complete(1));
    }

    #[test]
    fn the_index_is_complete_in_one_boot_and_one_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let index = open(folder.path(), "b1");
        assert!(!index.is_complete(1));
        let held = held("c1", "10.0.0.5");
        index
            .complete(1, Some(7), std::slice::from_ref(&held))
            .unwrap();
        assert!(index.follows(1, 7) && !index.follows(1, 8) && !index.follows(2, 7));
        assert!(open(folder.path(), "b1").is_complete(1));
        assert!(!open(folder.path(), "b1").is_complete(2));
        let of_boot = |boot| open(folder.path(), boot).of(&held.network, &held.attachment);
        assert_eq!(of_boot("b1").unwrap(), ["blue.10.0.0.5"]);

        let next = open(folder.path(), "b2");
        assert!(!next.is_complete(1) && of_boot("b2").unwrap().is_empty());
        next.complete(1, Some(9), &[]).unwrap();
        assert!(!folder.path().join("held_n1/b1").exists());
        assert!(open(folder.path(), "b2").is_complete(1));
    }
}
