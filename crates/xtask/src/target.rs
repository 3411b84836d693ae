//! Target triple that releases are built for, and queries to rustc about it.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use shipped::repository;

use crate::cargo::output;

/// A target triple that releases can be built for.
pub(crate) struct Target {
    pub(crate) triple: String,
}

impl Target {
    /// The host's architecture with musl if the toolchain has that target, otherwise the
    /// host's own target.
    pub(crate) fn of_releases() -> Result<Self> {
        let host = rustc(&["--print", "host-tuple"])?;
        Self::on(host, |target| {
            let folder = rustc(&["--print", "target-libdir", "--target", target])?;
            Ok(has_standard_library(Path::new(&folder)))
        })
    }

    /// [`Self::of_releases`] for a given host and toolchain.
    fn on(host: String, has: impl Fn(&str) -> Result<bool>) -> Result<Self> {
        let musl = host.replace("-gnu", "-musl");
        let triple = if has(&musl)? { musl } else { host };
        Ok(Self { triple })
    }

    /// The missing prerequisite to link statically for this target, if there is one. The
    /// toolchain ships musl, but not glibc.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        let mut cc = Command::new("cc");
        // gcc prints an absolute path if the library exists, and the bare name otherwise.
        let path = output(cc.arg("-print-file-name=libc.a")).unwrap_or_default();
        let there = self.is_musl() || Path::new(&path).is_absolute();
        (!there).then_some(
            "the C library to link in, libc.a, is not installed (Debian: libc6-dev, Fedora: \
             glibc-static), nor has the toolchain a musl target",
        )
    }

    /// True if the C library is musl.
    pub(crate) fn is_musl(&self) -> bool {
        self.triple.contains("-musl")
    }

    /// The architecture, as in the name of an archive.
    pub(crate) fn architecture(&self) -> &str {
        self.triple.split('-').next().unwrap_or_default()
    }

    /// The architecture by its name in Debian and in OCI's formats.
    pub(crate) fn short_architecture(&self) -> &str {
        match self.architecture() {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    }
}

/// True if a target's folder of the toolchain holds the standard library. An empty folder
/// may be what an interrupted installation has left.
fn has_standard_library(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}

/// The toolchain's folder.
pub(crate) fn sysroot() -> Result<String> {
    rustc(&["--print", "sysroot"])
}

/// Stdout of rustc with these arguments.
pub(crate) fn rustc(arguments: &[&str]) -> Result<String> {
    let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(program);
    output(rustc.args(arguments).current_dir(repository()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_whose_installation_was_interrupted_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_standard_library(&folder.path().join("none")));
        assert!(!has_standard_library(folder.path()));
        fs::write(folder.path().join("libstd-0123.rlib"), "").unwrap();
        assert!(has_standard_library(folder.path()));
    }

    #[test]
    fn releases_are_for_musl_where_the_toolchain_has_it() {
        let on = |host: &str, has: &str| {
            let target = Target::on(host.to_owned(), |target| Ok(target == has)).unwrap();
            (target.is_musl(), target.triple)
        };
        let [gnu, musl] = ["gnu", "musl"].map(|library| format!("aarch64-unknown-linux-{library}"));
        assert_eq!(on(&gnu, &musl), (true, musl.clone()));
        assert_eq!(on(&gnu, &gnu), (false, gnu.clone()));
        assert_eq!(on(&musl, &musl), (true, musl.clone()));
    }
}
