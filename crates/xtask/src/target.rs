//! What releases are built for, and the flags that make the same bytes of the same
//! sources anywhere.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use harness::repository;

use crate::cargo::output;
use crate::packages;

/// What releases are built for.
pub(crate) struct Target {
    pub(crate) triple: String,
}

impl Target {
    /// The host's architecture with musl, if the toolchain has that, or else with the
    /// host's own library, linked in.
    pub(crate) fn of_releases() -> Result<Self> {
        let host = rustc(&["--print", "host-tuple"])?;
        Self::on(host, |target| {
            let library = rustc(&["--print", "target-libdir", "--target", target])?;
            Ok(Path::new(&library).is_dir())
        })
    }

    /// The same on this host, with a toolchain that has these targets.
    fn on(host: String, has: impl Fn(&str) -> Result<bool>) -> Result<Self> {
        let musl = host.replace("-gnu", "-musl");
        let triple = if has(&musl)? { musl } else { host };
        Ok(Self { triple })
    }

    /// What the machine lacks to link for it, if anything. The toolchain brings musl
    /// along, but not the host's own library.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        let mut cc = Command::new("cc");
        // The path where there is one, and the name as it is where there is none.
        let path = output(cc.arg("-print-file-name=libc.a")).unwrap_or_default();
        let there = self.is_musl() || Path::new(&path).is_absolute();
        (!there).then_some(
            "the C library to link in, libc.a, is not installed (Debian: libc6-dev, Fedora: \
             glibc-static), nor has the toolchain a musl target",
        )
    }

    /// Whether the C library that is linked in is musl.
    pub(crate) fn is_musl(&self) -> bool {
        self.triple.contains("-musl")
    }

    /// The architecture, as in the name of an archive.
    pub(crate) fn architecture(&self) -> &str {
        self.triple.split('-').next().unwrap_or_default()
    }

    /// What the compiler is told.
    pub(crate) fn flags(&self, target_dir: &Path) -> Result<Vec<String>> {
        let mut flags = vec![
            "-Ctarget-feature=+crt-static".to_owned(),
            // Where it is loaded is fixed: nothing has to be relocated at the start.
            "-Crelocation-model=static".to_owned(),
            // With no relocations, little is left that could be made read-only after
            // them; to do so costs a twenty-fifth of an ADD.
            "-Crelro-level=off".to_owned(),
        ];
        let mut call = |path: &Path, name: &str| {
            flags.push(format!("--remap-path-prefix={}={name}", path.display()));
        };
        // The messages of panics name source files, which are elsewhere on each
        // machine. Of names that fit, the last one counts.
        call(&repository(), "/ipam-delegated");
        call(target_dir, "/target");
        for package in packages::all(self)? {
            call(&package.folder, &format!("/crates/{package}"));
        }
        // As the standard library calls itself where its sources aren't installed.
        let sources = Path::new(&sysroot()?).join("lib/rustlib/src/rust");
        let verbose = rustc(&["--version", "--verbose"])?;
        let commit = verbose
            .lines()
            .find_map(|line| line.strip_prefix("commit-hash: "));
        call(&sources, &format!("/rustc/{}", commit.unwrap_or("unknown")));
        Ok(flags)
    }
}

/// The toolchain's folder.
pub(crate) fn sysroot() -> Result<String> {
    rustc(&["--print", "sysroot"])
}

/// What the compiler says.
pub(crate) fn rustc(arguments: &[&str]) -> Result<String> {
    let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    output(
        Command::new(program)
            .args(arguments)
            .current_dir(repository()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_for_musl_where_the_toolchain_has_it() {
        let on = |host: &str, has: &str| {
            let target = Target::on(host.to_owned(), |target| Ok(target == has)).unwrap();
            (target.is_musl(), target.triple)
        };
        let [gnu, musl] = ["gnu", "musl"].map(|it| format!("aarch64-unknown-linux-{it}"));
        assert_eq!(on(&gnu, &musl), (true, musl.clone()));
        assert_eq!(on(&gnu, &gnu), (false, gnu.clone()));
        assert_eq!(on(&musl, &musl), (true, musl.clone()));
    }
}
