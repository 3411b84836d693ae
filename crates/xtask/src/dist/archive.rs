//! Reproducible tar archive: its bytes depend only on its content, and not on the clock, the
//! user, or the order of a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use shipped::{MULTI_CALL, NETWORK_EXECUTABLES};
use tar::{Builder, EntryType, Header};

use super::Executables;
use crate::build::compression;

/// Files, sorted by their paths.
#[derive(Default)]
pub(crate) struct Archive {
    entries: BTreeMap<String, Entry>,
}

enum Entry {
    File {
        mode: u32,
        content: Vec<u8>,
    },
    /// A hard link to the file at this path, which comes before it.
    Link(String),
    /// A symbolic link to this path.
    SymbolicLink(String),
    Folder,
}

impl Archive {
    /// Adds a text file.
    pub(crate) fn text(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        let (mode, content) = (0o644, content.into());
        self.entries
            .insert(path.to_owned(), Entry::File { mode, content });
    }

    /// Adds all files in a folder and its subfolders, below `path`.
    pub(crate) fn text_files(&mut self, path: &str, folder: &Path) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let path = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.text_files(&path, &entry.path())?;
            } else {
                self.text(&path, fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// Adds an executable under several names.
    pub(crate) fn executable(&mut self, paths: &[String], content: &[u8]) {
        let Some(first) = paths.iter().min() else {
            return;
        };
        for path in paths {
            self.entries
                .insert(path.clone(), Entry::Link(first.clone()));
        }
        let (mode, content) = (0o755, content.to_vec());
        self.entries
            .insert(first.clone(), Entry::File { mode, content });
    }

    /// Adds all plugins to the first folder, those with a network client to the second.
    pub(crate) fn plugins(&mut self, folders: [&str; 2], executables: &Executables) {
        let [plugins, network_plugins] = folders;
        for (folder, group) in [
            (plugins, &[MULTI_CALL][..]),
            (network_plugins, &NETWORK_EXECUTABLES),
        ] {
            for executable in group {
                let paths = executable.plugins.iter();
                let paths: Vec<String> = paths.map(|name| format!("{folder}/{name}")).collect();
                self.executable(&paths, &executables[executable.file]);
            }
        }
    }

    /// The archive with each path below the first of these folders that it is in moved to the one
    /// beside it. `` is the folder of all.
    pub(crate) fn moved(self, folders: &[(&str, &str)]) -> Self {
        let moved = |path: &str| {
            let mut folders = folders.iter();
            let moved =
                folders.find_map(|(from, to)| Some(format!("{to}{}", path.strip_prefix(from)?)));
            moved.unwrap_or_else(|| path.to_owned())
        };
        let entries = self.entries.into_iter().map(|(path, entry)| {
            let entry = match entry {
                Entry::Link(to) => Entry::Link(moved(&to)),
                entry => entry,
            };
            (moved(&path), entry)
        });
        Self {
            entries: entries.collect(),
        }
    }

    /// Replaces a text in all files below a folder.
    pub(crate) fn replace_in(&mut self, folder: &str, from: &str, to: &str) {
        for (path, entry) in &mut self.entries {
            if let Entry::File { content, .. } = entry
                && path.starts_with(folder)
            {
                let replaced = String::from_utf8_lossy(content).replace(from, to);
                *content = replaced.into_bytes();
            }
        }
    }

    /// Adds a symbolic link.
    pub(crate) fn symbolic_link(&mut self, path: &str, to: &str) {
        let link = Entry::SymbolicLink(to.to_owned());
        self.entries.insert(path.to_owned(), link);
    }

    /// Adds the parent folders of all entries. Docker would make them with a mode that shuts
    /// out root without capabilities.
    pub(crate) fn parents(&mut self) {
        let paths: Vec<String> = self.entries.keys().cloned().collect();
        for path in paths {
            for (end, _) in path.match_indices('/') {
                self.folder(&path[..end]);
            }
        }
    }

    /// Adds an empty folder.
    pub(crate) fn folder(&mut self, path: &str) {
        self.entries.insert(path.to_owned(), Entry::Folder);
    }

    /// The archive's bytes, compressed, with all files below `folder` and with this time, in
    /// seconds since 1970.
    pub(crate) fn to_bytes(&self, folder: &str, time: u64) -> Result<Vec<u8>> {
        compressed(&self.to_tar(&format!("{folder}/"), time)?)
    }

    /// The bytes without compression. Each path has the prefix in front.
    pub(crate) fn to_tar(&self, prefix: &str, time: u64) -> Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let path = format!("{prefix}{path}");
            let mut header = Header::new_gnu();
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(time);
            let (kind, mode, content) = match entry {
                Entry::File { mode, content } => (EntryType::Regular, *mode, content.as_slice()),
                Entry::Link(_) => (EntryType::Link, 0o755, &[][..]),
                Entry::SymbolicLink(_) => (EntryType::Symlink, 0o777, &[][..]),
                Entry::Folder => (EntryType::Directory, 0o755, &[][..]),
            };
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(content.len().try_into()?);
            match entry {
                Entry::File { .. } => tar.append_data(&mut header, path, content)?,
                Entry::Link(to) => tar.append_link(&mut header, path, format!("{prefix}{to}"))?,
                Entry::SymbolicLink(to) => tar.append_link(&mut header, path, to)?,
                Entry::Folder => tar.append_data(&mut header, format!("{path}/"), content)?,
            }
        }
        Ok(tar.into_inner()?)
    }
}

/// The bytes, compressed by gzip, without the present time.
pub(crate) fn compressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(compression()));
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_their_files_and_the_same_content_gives_the_same_bytes() {
        let make = || {
            let mut archive = Archive::default();
            let names = ["plugins/b", "plugins/a"].map(str::to_owned);
            archive.executable(&names, b"x");
            archive.symbolic_link("var/run", "../run");
            archive.parents();
            archive.to_tar("", 1).unwrap()
        };
        let bytes = make();
        assert_eq!(bytes, make());
        let mut tar = tar::Archive::new(bytes.as_slice());
        let entries = tar.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.header().mode().unwrap();
            format!("{} {mode:o}", entry.path().unwrap().display())
        });
        let expected = [
            "plugins/ 755",
            "plugins/a 755",
            "plugins/b 755",
            "var/ 755",
            "var/run 777",
        ];
        assert_eq!(entries.collect::<Vec<_>>(), expected);
    }
}
