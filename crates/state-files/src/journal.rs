//! An append-only file of lines, and its recovery after a crash.
//!
//! Only lines that end with a line feed count as written. A killed process or a full disk may
//! leave a last line without one: no reader sees it, and the next append removes it.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

/// The open file of a journal. If there may be several writers, the caller locks the file.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// End of the last whole line; `None` until the file has been read.
    end: Cell<Option<u64>>,
    /// True if something follows that line.
    is_torn: Cell<bool>,
}

impl Journal {
    /// Access flags for opening a journal's file.
    pub const ACCESS: OFlags = OFlags::RDWR.union(OFlags::APPEND);

    /// The journal in a file that was opened with [`Self::ACCESS`]. Reads nothing yet.
    pub fn new(file: File) -> Self {
        Self {
            file,
            end: Cell::new(None),
            is_torn: Cell::new(false),
        }
    }

    /// The file: for a lock, for a comparison with the file at the path, or for a child process.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads all whole lines, each with its line feed. A torn last line is left out.
    ///
    /// # Errors
    ///
    /// An I/O error of `read`: the content is not known.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let length = self.file.metadata()?.len();
        // Lines that are appended during this read are left out.
        let mut content = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut content, 0)?;
        let end = whole_lines(&content).len();
        self.end.set(Some(end as u64));
        self.is_torn.set(end < content.len());
        content.truncate(end);
        Ok(content)
    }

    /// True if the last [`Self::read`] found a torn last line.
    pub fn is_torn(&self) -> bool {
        self.is_torn.get()
    }

    /// Appends lines, each with its line feed, in one write. A torn last line is removed first.
    ///
    /// # Errors
    ///
    /// An I/O error of `read`, `ftruncate` or `write`. Then none of the lines was written.
    /// Exception: if a partial write could not be removed, some of the first lines may have been
    /// written.
    pub fn append(&self, lines: &[u8]) -> io::Result<()> {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\n"));
        let Some(end) = self.end.get() else {
            self.read()?;
            return self.append(lines);
        };
        if self.is_torn.get() {
            self.cut(end)?;
        }
        if let Err(error) = self.file.write_all_at(lines, end) {
            // If the partial write can't be removed now, the next append reads the file again and
            // removes it.
            self.end.set(None);
            let _ = self.cut(end);
            return Err(error);
        }
        self.end.set(Some(end + lines.len() as u64));
        Ok(())
    }

    /// Removes all lines.
    ///
    /// # Errors
    ///
    /// An I/O error of `ftruncate`: the lines are still there.
    pub fn clear(&self) -> io::Result<()> {
        self.cut(0)
    }

    fn cut(&self, end: u64) -> io::Result<()> {
        self.file.set_len(end)?;
        self.end.set(Some(end));
        self.is_torn.set(false);
        Ok(())
    }
}

/// The whole lines of a journal's content, without a torn last line. For readers that don't
/// append.
///
/// ```
/// assert_eq!(state_files::whole_lines(b"one\ntwo\nthr"), b"one\ntwo\n");
/// assert_eq!(state_files::whole_lines(b"one"), b"");
/// ```
pub fn whole_lines(content: &[u8]) -> &[u8] {
    let end = content.iter().rposition(|byte| *byte == b'\n');
    &content[..end.map_or(0, |end| end + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::path::Path;

    use crate::StateFolder;

    fn open(folder: &Path) -> Journal {
        let folder = StateFolder::create(folder).unwrap();
        Journal::new(folder.create_file("journal", Journal::ACCESS).unwrap())
    }

    #[test]
    fn lines_are_read_back_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(folder.path());
        assert_eq!(journal.read().unwrap(), b"");
        journal.append(b"one\n").unwrap();
        journal.append(b"two\nthree\n").unwrap();
        assert_eq!(journal.read().unwrap(), b"one\ntwo\nthree\n");
        assert_eq!(open(folder.path()).read().unwrap(), b"one\ntwo\nthree\n");
        journal.clear().unwrap();
        journal.append(b"four\n").unwrap();
        assert_eq!(open(folder.path()).read().unwrap(), b"four\n");
    }

    #[test]
    fn a_torn_line_is_not_read_and_the_next_append_removes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let whole = b"one\nthe second\n";
        for end in 0..=whole.len() {
            let expected = [whole_lines(&whole[..end]), b"new\n"].concat();
            for reads_first in [true, false] {
                fs::write(&path, &whole[..end]).unwrap();
                let journal = open(folder.path());
                if reads_first {
                    assert_eq!(journal.read().unwrap(), whole_lines(&whole[..end]));
                }
                journal.append(b"new\n").unwrap();
                assert_eq!(fs::read(&path).unwrap(), expected, "{end}");
                assert_eq!(open(folder.path()).read().unwrap(), expected);
            }
        }
    }

    #[test]
    fn an_append_that_fails_leaves_the_lines_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = open(folder.path());
        journal.append(b"one\n").unwrap();
        // Neither a write nor a truncation is possible.
        let read_only = OpenOptions::new().read(true).open(&path).unwrap();
        let unwritable = Journal::new(read_only);
        unwritable.append(b"two\n").unwrap_err();
        unwritable.append(b"two\n").unwrap_err();
        unwritable.clear().unwrap_err();
        assert_eq!(unwritable.read().unwrap(), b"one\n");
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
    }

    #[test]
    fn a_disk_that_is_full_loses_the_new_line_only() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        // A limit on the file size acts like a full disk: one write is short, and the next fails.
        // The limit also sends a signal, which only a child process can ignore.
        const CHILD: &str = "STATE_FILES_SMALL_FILES";
        let Some(path) = std::env::var_os(CHILD) else {
            let folder = tempfile::tempdir().unwrap();
            let status = std::process::Command::new("/bin/sh")
                .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture"])
                .arg("journal::tests::a_disk_that_is_full_loses_the_new_line_only")
                .env(CHILD, folder.path())
                .stdout(std::process::Stdio::null())
                .status();
            assert!(status.unwrap().success());
            let content = fs::read(folder.path().join("journal")).unwrap();
            assert_eq!(content, b"first\nsecond\n");
            return;
        };
        let journal = open(Path::new(&path));
        journal.append(b"first\n").unwrap();
        let limit = getrlimit(Resource::Fsize);
        let small = Rlimit {
            current: Some(10),
            ..limit
        };
        setrlimit(Resource::Fsize, small).unwrap();
        journal.append(b"cut off\n").unwrap_err();
        assert_eq!(journal.read().unwrap(), b"first\n");
        assert_eq!(journal.file().metadata().unwrap().len(), 6);
        setrlimit(Resource::Fsize, limit).unwrap();
        journal.append(b"second\n").unwrap();
    }
}
