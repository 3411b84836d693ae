//! Read-only view of directories of reservations: takes no lock, makes no file.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::SystemTime;

use cni::NetworkName;
use state_files::parsed_names_in;

use crate::directory::{Directory, ReadFile, is_other_file};
use crate::state::State;

/// An address that has a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedAddress {
    /// The address that names the file.
    pub ip: IpAddr,
    /// What the file says.
    pub state: State,
    /// True if its file has no content: a full pool gives the address out.
    pub is_empty: bool,
    /// The network that holds it: the one in the file, or the one that the directory is
    /// named after. `None` for an address that isn't reserved, or can't be read.
    pub network: Option<String>,
    /// Time at which the file was written; `None` if it can't be read.
    pub since: Option<SystemTime>,
}

/// Lists the addresses of one directory, lowest first.
///
/// Other processes may change the directory meanwhile. An address that keeps its
/// reservation is listed. The files are read by several threads where there are many.
///
/// # Errors
///
/// An I/O error; `NotFound` if there is no such directory.
pub fn list(directory: &Path) -> io::Result<Vec<ListedAddress>> {
    let opened = open(directory)?;
    let mut ips = opened.addresses()?;
    ips.sort_unstable();
    let read = |ip: &IpAddr| {
        let file = opened.read(*ip)?;
        Some(listed(directory, *ip, file))
    };
    Ok(state_files::in_threads(&ips, read)
        .into_iter()
        .flatten()
        .collect())
}

/// The addresses that have a file in one directory, lowest first. No file is opened, so torn
/// files count, too.
///
/// # Errors
///
/// As [`list`].
pub fn addresses(directory: &Path) -> io::Result<Vec<IpAddr>> {
    let mut ips = open(directory)?.addresses()?;
    ips.sort_unstable();
    Ok(ips)
}

/// Reads one address of a directory; `None` if it has no file, or it is proven that there is no such
/// directory.
///
/// # Errors
///
/// An I/O error.
pub fn address(directory: &Path, ip: IpAddr) -> io::Result<Option<ListedAddress>> {
    let Some(opened) = Directory::open(directory)? else {
        return Ok(None);
    };
    Ok(opened.read(ip).map(|file| listed(directory, ip, file)))
}

fn open(directory: &Path) -> io::Result<Directory> {
    Directory::open(directory)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn listed(directory: &Path, ip: IpAddr, file: ReadFile) -> ListedAddress {
    let network = match &file.state {
        State::Reserved(reservation) => {
            let name = directory.file_name().unwrap_or_default().to_string_lossy();
            Some(reservation.network_in(&name).to_owned())
        }
        State::Torn | State::Unreadable | State::NotAFile => None,
    };
    let metadata = file.metadata;
    ListedAddress {
        ip,
        state: file.state,
        is_empty: metadata
            .as_ref()
            .is_some_and(|metadata| metadata.len() == 0),
        network,
        since: metadata.and_then(|metadata| metadata.modified().ok()),
    }
}

/// The names of the directories below `dataDir`, in order: networks and named pools. One that can't
/// be looked at is among them.
///
/// # Errors
///
/// An I/O error. A folder that is proven to be missing is empty.
pub fn directories(data_dir: &Path) -> io::Result<Vec<NetworkName>> {
    let mut names: Vec<NetworkName> = parsed_names_in(data_dir)?;
    names.retain(|name| !is_other_file(&data_dir.join(name.as_str())));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_listing_names_holder_and_network_and_leaves_no_trace() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("blue");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("10.0.0.9"), "b\r\neth0").unwrap();
        fs::write(path.join("10.0.0.10"), "r\r\neth0\r\nred").unwrap();
        fs::write(path.join("10.0.0.11"), "").unwrap();
        fs::write(path.join("last_reserved_ip.0"), "10.0.0.10").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let found: Vec<(String, Option<String>)> = list(&path)
            .unwrap()
            .into_iter()
            .map(|listed| (listed.ip.to_string(), listed.network))
            .collect();
        let of = |ip: &str, network: Option<&str>| (ip.to_owned(), network.map(str::to_owned));
        assert_eq!(
            found,
            [
                of("10.0.0.9", Some("blue")),
                of("10.0.0.10", Some("red")),
                of("10.0.0.11", None)
            ]
        );
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 4);
        let eleven = "10.0.0.11".parse().unwrap();
        let torn = address(&path, eleven).unwrap().unwrap();
        assert!(torn.state == State::Torn && torn.is_empty);
        assert_eq!(addresses(&path).unwrap().len(), 3);
        assert_eq!(directories(root.path()).unwrap()[0].as_str(), "blue");
        assert_eq!(
            list(&root.path().join("red")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn what_is_no_directory_is_not_listed_as_one() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("blue")).unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("/nowhere", root.path().join("dangling")).unwrap();
        let found = directories(root.path()).unwrap();
        // Whatever may be reserved behind the link is not known.
        assert_eq!(
            found,
            ["blue", "dangling"].map(|name| name.parse().unwrap())
        );
        let error = list(&root.path().join("dangling")).unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::NotFound);
        assert!(directories(&root.path().join("dangling")).is_err());
        assert_eq!(directories(&root.path().join("missing")).unwrap(), []);
        // No path: it has a zero. So nothing proves that there is no directory.
        let unknown = root.path().join("no\0where");
        assert!(directories(&unknown).is_err());
    }
}
