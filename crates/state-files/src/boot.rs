//! The machine's last boot: its ID and its start.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cni::Environment;

/// Names a folder to be read instead of `/proc`.
const PROC: &str = "IPAM_DELEGATED_PROC";

/// The machine's last boot.
#[derive(Clone, Debug)]
pub struct Boot {
    id: String,
    proc: PathBuf,
    /// The start of this boot. It is read once, because many reservations are compared with it.
    start: OnceLock<i64>,
}

impl Boot {
    /// Reads the ID of the last boot: `/proc/sys/kernel/random/boot_id`, random(4).
    ///
    /// # Errors
    ///
    /// An I/O error of the file, and `InvalidData` if it is empty.
    pub fn current(environment: &Environment) -> io::Result<Self> {
        let proc = Path::new(environment.get(PROC).unwrap_or("/proc".as_ref()));
        let mut file = File::open(proc.join("sys/kernel/random/boot_id"))?;
        // One read is enough for a UUID and a line feed.
        let mut id = [0; 64];
        let length = file.read(&mut id)?;
        let id = str::from_utf8(&id[..length]).map_err(io::Error::other)?;
        match id.trim() {
            "" => Err(io::ErrorKind::InvalidData.into()),
            id => Ok(Self {
                id: id.to_owned(),
                proc: proc.to_owned(),
                start: OnceLock::new(),
            }),
        }
    }

    /// The ID that Linux gives each boot.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The start of this boot, in seconds since 1970 by the current clock: `btime` of
    /// `/proc/stat`, proc(5). If the clock was set since the boot, a file of this boot may have an
    /// earlier time.
    ///
    /// # Errors
    ///
    /// An I/O error of the file, and `InvalidData` if it has no such line.
    pub fn start(&self) -> io::Result<i64> {
        if let Some(start) = self.start.get() {
            return Ok(*start);
        }
        let stat = fs::read(self.proc.join("stat"))?;
        let lines = stat.split(|byte| *byte == b'\n');
        let seconds = lines
            .filter_map(|line| line.strip_prefix(b"btime "))
            .find_map(|seconds| str::from_utf8(seconds).ok()?.trim().parse().ok());
        let start = seconds.ok_or(io::ErrorKind::InvalidData)?;
        Ok(*self.start.get_or_init(|| start))
    }

    /// True if an event with this boot ID and time happened before this boot: the ID differs *and*
    /// the time is before this boot's start. The ID is not enough, because one kernel may show
    /// several IDs in separate containers. The time is not enough, because a clock may be wrong.
    ///
    /// # Errors
    ///
    /// As [`Self::start`]: then it is unknown whether the event is older.
    pub fn is_after(&self, id: &str, time: SystemTime) -> io::Result<bool> {
        if id == self.id {
            return Ok(false);
        }
        let start = u64::try_from(self.start()?).map_err(io::Error::other)?;
        Ok(time < UNIX_EPOCH + Duration::from_secs(start))
    }
}

/// The ID that Linux gives each boot; `None` if it can't be read.
pub fn boot_id(environment: &Environment) -> Option<String> {
    Boot::current(environment).ok().map(|boot| boot.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_booted() {
        let boot = Boot::current(&Environment::default()).unwrap();
        assert_eq!(boot.id().len(), 36, "{boot:?}");
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let start = boot.start().unwrap();
        assert!(start > 0 && start <= i64::try_from(now).unwrap(), "{start}");
    }

    #[test]
    fn an_earlier_boot_has_another_id_and_an_older_time() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir_all(proc.path().join("sys/kernel/random")).unwrap();
        fs::write(proc.path().join("sys/kernel/random/boot_id"), "now\n").unwrap();
        let environment = Environment::default().with(PROC, proc.path());
        let boot = Boot::current(&environment).unwrap();
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(!boot.is_after("now", at(1)).unwrap());
        boot.is_after("then", at(1)).unwrap_err();
        fs::write(proc.path().join("stat"), "cpu 1\nbtime 100\n").unwrap();
        assert!(boot.is_after("then", at(99)).unwrap());
        assert!(!boot.is_after("then", at(100)).unwrap());
        assert!(!boot.is_after("now", at(99)).unwrap());
    }
}
