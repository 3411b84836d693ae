//! Generator of a directory's content: reservations, torn files, pipes, links.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bolero::TypeGenerator;
use fuzz::Bytes;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Content of the directory.
#[derive(Clone, Debug, TypeGenerator)]
pub(super) struct Contents {
    #[generator(bolero::produce::<Vec<Entry>>().with().len(0usize..=24))]
    entries: Vec<Entry>,
    /// `last_reserved_ip.0`, and what kind of file it is.
    last: Option<(Bytes, u8)>,
}

/// A file of one of the [`NAMES`].
#[derive(Clone, Debug, TypeGenerator)]
struct Entry {
    name: u8,
    content: Bytes,
    /// With some values, it is something else than a file.
    kind: u8,
    /// True if it was written just now.
    is_young: bool,
}

/// Addresses of the range, twice so that it is full now and then, others, and names
/// that are none.
const NAMES: [&str; 19] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.0.5",
    "10.0.0.6",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.0.5",
    "10.0.0.6",
    "10.0.0.7",
    "fd00::2",
    "FD00::2",
    "010.0.0.2",
    "10.0.0.2.tmp",
    "unfinished.tmp",
    "last_reserved_ip.1",
    "x",
];

const CONTENTS: &[&str] = &[
    "c2\r\neth0",
    "c3\r\neth0",
    "c4\r\neth0",
    "c1\r\neth1",
    "c2",
    "c3",
    "c1\r\neth0",
    "c1\r\neth0\r\ntestnet",
    "c1\r\neth0\r\nother",
    "c1",
    "c1\n",
    "",
    "c2\r\n",
    "\0\0\0\0\0\0\0\0",
];

impl Contents {
    /// Makes the directory.
    pub(super) fn write(&self, path: &Path) {
        fs::create_dir_all(path).unwrap();
        for entry in &self.entries {
            entry.write(path);
        }
        if let Some((last, kind)) = &self.last {
            let seeds = [
                "10.0.0.3",
                "10.0.0.6",
                "10.0.0.1",
                "fd00::2",
                " 10.0.0.4\n",
                "",
            ];
            put(&path.join("last_reserved_ip.0"), *kind, &last.of(&seeds));
        }
    }
}

impl Entry {
    fn write(&self, folder: &Path) {
        let path = folder.join(NAMES[usize::from(self.name) % NAMES.len()]);
        if fs::symlink_metadata(&path).is_err() {
            put(&path, self.kind, &self.content.of(CONTENTS));
            if !self.is_young && path.is_file() {
                let file = fs::File::options().write(true).open(path).unwrap();
                let old = SystemTime::now() - Duration::from_secs(60);
                file.set_modified(old).unwrap();
            }
        }
    }
}

/// A file with this content, or, with some kinds, something else.
fn put(path: &Path, kind: u8, content: &[u8]) {
    match kind {
        0..=7 => fs::create_dir(path).unwrap(),
        8..=15 => symlink("nowhere", path).unwrap(),
        16..=23 => mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap(),
        _ => fs::write(path, content).unwrap(),
    }
}
