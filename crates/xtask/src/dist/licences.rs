//! Licence texts of all that is linked into an archive's executables, and an overview of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use shipped::{MULTI_CALL, NETWORK_EXECUTABLES};
use spdx::Expression;

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
    pub(super) texts: Texts,
}

/// Texts of licences and notices, by the names of their files.
pub(super) type Texts = BTreeMap<String, Vec<u8>>;

/// Adds the licence texts of the plugins, and of these other executables, to the archive;
/// names missing ones on stderr.
pub(super) fn gather(
    archive: &mut Archive,
    flavour: Flavour,
    target: &Target,
    others: &[&str],
) -> Result<()> {
    let mut parts = vec![standard_library()?];
    parts.extend(system_library::parts(target)?);
    let mut linked = Vec::new();
    for executable in [MULTI_CALL].into_iter().chain(NETWORK_EXECUTABLES) {
        linked.extend(packages::linked(
            executable.package,
            flavour.features(),
            target,
        )?);
    }
    for executable in others {
        linked.extend(packages::linked(executable, &[], target)?);
    }
    linked.sort_by_key(ToString::to_string);
    linked.dedup_by_key(|package| package.to_string());
    for package in &linked {
        let mut texts = texts_in(&package.folder)?;
        let licence = package.licence.clone().unwrap_or_default();
        if texts.is_empty() {
            texts = texts_of(&licence)?;
        }
        parts.push(Part {
            name: package.to_string(),
            licence,
            texts,
        });
    }
    let mut overview = "# What is linked into the executables\n\n\
        | part | licence | texts |\n|---|---|---|\n"
        .to_owned();
    for part in &parts {
        let Part {
            name,
            licence,
            texts,
        } = part;
        for (file, content) in texts {
            archive.text(&format!("{FOLDER}/{name}/{file}"), content.as_slice());
        }
        let mut names = texts.keys().cloned().collect::<Vec<_>>().join(", ");
        if texts.is_empty() {
            names = "**missing on the machine that built this**".to_owned();
            eprintln!("The text of the licence of {name} is missing.");
        }
        overview += &format!("| {name} | {licence} | {names} |\n");
    }
    overview += system_library::REMARK;
    archive.text(&format!("{FOLDER}/OVERVIEW.md"), overview);
    Ok(())
}

/// The files in this folder named like one of [`NAMES`], and the files in a subfolder of
/// such a name.
fn texts_in(folder: &Path) -> Result<Texts> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_uppercase();
        if NAMES.iter().any(|start| name.starts_with(start)) {
            paths.push(path);
        }
    }
    texts_at(&paths)
}

/// The texts of the licences that this SPDX expression names, for a package that has none in it.
fn texts_of(expression: &str) -> Result<Texts> {
    let named = Expression::parse(expression).with_context(|| expression.to_owned())?;
    let licences = named
        .requirements()
        .filter_map(|named| named.req.license.id());
    let texts = licences.map(|licence| (licence.name.to_owned(), licence.text().into()));
    Ok(texts.collect())
}

/// The files at these paths and in the folders at them, as far as they are there.
pub(super) fn texts_at(paths: &[impl AsRef<Path>]) -> Result<Texts> {
    let paths = paths.iter().flat_map(|path| {
        let path = path.as_ref();
        match path.is_file() {
            true => vec![path.to_owned()],
            false => files(path),
        }
    });
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let content = fs::read(&path).with_context(|| path.display().to_string())?;
        Ok((name.into_owned(), content))
    };
    paths.map(read).collect()
}

/// The files in a folder; none if it isn't there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_file()).collect()
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
    texts.push(match notices.exists() {
        true => notices,
        // A distribution's own toolchain.
        false => "/usr/share/doc/libstd-rust-dev/copyright".into(),
    });
    let version = target::rustc(&["--version"])?;
    let version = version.split(' ').nth(1).unwrap_or_default();
    Ok(Part {
        name: format!("rust-standard-library-{version}"),
        licence: "MIT OR Apache-2.0".to_owned(),
        texts: texts_at(&texts)?,
    })
}
