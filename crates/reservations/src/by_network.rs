//! Migrates directories that an earlier version of the allocator has used.
//!
//! That version noted the network of a named pool's reservation in a second file,
//! `by-network/<network>/<ip>`, with the same content. Now the network is the
//! reservation's third line.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use crate::directory::{Directory, State};
use crate::new_file::NewFile;
use crate::reservation::{Reservation, address_of_file};

const FOLDER: &str = "by-network";

/// True if an earlier version noted reservations of the network here.
pub(crate) fn mentions(directory: &Directory, network: &str) -> bool {
    directory.path().join(FOLDER).join(network).is_dir()
}

/// Gives each reservation that has a second file its third line, and removes the second
/// file. A process that is killed meanwhile leaves the rest to the next one.
pub(crate) fn bring_over(directory: &Directory) -> io::Result<()> {
    let folder = directory.path().join(FOLDER);
    let Some(networks) = names(&folder)? else {
        return Ok(());
    };
    let mut brought_over = 0;
    for network in &networks {
        for name in names(&folder.join(network))?.unwrap_or_default() {
            let Some(ip) = address_of_file(&name) else {
                continue;
            };
            let second = folder.join(network).join(&name);
            if says_the_same(directory, &name, &second) {
                name_network(directory, ip, network)?;
                brought_over += 1;
            }
            fs::remove_file(&second)?;
        }
        // A folder with files of other programs stays.
        let _ = fs::remove_dir(folder.join(network));
    }
    let _ = fs::remove_dir(&folder);
    let path = directory.path().display();
    tracing::info!(%path, brought_over, "the network of reservations is now their third line");
    Ok(())
}

/// The names in a folder; `None` if there is no such folder.
fn names(folder: &Path) -> io::Result<Option<Vec<String>>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let names = entries.filter_map(|entry| {
        entry
            .map(|it| it.file_name().into_string().ok())
            .transpose()
    });
    names.collect::<io::Result<_>>().map(Some)
}

/// A second file counts as long as it says the same as the reservation.
fn says_the_same(directory: &Directory, name: &str, second: &Path) -> bool {
    let content = |name: &str| directory.read_file(name).map(|(content, _)| content);
    // An absolute path, which doesn't depend on the directory.
    let second = second.to_str().and_then(|path| content(path).ok());
    second.is_some() && content(name).ok() == second
}

fn name_network(directory: &Directory, ip: IpAddr, network: &str) -> io::Result<()> {
    let Some(State::Reserved(reservation)) = directory.read(ip)? else {
        return Ok(());
    };
    let Reservation {
        container_id,
        ifname: Some(ifname),
        network: None,
    } = reservation
    else {
        return Ok(());
    };
    let content = format!("{container_id}\r\n{ifname}\r\n{network}");
    NewFile::write(directory, content.as_bytes())?.replace(&ip.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_gets_its_own_reservations_and_the_folder_goes() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        for (name, content) in [
            ("10.0.0.2", "r\r\neth0"),
            ("by-network/red/10.0.0.2", "r\r\neth0"),
            ("10.0.0.3", "g\r\neth0"),
            ("by-network/green/10.0.0.3", "g\r\neth0"),
            // Of the network that the directory is named after.
            ("10.0.0.4", "b\r\neth0"),
            // Given to another since.
            ("10.0.0.5", "b2\r\neth0"),
            ("by-network/red/10.0.0.5", "killed\r\neth0"),
            // Brought over by a process that was then killed.
            ("10.0.0.6", "r2\r\neth0\r\nred"),
            ("by-network/red/10.0.0.6", "r2\r\neth0"),
            // Released by a process that was then killed.
            ("by-network/red/10.0.0.7", "r3\r\neth0"),
        ] {
            file(name, content);
        }
        let directory = Directory::open(root.path()).unwrap().unwrap();
        assert!(mentions(&directory, "red") && !mentions(&directory, "blue"));
        bring_over(&directory).unwrap();
        bring_over(&directory).unwrap();
        let mut found = Vec::new();
        for entry in fs::read_dir(root.path()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(path).unwrap()));
        }
        found.sort();
        let of = |ip: &str, content: &str| (ip.to_owned(), content.to_owned());
        assert_eq!(
            found,
            [
                of("10.0.0.2", "r\r\neth0\r\nred"),
                of("10.0.0.3", "g\r\neth0\r\ngreen"),
                of("10.0.0.4", "b\r\neth0"),
                of("10.0.0.5", "b2\r\neth0"),
                of("10.0.0.6", "r2\r\neth0\r\nred"),
            ]
        );
    }
}
