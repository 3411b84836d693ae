//! Several plugins in one executable: `argv[0]` selects the plugin.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cni::{Error, LinkedPlugin as _, Plugin, SpecVersion};
use state_files::FileId;

use crate::{Linked, write_to_stderr};

/// Most symbolic links that are followed: the same limit as the kernel's.
const MOST_LINKS: usize = 40;

/// The plugins of one executable, each with a different name.
#[derive(Clone, Copy)]
pub struct MultiCall<'a>(pub &'a [Linked<'a>]);

impl<'a> MultiCall<'a> {
    /// The plugin for a path: by its file name, or by the file name of a symbolic link's target.
    pub fn select(plugins: &'a [Linked<'a>], path: &Path) -> Option<&'a Linked<'a>> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let has_name = |plugin: &&Linked<'_>| path.file_name() == Some(plugin.name().as_ref());
            if let Some(plugin) = plugins.iter().find(has_name) {
                return Some(plugin);
            }
            let target = fs::read_link(&path).ok()?;
            path.pop();
            path.push(target);
        }
        None
    }

    /// The plugin that `argv[0]` selects, for [`crate::main`].
    ///
    /// # Errors
    ///
    /// The exit status, if it selects no plugin. Then all names were printed to stdout and stderr.
    pub fn selected(&self) -> Result<&'a dyn Plugin, ExitCode> {
        let called = PathBuf::from(env::args_os().next().unwrap_or_default());
        // A shell passes only the file name; the kernel knows the path.
        let plugin = Self::select(self.0, &called)
            .or_else(|| Self::select(self.0, &env::current_exe().ok()?));
        plugin
            .map(|plugin| plugin.0)
            .ok_or_else(|| self.refuse(&called))
    }

    fn refuse(&self, called: &Path) -> ExitCode {
        let names: Vec<&str> = self.0.iter().map(Linked::name).collect();
        let error = Error::environment(format!(
            "{} is not a plugin's name; call this file by one of these, through a link: {}",
            called.display(),
            names.join(", ")
        ));
        write_to_stderr(format!("{error}\n").as_bytes());
        let _ = io::stdout().write_all(&error.to_json(SpecVersion::LATEST));
        ExitCode::FAILURE
    }
}

/// The identity of this process's executable.
///
/// # Errors
///
/// An I/O error of `stat`.
pub fn own_executable() -> io::Result<FileId> {
    FileId::of(Path::new("/proc/self/exe"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Example;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_name_or_the_target_of_a_link_selects_the_plugin() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("b"), "").unwrap();
        symlink("b", at("link")).unwrap();
        symlink(at("link"), at("link-to-link")).unwrap();
        symlink("round", at("round")).unwrap();
        fs::hard_link(at("b"), at("hard")).unwrap();
        let examples = ["a", "b"].map(|name| Example { name, length: 0 });
        let plugins = [Linked(&examples[0]), Linked(&examples[1])];
        let found = |name: &str| MultiCall::select(&plugins, &at(name)).map(Linked::name);
        assert_eq!(found("a"), Some("a"));
        assert_eq!(found("b"), Some("b"));
        assert_eq!(found("link"), Some("b"));
        assert_eq!(found("link-to-link"), Some("b"));
        for nobody in ["round", "hard", "missing"] {
            assert_eq!(found(nobody), None, "{nobody}");
        }
        assert!(MultiCall::select(&[], &at("a")).is_none());
        assert_eq!(
            FileId::of(&at("hard")).unwrap(),
            FileId::of(&at("link-to-link")).unwrap()
        );
    }
}
