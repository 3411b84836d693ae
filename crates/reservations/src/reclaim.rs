//! Releases a network's reservations from before the machine's last boot, without
//! asking a clock.
//!
//! A reservation is known to be from an earlier boot in two ways:
//!
//! - ADD writes a mark of the boot into the nanoseconds of the file's modification time;
//! - the file `last_boot.<network>` in the directory names the boot in which the network
//!   looked through the directory last, and lists the reservations that it found then,
//!   each with inode and change time.
//!
//! So the first call after a boot releases the reservations that bear the mark of the
//! boot that the file names, and those that the file lists. Any other reservation may be
//! of this boot, made by host-local or by a call without `reclaim`: it stays, is listed,
//! and is released after the next boot.

use std::fs::Metadata;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;

use crate::directory::{Directory, State};
use crate::new_file::NewFile;
use crate::tools::LastReclaim;

/// Start of the name of the file. host-local takes no file for a reservation whose
/// content isn't a container ID, alone or with an interface.
const PREFIX: &str = "last_boot.";

/// First line of the file, before the boot's ID.
const BOOT: &str = "boot ";

/// A reservation that is known to be from before this boot.
pub(crate) type FromBefore = (IpAddr, State);

/// Nanoseconds that mark a file as made in this boot.
pub(crate) fn mark(boot: &str) -> u32 {
    let hash = boot.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    // Never 0, which file systems without nanoseconds give to every file.
    hash % 999_999_999 + 1
}

/// True if the network has looked through the directory in this boot.
pub(crate) fn is_done(directory: &Directory, network: &str, boot: &str) -> bool {
    LastBoot::read(directory, network).is_some_and(|last| last.boot == boot)
}

/// The network's reservations that are from an earlier boot.
pub(crate) fn from_before(
    directory: &Directory,
    network: &str,
    boot: &str,
    is_ours: impl Fn(&State) -> bool,
) -> io::Result<Vec<FromBefore>> {
    let Some(last) = LastBoot::read(directory, network) else {
        // Never looked through: any of them may be of this boot.
        return Ok(Vec::new());
    };
    let (marked, current) = (mark(&last.boot), mark(boot));
    let mut found = Vec::new();
    directory.list(|ip, file| {
        let Some(metadata) = &file.metadata else {
            return;
        };
        let is_marked = metadata.mtime_nsec() == i64::from(marked) && marked != current;
        let is_listed = || last.listed.contains(&line(ip, metadata));
        if is_ours(&file.state) && (is_marked || is_listed()) {
            found.push((ip, file.state));
        }
    })?;
    Ok(found)
}

/// Notes that the network has looked through the directory in this boot, and which of
/// its reservations it has found.
pub(crate) fn note(
    directory: &Directory,
    network: &str,
    boot: &str,
    is_ours: impl Fn(&State) -> bool,
) -> io::Result<()> {
    let mut content = format!("{BOOT}{boot}\n");
    directory.list(|ip, file| {
        if let Some(metadata) = &file.metadata
            && is_ours(&file.state)
        {
            content.push_str(&line(ip, metadata));
            content.push('\n');
        }
    })?;
    NewFile::write(directory, content.as_bytes())?.replace(&file_name(network))
}

/// The last time that the network looked through the directory.
pub(crate) fn last(directory: &Directory, network: &str) -> Option<LastReclaim> {
    let (_, metadata) = directory.read_file(&file_name(network)).ok()?;
    let last = LastBoot::read(directory, network)?;
    Some(LastReclaim {
        boot: last.boot,
        time: metadata.modified().ok(),
        kept: last.listed.len(),
    })
}

fn file_name(network: &str) -> String {
    format!("{PREFIX}{network}")
}

fn line(ip: IpAddr, metadata: &Metadata) -> String {
    let (seconds, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
    format!("{ip} {} {seconds}.{nanoseconds:09}", metadata.ino())
}

struct LastBoot {
    boot: String,
    listed: std::collections::HashSet<String>,
}

impl LastBoot {
    fn read(directory: &Directory, network: &str) -> Option<Self> {
        let (content, _) = directory.read_file(&file_name(network)).ok()?;
        let text = String::from_utf8(content).ok()?;
        let mut lines = text.lines();
        let boot = lines.next()?.strip_prefix(BOOT)?.to_owned();
        let listed = lines.map(str::to_owned).collect();
        Some(Self { boot, listed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn ours(state: &State) -> bool {
        matches!(state, State::Reserved(it) if it.network.is_none())
    }

    #[test]
    fn only_what_is_known_from_an_earlier_boot_goes() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::open(root.path()).unwrap().unwrap();
        let write = |ip: &str, boot: Option<&str>| {
            let file = NewFile::write(&directory, b"c1\r\neth0").unwrap();
            if let Some(boot) = boot {
                file.set_nanoseconds(mark(boot)).unwrap();
            }
            assert!(file.link(ip).unwrap());
        };
        let from_before = |boot: &str| {
            let found = from_before(&directory, "net", boot, ours).unwrap();
            let mut ips: Vec<String> = found.iter().map(|(ip, _)| ip.to_string()).collect();
            ips.sort();
            ips
        };
        write("10.0.0.2", None);
        write("10.0.0.3", Some("A"));
        // Never looked through.
        assert!(from_before("A").is_empty() && !is_done(&directory, "net", "A"));
        note(&directory, "net", "A", ours).unwrap();
        assert!(is_done(&directory, "net", "A") && !is_done(&directory, "other", "A"));
        write("10.0.0.4", Some("A"));
        write("10.0.0.5", None);
        // Another one's file, in the place of a listed one.
        fs::remove_file(root.path().join("10.0.0.2")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        write("10.0.0.2", None);
        assert_eq!(from_before("B"), ["10.0.0.3", "10.0.0.4"]);
        note(&directory, "net", "B", ours).unwrap();
        assert_eq!(from_before("C").len(), 4);
    }
}
