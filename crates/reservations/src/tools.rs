//! Read-only view of reservations for tools: takes no lock, makes nothing.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::SystemTime;

use crate::directory::{Directory, State};

/// A file that stands for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedAddress {
    /// The address.
    pub ip: IpAddr,
    /// Its state.
    pub state: State,
    /// The network that holds it: the one in the file, or the one that the directory is
    /// named after. `None` for an address that isn't reserved, or can't be read.
    pub network: Option<String>,
    /// Time at which the file was written; `None` if it can't be read.
    pub since: Option<SystemTime>,
}

/// Lists the addresses of one directory, lowest first.
///
/// Other processes may change the directory meanwhile. An address that keeps its
/// reservation is listed.
///
/// # Errors
///
/// The system's; `NotFound` if there is no such directory.
pub fn list(directory: &Path) -> io::Result<Vec<ListedAddress>> {
    let name = directory
        .file_name()
        .map(|it| it.to_string_lossy().into_owned());
    let opened = Directory::open(directory)?.ok_or(io::ErrorKind::NotFound)?;
    let mut all = Vec::new();
    opened.list(|ip, file| {
        let network = match &file.state {
            State::Reserved(it) => it.network.clone().or_else(|| name.clone()),
            _ => None,
        };
        let since = file.metadata.and_then(|it| it.modified().ok());
        all.push(ListedAddress {
            ip,
            state: file.state,
            network,
            since,
        });
    })?;
    all.sort_unstable_by_key(|it| it.ip);
    Ok(all)
}

/// The address that a pool of the directory gave last.
///
/// # Errors
///
/// As [`list`].
pub fn last_reserved(directory: &Path, pool: usize) -> io::Result<Option<IpAddr>> {
    let opened = Directory::open(directory)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(crate::last_reserved::read(&opened, pool))
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
            .map(|it| (it.ip.to_string(), it.network))
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
        assert_eq!(
            last_reserved(&path, 0).unwrap(),
            Some("10.0.0.10".parse().unwrap())
        );
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 4);
        assert_eq!(
            list(&root.path().join("red")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
