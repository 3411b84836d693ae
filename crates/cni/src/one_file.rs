//! Several plugins in one executable, which is each of them by the name that it
//! is called by.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::{Error, Plugin, SpecVersion};

/// How many symbolic links are followed, as many as the kernel does.
const MOST_LINKS: usize = 40;

/// The plugins of one executable.
#[derive(Clone, Copy, Default)]
pub struct OneFile<'a> {
    plugins: &'a [&'a dyn Plugin],
}

impl<'a> OneFile<'a> {
    /// An executable with these plugins, which differ in their names.
    pub fn new(plugins: &'a [&'a dyn Plugin]) -> Self {
        Self { plugins }
    }

    /// The plugin that the executable is when it is called by this path: the one
    /// of that name, or of the name that a symbolic link there leads to.
    pub fn plugin(&self, path: &Path) -> Option<&'a dyn Plugin> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let plugin = path.file_name().and_then(|name| self.named(name));
            if plugin.is_some() {
                return plugin;
            }
            let target = fs::read_link(&path).ok()?;
            path.pop();
            path.push(target);
        }
        None
    }

    fn named(&self, name: &OsStr) -> Option<&'a dyn Plugin> {
        let is_it = |plugin: &&&dyn Plugin| name == plugin.about().name;
        self.plugins.iter().find(is_it).copied()
    }

    /// Runs the plugin whose name it has been called by: the whole `main` of the
    /// executable.
    pub fn main(&self) -> ExitCode {
        let called = PathBuf::from(env::args_os().next().unwrap_or_default());
        // A bare name is one that a shell has found; the kernel knows the file.
        let plugin = self
            .plugin(&called)
            .or_else(|| self.plugin(&env::current_exe().ok()?));
        match plugin {
            Some(plugin) => crate::main(plugin),
            None => self.refuse(&called),
        }
    }

    fn refuse(&self, called: &Path) -> ExitCode {
        let names: Vec<&str> = self.plugins.iter().map(|it| it.about().name).collect();
        let error = Error::environment(format!(
            "{} is no plugin's name; call this file by one of these, through a link: {}",
            called.display(),
            names.join(", ")
        ));
        let _ = io::stderr().write_all(format!("{error}\n").as_bytes());
        let _ = io::stdout().write_all(&error.to_json(SpecVersion::LATEST));
        ExitCode::FAILURE
    }
}

/// A file, by what tells it from all others, whatever name leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that this path leads to.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// The executable that this process runs.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn of_this_process() -> io::Result<Self> {
        Self::of(Path::new("/proc/self/exe"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::Example;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_name_or_what_it_links_to_says_the_plugin() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("b"), "").unwrap();
        symlink("b", at("link")).unwrap();
        symlink(at("link"), at("link-to-link")).unwrap();
        symlink("round", at("round")).unwrap();
        fs::hard_link(at("b"), at("hard")).unwrap();
        let plugins: [&dyn Plugin; 2] = [
            &Example {
                name: "a",
                length: 0,
            },
            &Example {
                name: "b",
                length: 0,
            },
        ];
        let one_file = OneFile::new(&plugins);
        let found = |name: &str| one_file.plugin(&at(name)).map(|it| it.about().name);
        assert_eq!(found("a"), Some("a"));
        assert_eq!(found("b"), Some("b"));
        assert_eq!(found("link"), Some("b"));
        assert_eq!(found("link-to-link"), Some("b"));
        for nobody in ["round", "hard", "missing"] {
            assert_eq!(found(nobody), None, "{nobody}");
        }
        assert!(OneFile::default().plugin(&at("a")).is_none());
        assert_eq!(
            FileId::of(&at("hard")).unwrap(),
            FileId::of(&at("link-to-link")).unwrap()
        );
    }
}
