//! Whether a recorded network namespace is still there: yes, no, or unknown.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chain::record::AttachmentRecord;
use cni::Environment;
use state_files::is_namespace;

/// Folders of network namespaces. Nothing else is looked at: a file system of somebody
/// else's may not answer.
const NAMESPACES: [&str; 3] = ["/run/", "/var/run/", "/proc/"];

/// Ticks of a second in `/proc/PID/stat`: `USER_HZ`, the same on each Linux that we build for.
const TICKS: u64 = 100;

/// What is known of the network namespace of an ADD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// There is a network namespace at the recorded path.
    There,
    /// There is nothing at the recorded path.
    Missing,
    /// The ADD was before this boot, which ended every namespace.
    BeforeBoot,
    /// Neither is certain, for this reason.
    Unknown(String),
}

/// What the kernel says of the boot that is running.
#[derive(Clone, Debug)]
pub(crate) struct Boot {
    id: Option<String>,
    /// Its start, by the clock of now.
    started: Option<SystemTime>,
}

impl Boot {
    /// Reads it.
    pub(crate) fn read(environment: &Environment) -> Self {
        let boot = state_files::Boot::current(environment).ok();
        let seconds = boot
            .as_ref()
            .and_then(|it| it.start().ok()?.try_into().ok());
        Self {
            id: boot.map(|it| it.id().to_owned()),
            started: seconds.map(|it| UNIX_EPOCH + Duration::from_secs(it)),
        }
    }
}

impl Namespace {
    /// The namespace of a recorded ADD.
    ///
    /// A record is from before this boot if it has another boot ID *and* its ADD began before
    /// this boot did: one kernel may show several IDs, in containers of their own.
    pub(crate) fn of(content: &AttachmentRecord, boot: &Boot) -> Self {
        match (&content.boot, &boot.id) {
            (Some(its), Some(now)) if its != now => match boot.started {
                Some(started) if content.added < started => Self::BeforeBoot,
                Some(_) => Self::Unknown(
                    "its ADD has another boot ID, and is no older than this boot".to_owned(),
                ),
                None => Self::Unknown(
                    "its ADD has another boot ID, and the start of this boot can't be read"
                        .to_owned(),
                ),
            },
            _ => Self::at(&content.netns, content.added, boot.started),
        }
    }

    /// The namespace at a path, as of an ADD that began at this time.
    fn at(path: &str, added: SystemTime, boot: Option<SystemTime>) -> Self {
        if !NAMESPACES.iter().any(|folder| path.starts_with(folder)) {
            return Self::Unknown(format!("netns {path:?} is not in /run or /proc"));
        }
        let pid = pid_of(path);
        if pid.is_some() && !is_own_proc() {
            return Self::Unknown("/proc shows the processes of another namespace".to_owned());
        }
        match is_namespace(Path::new(path)) {
            Ok(true) => match pid.map(|pid| began(pid, boot)) {
                None => Self::There,
                Some(Ok(began)) if began <= added => Self::There,
                Some(Ok(_)) => Self::Unknown(format!(
                    "netns {path}: this process began after the ADD, so it may be another one"
                )),
                Some(Err(reason)) => Self::Unknown(format!("netns {path}: {reason}")),
            },
            // A namespace may be mounted on it where the runtime sees it.
            Ok(false) => Self::Unknown(format!("netns {path} is no namespace here")),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                if pid.is_some() {
                    return Self::Missing;
                }
                missing_in_its_folder(path)
            }
            Err(error) => Self::Unknown(format!("netns {path}: {error}")),
        }
    }
}

/// Nothing is at this path. Without its folder, such as `/run/netns`, this may be another mount
/// namespace than the runtime's, a container's for example.
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
    own.is_ok_and(|it| it.to_str() == Some(&std::process::id().to_string()))
}

/// The time at which a process began, by the clock of now, rounded down to a second.
fn began(pid: u32, boot: Option<SystemTime>) -> Result<SystemTime, String> {
    let boot = boot.ok_or("the start of this boot can't be read")?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|e| e.to_string())?;
    // The name, which may have spaces, is in parentheses.
    let behind_name = stat.rsplit_once(')').map(|(_, rest)| rest);
    let ticks = behind_name.and_then(|it| it.split_whitespace().nth(19)?.parse::<u64>().ok());
    let ticks = ticks.ok_or("the start of this process can't be read")?;
    Ok(boot + Duration::from_secs(ticks / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Namespace {
        let boot = Boot::read(&Environment::default());
        Namespace::at(path, SystemTime::now(), boot.started)
    }

    #[test]
    fn a_namespace_is_there_missing_or_unknown() {
        assert_eq!(at("/run/ipamctl-test-none"), Namespace::Missing);
        assert_eq!(at("/proc/self/status/x"), Namespace::Missing);
        assert_eq!(at("/proc/self/ns/net"), Namespace::There);
        let own = std::process::id();
        assert_eq!(at(&format!("/proc/{own}/ns/net")), Namespace::There);
        for unknown in [
            // It may be one for the runtime.
            "/proc/self/status",
            // It may be where the runtime runs.
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
        let boot = Boot::read(&Environment::default());
        let an_hour_ago = SystemTime::now() - Duration::from_secs(3_600);
        let it = Namespace::at(&path, an_hour_ago, boot.started);
        assert!(
            matches!(&it, Namespace::Unknown(why) if why.contains("another one")),
            "{it:?}"
        );
        // Without the boot's start, nobody can say.
        let it = Namespace::at(&path, SystemTime::now(), None);
        assert!(matches!(it, Namespace::Unknown(_)));
    }
}
