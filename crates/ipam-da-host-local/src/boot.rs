//! Reservations from before the machine's last boot, for runtimes that neither
//! send DEL nor GC for what a reboot has ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The boot that the machine runs since.
#[derive(Clone, Debug)]
pub(crate) struct Boot {
    /// Different for each boot.
    pub(crate) id: String,
    proc: PathBuf,
}

impl Boot {
    /// Reads it from this folder, which is `/proc` but in tests.
    pub(crate) fn current(proc: PathBuf) -> io::Result<Self> {
        let id = fs::read_to_string(proc.join("sys/kernel/random/boot_id"))?;
        Ok(Self {
            id: id.trim().to_owned(),
            proc,
        })
    }

    /// When it was, in seconds since 1970 by the clock as it is set now.
    pub(crate) fn seconds(&self) -> io::Result<i64> {
        fs::read_to_string(self.proc.join("stat"))?
            .lines()
            .find_map(|line| line.strip_prefix("btime ")?.parse().ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat has no btime"))
    }
}

/// The note that a directory has been looked through since a boot.
pub(crate) struct Note(PathBuf);

impl Note {
    /// The one in this file.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Whether it says this boot.
    pub(crate) fn says(&self, boot: &Boot) -> bool {
        fs::read_to_string(&self.0).is_ok_and(|id| id == boot.id)
    }

    /// Makes it say this boot.
    pub(crate) fn write(&self, boot: &Boot) -> io::Result<()> {
        fs::create_dir_all(self.0.parent().unwrap_or(Path::new("/")))?;
        let unfinished = self.0.with_extension("tmp");
        fs::write(&unfinished, &boot.id)?;
        fs::rename(unfinished, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_booted() {
        let boot = Boot::current("/proc".into()).unwrap();
        assert!(!boot.id.is_empty());
        assert!(boot.seconds().unwrap() > 0);
    }

    #[test]
    fn a_note_is_of_one_boot() {
        let dir = tempfile::tempdir().unwrap();
        let boot = |id: &str| Boot {
            id: id.to_owned(),
            proc: "/nowhere".into(),
        };
        let note = Note::at(dir.path().join("cache/1-2.boot"));
        assert!(!note.says(&boot("a")));
        note.write(&boot("a")).unwrap();
        assert!(note.says(&boot("a")) && !note.says(&boot("b")));
        note.write(&boot("b")).unwrap();
        assert!(note.says(&boot("b")) && !note.says(&boot("a")));
    }
}
