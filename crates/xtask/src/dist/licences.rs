//! Licence texts of all that is linked into an archive's executables, and an overview of them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use harness::{MULTI_CALL, NETWORK_PLUGINS};

use super::archive::Archive;
use super::system_library;
use crate::build::Flavour;
use crate::packages;
use crate::target::{self, Target};

/// The archive's folder of licences.
const FOLDER: &str = "LICENSES";

/// Names of files with a licence or a notice, in upper case, without an extension.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "UNLICENSE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
];

/// A component that is linked in.
pub(super) struct Part {
    /// Its name, with the version if that is known.
    pub(super) name: String,
    /// SPDX expression, as the author declares it.
    pub(super) licence: String,
    /// Files with the licence texts.
    pub(super) texts: Vec<PathBuf>,
}

/// Adds the licence texts of the plugins, and of these other executables, to the archive;
/// names missing ones on stderr.
pub(super) fn gather(
    archive: &mut Archive,
    flavour: Flavour,
    target: &Target,
    others: &[&str],
) -> Result<()> {
    let mut parts = vec![standard_library()?];
    parts.extend(system_library::parts(target));
    let mut linked = packages::linked(MULTI_CALL, flavour.features(), target)?;
    for plugin in NETWORK_PLUGINS {
        linked.extend(packages::linked(plugin, flavour.features(), target)?);
    }
    for executable in others {
        linked.extend(packages::linked(executable, &[], target)?);
    }
    linked.sort_by_key(ToString::to_string);
    linked.dedup_by_key(|package| package.to_string());
    for package in &linked {
        let mut texts = texts_in(&package.folder)?;
        // Some packages lack the text that others of their repository have.
        let siblings = linked.iter().filter(|other| {
            package.repository.is_some()
                && (&other.repository, &other.licence) == (&package.repository, &package.licence)
        });
        for sibling in siblings {
            if texts.is_empty() {
                texts = texts_in(&sibling.folder)?;
            }
        }
        parts.push(Part {
            name: package.to_string(),
            licence: package.licence.clone().unwrap_or_default(),
            texts,
        });
    }
    let mut overview = "# What is linked into the executables\n\n\
        | part | licence | texts |\n|---|---|---|\n"
        .to_owned();
    for part in &parts {
        let mut names = Vec::new();
        for text in &part.texts {
            let name = text.file_name().unwrap_or_default().to_string_lossy();
            let content = fs::read(text).with_context(|| format!("{}", text.display()))?;
            archive.text(&format!("{FOLDER}/{}/{name}", part.name), content);
            names.push(name.into_owned());
        }
        if names.is_empty() {
            names.push("**missing on the machine that built this**".to_owned());
            eprintln!("The text of the licence of {} is missing.", part.name);
        }
        let Part { name, licence, .. } = part;
        overview += &format!("| {name} | {licence} | {} |\n", names.join(", "));
    }
    overview += system_library::REMARK;
    archive.text(&format!("{FOLDER}/OVERVIEW.md"), overview);
    Ok(())
}

/// The files in this folder named like one of [`NAMES`], and the files in a subfolder of
/// such a name.
fn texts_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_uppercase();
        if !NAMES.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        if path.is_dir() {
            texts.extend(files(&path));
        } else {
            texts.push(path);
        }
    }
    texts.sort();
    Ok(texts)
}

/// The files in a folder, in order; none if it isn't there.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files
}

/// Rust's standard library, with the licence texts that the toolchain ships.
fn standard_library() -> Result<Part> {
    let docs = Path::new(&target::sysroot()?).join("share/doc/rust");
    let notices = docs.join("COPYRIGHT-library.html");
    let said = fs::read_to_string(&notices).unwrap_or_default();
    let mut texts = files(&docs.join("licenses"));
    // The folder also holds licences of the toolchain's other components.
    texts.retain(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        said.contains(&*name)
    });
    if notices.exists() {
        texts.push(notices);
    } else {
        // A distribution's own toolchain.
        let debian = Path::new("/usr/share/doc/libstd-rust-dev/copyright");
        texts.extend(Some(debian.to_owned()).filter(|path| path.exists()));
    }
    let version = target::rustc(&["--version"])?;
    let version = version.split(' ').nth(1).unwrap_or_default();
    Ok(Part {
        name: format!("rust-standard-library-{version}"),
        licence: "MIT OR Apache-2.0".to_owned(),
        texts,
    })
}
