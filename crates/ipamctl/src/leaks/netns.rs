//! Existence of a recorded network namespace: yes, no, or unknown.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chain::record::AttachmentRecord;
use state_files::{Boot, is_namespace};

/// Folders of network namespaces. Other paths aren't looked up: their file system may hang.
const NAMESPACES: [&str; 3] = ["/run/", "/var/run/", "/proc/"];

/// Ticks per second in `/proc/PID/stat`: `USER_HZ`, the same on all supported platforms.
const TICKS: u64 = 100;

/// State of the network namespace of an ADD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// The recorded path is a network namespace.
    There,
    /// The recorded path doesn't exist.
    Missing,
    /// The ADD was before this boot, which ended every namespace.
    BeforeBoot,
    /// Unknown, for this reason.
    Unknown(String),
}

impl Namespace {
    /// The namespace of a recorded ADD. `boot` is `None` if the boot ID can't be read.
    pub(crate) fn of(content: &AttachmentRecord, boot: Option<&Boot>) -> Self {
        if let (Some(then), Some(now)) = (&content.boot, boot)
            && then != now.id()
        {
            let why = match now.is_after(then, content.added) {
                Ok(true) => return Self::BeforeBoot,
                Ok(false) => "is no older than this boot",
                Err(_) => "the start of this boot can't be read",
            };
            return Self::Unknown(format!("its ADD has another boot ID, and {why}"));
        }
        Self::at(&content.netns, content.added, boot)
    }

    /// The namespace at a path, of an ADD that began at this time.
    fn at(path: &str, added: SystemTime, boot: Option<&Boot>) -> Self {
        if !NAMESPACES.iter().any(|folder| path.starts_with(folder)) {
            return Self::Unknown(format!("netns {path:?} is not in /run or /proc"));
        }
        let pid = pid_of(path);
        if pid.is_some() && !is_own_proc() {
            return Self::Unknown("/proc shows the processes of another namespace".to_owned());
        }
        match is_namespace(Path::new(path)) {
            Ok(true) => match pid.map(|pid| start_of(pid, boot)) {
                None => Self::There,
                Some(Ok(start)) if start <= added => Self::There,
                Some(Ok(_)) => Self::Unknown(format!(
                    "netns {path}: this process began after the ADD, so it may be another one"
                )),
                Some(Err(reason)) => Self::Unknown(format!("netns {path}: {reason}")),
            },
            // In the runtime's mount namespace, a network namespace may be mounted on it.
            Ok(false) => Self::Unknown(format!("netns {path} is no namespace here")),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory if pid.is_some() => Self::Missing,
                ErrorKind::NotFound | ErrorKind::NotADirectory => missing_in_its_folder(path),
                _ => Self::Unknown(format!("netns {path}: {error}")),
            },
        }
    }
}

/// The state of a missing path: unknown if its folder, such as `/run/netns`, is missing, too. Then
/// this process may be in another mount namespace than the runtime.
fn missing_in_its_folder(path: &str) -> Namespace {
    let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
    match fs::metadata(folder) {
        Ok(_) => Namespace::Missing,
        Err(error) => Namespace::Unknown(format!("{}: {error}", folder.display())),
    }
}

/// The process that a path such as `/proc/4711/ns/net` names.
fn pid_of(path: &str) -> Option<u32> {
    path.strip_prefix("/proc/")?.split('/').next()?.parse().ok()
}

/// True if `/proc` shows the PIDs that this process sees.
fn is_own_proc() -> bool {
    let own = fs::read_link("/proc/self");
    own.is_ok_and(|target| target.to_str() == Some(&std::process::id().to_string()))
}

/// Start time of a process by the present clock, rounded down to a second.
fn start_of(pid: u32, boot: Option<&Boot>) -> Result<SystemTime, String> {
    let boot = boot.and_then(|boot| u64::try_from(boot.start().ok()?).ok());
    let boot = boot.ok_or("the start of this boot can't be read")?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|e| e.to_string())?;
    // The name, which may have spaces, is in parentheses.
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest);
    let ticks = after_name.and_then(|rest| rest.split_whitespace().nth(19)?.parse::<u64>().ok());
    let ticks = ticks.ok_or("the start of this process can't be read")?;
    Ok(UNIX_EPOCH + Duration::from_secs(boot + ticks / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::Environment;

    fn at(path: &str) -> Namespace {
        let boot = Boot::current(&Environment::default()).ok();
        Namespace::at(path, SystemTime::now(), boot.as_ref())
    }

    #[test]
    fn a_namespace_is_there_missing_or_unknown() {
        assert_eq!(at("/run/ipamctl-test-none"), Namespace::Missing);
        assert_eq!(at("/proc/self/status/x"), Namespace::Missing);
        assert_eq!(at("/proc/self/ns/net"), Namespace::There);
        let own = std::process::id();
        assert_eq!(at(&format!("/proc/{own}/ns/net")), Namespace::There);
        for unknown in [
            // The runtime may see a namespace there.
            "/proc/self/status",
            // Its folder may be there for the runtime.
            "/run/ipamctl-test-none/netns",
            // Not looked at.
            "/nowhere/netns",
            "",
        ] {
            assert!(matches!(at(unknown), Namespace::Unknown(_)), "{unknown}");
        }
    }

    #[test]
    fn a_process_that_began_after_the_add_may_be_another_one() {
        let path = format!("/proc/{}/ns/net", std::process::id());
        let boot = Boot::current(&Environment::default()).ok();
        let an_hour_ago = SystemTime::now() - Duration::from_secs(3_600);
        let namespace = Namespace::at(&path, an_hour_ago, boot.as_ref());
        assert!(
            matches!(&namespace, Namespace::Unknown(why) if why.contains("another one")),
            "{namespace:?}"
        );
        // Without the boot's start, nobody can say.
        let namespace = Namespace::at(&path, SystemTime::now(), None);
        assert!(matches!(namespace, Namespace::Unknown(_)));
    }
}
