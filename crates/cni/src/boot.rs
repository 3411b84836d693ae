//! The machine's last boot: its ID and its start.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::Environment;

/// Names a folder to be read instead of `/proc`.
const PROC: &str = "IPAM_DELEGATED_PROC";

/// The machine's last boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    id: String,
    proc: PathBuf,
}

impl Boot {
    /// Reads the ID of the last boot: `/proc/sys/kernel/random/boot_id`, random(4).
    ///
    /// # Errors
    ///
    /// The system's, and `InvalidData` for an empty file.
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
            }),
        }
    }

    /// The ID that Linux gives each boot.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The start of this boot by the clock as it is now, in seconds since 1970: `btime` of
    /// `/proc/stat`, proc(5). If the clock was set since, a file of this boot may have an
    /// earlier time.
    ///
    /// # Errors
    ///
    /// The system's, and `InvalidData` for a file without it.
    pub fn start(&self) -> io::Result<i64> {
        let stat = fs::read(self.proc.join("stat"))?;
        let lines = stat.split(|byte| *byte == b'\n');
        let seconds = lines
            .filter_map(|line| line.strip_prefix(b"btime "))
            .find_map(|seconds| str::from_utf8(seconds).ok()?.trim().parse().ok());
        seconds.ok_or_else(|| io::ErrorKind::InvalidData.into())
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
}
