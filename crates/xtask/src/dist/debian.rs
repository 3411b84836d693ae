//! Debian package of a release, made by `dpkg-deb` of the release's archive.

use std::fs;
use std::process::Command;

use anyhow::Result;

use super::archive::Archive;
use super::{Release, package};
use crate::build::{Flavour, compression};
use crate::cargo::run;

/// The folders of the archive, and theirs in the package. podman, nerdctl and containerd of Debian
/// find plugins in `/usr/lib/cni`.
const FOLDERS: [(&str, &str); 5] = [
    ("bin/", "usr/lib/cni/"),
    ("sbin/", "usr/sbin/"),
    ("share/", "usr/share/"),
    ("lib/systemd/", "lib/systemd/"),
    ("", "usr/share/doc/ipam-delegated/"),
];

impl Release {
    /// Name of a package's file.
    pub(super) fn file_of_package(&self, flavour: Flavour) -> String {
        let architecture = self.target.short_architecture();
        format!("{}_{}_{architecture}.deb", package(flavour), self.version)
    }

    /// The bytes of a package with the content of the release's archive.
    ///
    /// # Errors
    ///
    /// `dpkg-deb` is missing or fails; an I/O error.
    pub(super) fn package(&self, flavour: Flavour, archive: Archive) -> Result<Vec<u8>> {
        let mut package = archive.moved(&FOLDERS);
        package.replace_in("lib/systemd/", "/usr/local/sbin/", "/usr/sbin/");
        let architecture = self.target.short_architecture();
        package.text(
            "DEBIAN/control",
            control(flavour, self.version, architecture),
        );
        for (name, script) in [
            ("postinst", include_str!("debian/postinst")),
            ("prerm", include_str!("debian/prerm")),
            ("postrm", include_str!("debian/postrm")),
        ] {
            package.executable(&[format!("DEBIAN/{name}")], script.as_bytes());
        }
        build(package, self.time)
    }
}

fn build(mut package: Archive, time: u64) -> Result<Vec<u8>> {
    package.parents();
    let folder = tempfile::tempdir()?;
    let tree = folder.path().join("tree");
    tar::Archive::new(package.to_tar("", time)?.as_slice()).unpack(&tree)?;
    let file = folder.path().join("package.deb");
    let mut dpkg = Command::new("dpkg-deb");
    // Every time that is later becomes this one.
    dpkg.env("SOURCE_DATE_EPOCH", time.to_string());
    let level = format!("-z{}", compression());
    dpkg.args(["--root-owner-group", "-Zgzip", &level, "--build"]);
    run(dpkg.arg(&tree).arg(&file))?;
    Ok(fs::read(file)?)
}

fn control(flavour: Flavour, version: &str, architecture: &str) -> String {
    let name = package(flavour);
    let other = package(match flavour {
        Flavour::Normal => Flavour::Verbose,
        Flavour::Verbose => Flavour::Normal,
    });
    format!(
        "Package: {name}\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: ipam-delegated <root@localhost>\n\
         Section: net\n\
         Priority: optional\n\
         Conflicts: {other}\n\
         Replaces: {other}\n\
         Recommends: containernetworking-plugins\n\
         Description: chain of small IPAM plugins for CNI\n \
         The plugins, the administrator's command ipamctl, and the plugin of Docker.\n"
    )
}

#[cfg(test)]
mod tests {
    use harness::needs;

    use super::*;

    /// A package with scripts for executables.
    fn bytes() -> Vec<u8> {
        let mut archive = Archive::default();
        let names = ["bin/ipam-delegated", "bin/ipam-gc"].map(str::to_owned);
        archive.executable(&names, b"#!/bin/sh\n");
        archive.text("LICENSE", "Apache-2.0\n");
        let target = crate::target::Target {
            triple: "x86_64-unknown-linux-musl".to_owned(),
        };
        let release = Release {
            version: "0.1.0",
            commit: None,
            time: 1_700_000_000,
            target,
        };
        assert_eq!(
            release.file_of_package(Flavour::Normal),
            "ipam-delegated_0.1.0_amd64.deb"
        );
        release.package(Flavour::Normal, archive).unwrap()
    }

    #[test]
    fn the_same_content_gives_the_same_bytes() {
        needs!("/usr/bin/dpkg-deb");
        assert_eq!(bytes(), bytes());
    }
}
