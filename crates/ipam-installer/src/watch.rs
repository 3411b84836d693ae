//! Waits until something changes in one of several folders, without asking again and again:
//! by inotify, and by the kernel's word that a mount has changed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// The table of mounts, which becomes readable with every change of it.
const MOUNTS: &str = "/proc/self/mountinfo";

/// A part of the installation that a change in a folder is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Plugins,
    Tool,
    Pools,
    Conflists,
}

/// Names in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    All,
    These(BTreeSet<String>),
    /// With one of these extensions.
    With(&'static [&'static str]),
}

impl Names {
    /// True for a name that matters; `None` is an event of the folder itself.
    fn contain(&self, name: Option<&str>) -> bool {
        let extension = |name: &str| name.rsplit_once('.').map(|(_, it)| it.to_owned());
        match (self, name) {
            (Self::All, _) => true,
            (_, None) => false,
            (Self::These(names), Some(name)) => names.contains(name),
            (Self::With(all), Some(name)) => {
                extension(name).is_some_and(|it| all.contains(&it.as_str()))
            }
        }
    }
}

/// A folder, and the names in it that matter.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) folder: PathBuf,
    pub(crate) names: Names,
    pub(crate) part: Part,
}

/// What was waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// SIGTERM or SIGINT.
    Stop,
    /// Changes, which may be none.
    Changes(BTreeSet<Part>),
    /// Anything may have changed, and the watches have to be made again.
    Lost,
}

/// SIGTERM and SIGINT, which don't end the process any more.
#[derive(Debug)]
pub(crate) struct Signals(PipeReader);

impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        for signal in [SIGTERM, SIGINT] {
            pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self(reader))
    }

    /// Waits for a signal; true if one came within this time.
    pub(crate) fn came_within(&self, time: Option<Duration>) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        wait(&mut fds, time)?;
        Ok(!fds[0].revents().is_empty())
    }
}

/// Watches of several folders.
#[derive(Debug)]
pub(crate) struct Watch {
    inotify: OwnedFd,
    mounts: File,
    watched: Vec<(i32, Watched)>,
}

impl Watch {
    /// Watches these folders from now on.
    ///
    /// # Errors
    ///
    /// The system's, naming the folder.
    pub(crate) fn start(folders: Vec<Watched>) -> io::Result<Self> {
        let mut mounts = File::open(MOUNTS)?;
        // A change is told once the table has been read.
        mounts.read_to_end(&mut Vec::new())?;
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let inotify = inotify.map_err(|error| match error {
            Errno::MFILE => io::Error::other(
                "no inotify instance is left: raise the node's fs.inotify.max_user_instances",
            ),
            error => error.into(),
        })?;
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let mut watched = Vec::new();
        for it in folders {
            let number = inotify::add_watch(&inotify, &it.folder, flags).map_err(|error| {
                let folder = it.folder.display();
                let text = match error {
                    Errno::NOSPC => "raise the node's fs.inotify.max_user_watches".to_owned(),
                    error => io::Error::from(error).to_string(),
                };
                io::Error::other(format!("{folder}: {text}"))
            })?;
            watched.push((number, it));
        }
        Ok(Self {
            inotify,
            mounts,
            watched,
        })
    }

    /// Waits for a change, for a signal, or for this time.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn wait(&self, signals: &Signals, time: Option<Duration>) -> io::Result<Woken> {
        let deadline = time.map(|time| Instant::now() + time);
        loop {
            let mut fds = [
                PollFd::new(&signals.0, PollFlags::IN),
                PollFd::new(&self.mounts, PollFlags::PRI),
                PollFd::new(&self.inotify, PollFlags::IN),
            ];
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            wait(&mut fds, left)?;
            let [stop, mounts, changes] = fds.map(|fd| !fd.revents().is_empty());
            if stop {
                return Ok(Woken::Stop);
            }
            if mounts {
                return Ok(Woken::Lost);
            }
            let woken = if changes {
                self.read()?
            } else {
                Woken::Changes(BTreeSet::new())
            };
            let is_over = left.is_some_and(|it| it.is_zero()) || !changes;
            // Most changes are of names that don't matter.
            if is_over || woken != Woken::Changes(BTreeSet::new()) {
                return Ok(woken);
            }
        }
    }

    /// Reads all changes that have come.
    pub(crate) fn read(&self) -> io::Result<Woken> {
        let mut parts = BTreeSet::new();
        let mut is_lost = false;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(self.inotify.as_fd(), &mut buffer);
        loop {
            let event = match reader.next() {
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let gone = ReadFlags::QUEUE_OVERFLOW
                | ReadFlags::IGNORED
                | ReadFlags::UNMOUNT
                | ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF;
            is_lost |= event.events().intersects(gone);
            let name = event.file_name().map(|it| it.to_string_lossy());
            for (number, it) in &self.watched {
                if *number == event.wd() && it.names.contain(name.as_deref()) {
                    parts.insert(it.part);
                }
            }
        }
        Ok(if is_lost {
            Woken::Lost
        } else {
            Woken::Changes(parts)
        })
    }
}

fn wait(fds: &mut [PollFd<'_>], time: Option<Duration>) -> io::Result<()> {
    let time = time.map(|it| {
        Timespec::try_from(it).unwrap_or(Timespec {
            tv_sec: 3600,
            tv_nsec: 0,
        })
    });
    match poll(fds, time.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SOON: Option<Duration> = Some(Duration::from_secs(10));

    fn quiet() -> Signals {
        // Never written to: a test has no signals.
        Signals(
            io::pipe()
                .map(|(reader, writer)| {
                    std::mem::forget(writer);
                    reader
                })
                .unwrap(),
        )
    }

    #[test]
    fn only_names_that_matter_wake_it() {
        let folder = tempfile::tempdir().unwrap();
        let watched = Watched {
            folder: folder.path().to_owned(),
            names: Names::These(["a".to_owned()].into()),
            part: Part::Plugins,
        };
        let watch = Watch::start(vec![watched]).unwrap();
        fs::write(folder.path().join("other"), "x").unwrap();
        let nothing = Woken::Changes(BTreeSet::new());
        assert_eq!(watch.wait(&quiet(), Some(Duration::ZERO)).unwrap(), nothing);
        fs::write(folder.path().join("a"), "x").unwrap();
        let changed = Woken::Changes([Part::Plugins].into());
        assert_eq!(watch.wait(&quiet(), SOON).unwrap(), changed);
        fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(watch.wait(&quiet(), SOON).unwrap(), Woken::Lost);
    }
}
