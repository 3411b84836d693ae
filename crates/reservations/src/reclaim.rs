//! Releases a network's reservations from before the machine's last boot.
//!
//! A reservation is released only if both are known:
//!
//! - it belongs to another boot: by the boot's ID in its file's attribute
//!   ([`crate::origin`]), which ADD writes; or, for a file without one, by the file
//!   `last_boot.<network>` in the directory. This file names the boot in which the network
//!   looked through the directory last, and lists the reservations that it found then,
//!   each with inode and change time;
//! - its file was last changed before this boot started.
//!
//! The boot's ID is not enough, since a container manager may make several on one kernel. Nor
//! is the time of the last change, since the clock may be wrong.
//!
//! If one of the two is unknown, the reservation stays. One that may be of this boot, made by
//! host-local for example, is listed in `last_boot.<network>` and released after the next boot.

use std::collections::HashSet;
use std::fs::Metadata;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use state_files::Boot;

use crate::directory::Directory;
use crate::new_file;
use crate::origin::{self, Fact, Noted};
use crate::state::State;

/// Start of the file's name. host-local doesn't take the file for a reservation: its content
/// is not a container ID, with or without an interface.
const PREFIX: &str = "last_boot.";

/// First line of the file, before the boot's ID.
const BOOT: &str = "boot ";

/// Last line of the file, before the checksum of all lines above.
const SUM: &str = "sum ";

/// The network's reservations in the directory, by their boot.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The network's reservations that are known to be from an earlier boot.
    pub(crate) from_before: Vec<IpAddr>,
    /// Lines of the network's other reservations, for [`note`].
    kept: Vec<String>,
    /// Number of reservations that another boot made, but that aren't older than this boot.
    pub(crate) undecided: usize,
}

/// Looks through the directory. `None` if the network has done so in this boot.
///
/// # Errors
///
/// An I/O error if something can't be read: then nothing is known.
pub(crate) fn look(
    directory: &Directory,
    network: &str,
    boot: &Boot,
    is_ours: impl Fn(&State) -> bool,
) -> io::Result<Option<Found>> {
    let last = LastReclaim::read(directory, network)?;
    if last.as_ref().is_some_and(|last| last.boot == boot.id()) {
        return Ok(None);
    }
    let ours: Vec<(IpAddr, Metadata)> = directory
        .read_all()?
        .filter(|(_, file)| is_ours(&file.state))
        .filter_map(|(ip, file)| Some((ip, file.metadata?)))
        .collect();
    let mut found = Found::default();
    for (ip, metadata) in ours {
        let line = line(ip, &metadata);
        let made_in = match origin::read(directory, ip, Fact::Boot)? {
            Noted::Id(id) => Some(id),
            Noted::Nothing | Noted::Impossible => last
                .as_ref()
                .filter(|last| last.kept.contains(&line))
                .map(|last| last.boot.clone()),
        };
        match made_in.filter(|id| id != boot.id()) {
            None => found.kept.push(line),
            Some(id) if boot.is_after(&id, changed_last(&metadata)?)? => {
                found.from_before.push(ip);
            }
            Some(_) => found.undecided += 1,
        }
    }
    Ok(Some(found))
}

/// The later one of a file's modification and change times.
fn changed_last(metadata: &Metadata) -> io::Result<SystemTime> {
    let seconds = u64::try_from(metadata.ctime()).map_err(io::Error::other)?;
    Ok(metadata
        .modified()?
        .max(UNIX_EPOCH + Duration::from_secs(seconds)))
}

/// Notes that the network has looked through the directory in this boot, and which of
/// its reservations it has kept.
pub(crate) fn note(
    directory: &Directory,
    network: &str,
    boot: &Boot,
    found: &Found,
) -> io::Result<()> {
    let mut content = format!("{BOOT}{}\n", boot.id());
    for line in &found.kept {
        content.push_str(line);
        content.push('\n');
    }
    let sum = checksum(&content);
    content.push_str(&format!("{SUM}{sum:016x}\n"));
    new_file::replace(directory, &file_name(network), content.as_bytes())
}

/// The last time that a network looked through a directory for reservations from before a
/// boot (`ipam.reclaim`): the content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastReclaim {
    /// The kernel's ID of the boot.
    pub boot: String,
    /// The time at which the file was written.
    pub time: Option<SystemTime>,
    /// Lines of the reservations that the network found there then, and kept.
    pub kept: HashSet<String>,
}

fn file_name(network: &str) -> String {
    format!("{PREFIX}{network}")
}

fn line(ip: IpAddr, metadata: &Metadata) -> String {
    let (seconds, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
    format!("{ip} {} {seconds}.{nanoseconds:09}", metadata.ino())
}

/// A checksum against accidents: FNV-1a.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl LastReclaim {
    /// Reads the file. `None` if it is missing, as the network hasn't looked through the
    /// directory yet, or if it is damaged, which is logged.
    pub(crate) fn read(directory: &Directory, network: &str) -> io::Result<Option<Self>> {
        let name = file_name(network);
        let (content, metadata) = match directory.read_file(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let last = Self::parse(&content, metadata.modified().ok());
        if last.is_none() {
            let path = directory.path().join(name);
            tracing::warn!(
                path = %path.display(),
                "damaged: what it lists is released one boot later"
            );
        }
        Ok(last)
    }

    fn parse(content: &[u8], time: Option<SystemTime>) -> Option<Self> {
        let text = str::from_utf8(content).ok()?;
        let at = text.strip_suffix('\n')?.rfind('\n')? + 1;
        let (lines, sum) = text.split_at(at);
        let sum = sum.trim_end().strip_prefix(SUM)?;
        if u64::from_str_radix(sum, 16) != Ok(checksum(lines)) {
            return None;
        }
        let mut lines = lines.lines();
        let boot = lines.next()?.strip_prefix(BOOT)?.to_owned();
        let kept = lines.map(str::to_owned).collect();
        Some(Self { boot, time, kept })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    use cni::Environment;

    use crate::new_file::Content;

    fn ours(state: &State) -> bool {
        matches!(state, State::Reserved(reservation) if reservation.network.is_none())
    }

    /// A boot with this ID that starts `from_now` seconds after now; negative: before now.
    fn boot(proc: &Path, id: &str, from_now: i64) -> Boot {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let start = i64::try_from(now.as_secs()).unwrap() + from_now;
        fs::create_dir_all(proc.join("sys/kernel/random")).unwrap();
        fs::write(proc.join("sys/kernel/random/boot_id"), id).unwrap();
        fs::write(proc.join("stat"), format!("cpu 1 2\nbtime {start}\n")).unwrap();
        let environment = Environment::default().with("IPAM_DELEGATED_PROC", proc);
        Boot::current(&environment).unwrap()
    }

    fn ips(found: &Found) -> Vec<String> {
        let mut ips: Vec<String> = found.from_before.iter().map(ToString::to_string).collect();
        ips.sort();
        ips
    }

    struct Place {
        root: tempfile::TempDir,
        directory: Directory,
    }

    impl Place {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join("net")).unwrap();
            let directory = Directory::open(&root.path().join("net")).unwrap().unwrap();
            Self { root, directory }
        }

        fn boot(&self, id: &str, from_now: i64) -> Boot {
            boot(&self.root.path().join("proc"), id, from_now)
        }

        fn write(&self, ip: &str, boot: Option<&str>) {
            let origin: Vec<(Fact, &str)> = boot.map(|id| (Fact::Boot, id)).into_iter().collect();
            let content = Content {
                bytes: b"c1\r\neth0",
                origin: &origin,
            };
            assert!(new_file::create(&self.directory, ip, content).unwrap());
        }

        fn look(&self, boot: &Boot) -> Option<Found> {
            look(&self.directory, "net", boot, ours).unwrap()
        }

        fn note(&self, boot: &Boot) {
            let found = self.look(boot).unwrap();
            note(&self.directory, "net", boot, &found).unwrap();
        }
    }

    #[test]
    fn only_what_is_known_from_an_earlier_boot_goes() {
        let place = Place::new();
        place.write("10.0.0.2", None);
        place.write("10.0.0.3", Some("A"));
        let first = place.boot("A", -9);
        // The network has never looked through the directory.
        assert!(ips(&place.look(&first).unwrap()).is_empty());
        place.note(&first);
        assert!(place.look(&first).is_none());
        let last = LastReclaim::read(&place.directory, "net").unwrap().unwrap();
        assert_eq!((last.boot.as_str(), last.kept.len()), ("A", 2));
        place.write("10.0.0.4", Some("A"));
        place.write("10.0.0.5", None);
        // A new file with the name of a listed one.
        fs::remove_file(place.directory.path().join("10.0.0.2")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        place.write("10.0.0.2", None);
        let second = place.boot("B", 9);
        assert_eq!(ips(&place.look(&second).unwrap()), ["10.0.0.3", "10.0.0.4"]);
        place.note(&second);
        let third = place.boot("C", 9);
        assert_eq!(ips(&place.look(&third).unwrap()).len(), 4);
    }

    #[test]
    fn another_id_on_the_same_kernel_releases_nothing() {
        let place = Place::new();
        let first = place.boot("A", -9);
        place.write("10.0.0.2", None);
        place.note(&first);
        place.write("10.0.0.3", Some("A"));
        let found = place.look(&place.boot("B", -9)).unwrap();
        assert_eq!((ips(&found).len(), found.undecided), (0, 2));
    }

    #[test]
    fn nothing_is_known_from_a_damaged_note() {
        let place = Place::new();
        let first = place.boot("A", -9);
        place.write("10.0.0.2", None);
        place.note(&first);
        let path = place.directory.path().join("last_boot.net");
        let whole = fs::read(&path).unwrap();
        let second = place.boot("B", 9);
        assert_eq!(place.look(&second).unwrap().from_before.len(), 1);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert!(ips(&place.look(&second).unwrap()).is_empty(), "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(ips(&place.look(&second).unwrap()).is_empty(), "cut at {at}");
        }
    }

    #[test]
    fn an_unknown_start_of_the_boot_is_an_error() {
        let place = Place::new();
        place.write("10.0.0.2", Some("A"));
        let second = place.boot("B", 9);
        fs::remove_file(place.root.path().join("proc/stat")).unwrap();
        look(&place.directory, "net", &second, ours).unwrap_err();
    }

    #[test]
    fn a_file_whose_modification_time_was_set_back_is_as_new_as_its_last_change() {
        let place = Place::new();
        place.write("10.0.0.2", Some("A"));
        let path = place.directory.path().join("10.0.0.2");
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(UNIX_EPOCH).unwrap();
        let found = place.look(&place.boot("B", -9)).unwrap();
        assert_eq!((ips(&found).len(), found.undecided), (0, 1));
    }

    #[test]
    fn a_note_that_can_not_be_read_is_an_error() {
        let place = Place::new();
        fs::create_dir(place.directory.path().join("last_boot.net")).unwrap();
        look(&place.directory, "net", &place.boot("A", -9), ours).unwrap_err();
    }
}
