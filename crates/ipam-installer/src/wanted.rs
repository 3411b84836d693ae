//! Files that should be on the node ([`Wanted`]), compared with what is there: right, different, or not
//! written by an installer, which is never touched.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use rustix::fs::{CWD, Mode, OFlags};
use state_files::{FileId, open_regular, read_whole};

use crate::mark::is_marked;
use crate::path_context::PathContext;

/// Largest file that is read. Executables have some 10 MiB.
const MOST_BYTES: u64 = 256 << 20;

/// A file or folder that should be on the node.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Its paths, at least one, in one folder. Those of an executable are hard links; anything else
    /// has one.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) content: Content,
}

/// The texts of files, by name.
pub(crate) type Files = BTreeMap<String, String>;

/// Content of a wanted file or folder.
#[derive(Debug)]
pub(crate) enum Content {
    /// The file at this path of the image.
    Executable(PathBuf),
    Kubeconfig(String),
    Conflist(String),
    /// A folder of these files and nothing else, which is replaced as a whole: a rule in one file
    /// may name a pool of another.
    Catalogue(Files),
}

/// File, and the time of its last change, which the kernel sets with each write, rename, link, and
/// change of mode or owner; `None` if it is missing.
type FileState = Option<(FileId, i64, i64)>;

/// The executables that this process has read and found right, and the conflists that it has found
/// right or has installed: by the first path, the states of all paths.
pub(crate) type KnownStates = BTreeMap<PathBuf, Vec<FileState>>;

/// A path of an installed file.
pub(crate) enum PathContent {
    Missing,
    /// Not written by an installer, or no regular file.
    Foreign,
    /// Written by an installer, with this content.
    Installed(Vec<u8>, Metadata),
}

impl Content {
    /// The content of a file.
    ///
    /// # Errors
    ///
    /// An I/O error of the image's executable.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>> {
        match self {
            Self::Executable(path) => fs::read(path).at(path),
            Self::Kubeconfig(text) | Self::Conflist(text) => Ok(text.clone().into_bytes()),
            Self::Catalogue(_) => Ok(Vec::new()),
        }
    }

    /// The mode of the file or folder. Only root may read a token.
    pub(crate) fn mode(&self) -> u32 {
        match self {
            Self::Executable(_) | Self::Catalogue(_) => 0o755,
            Self::Kubeconfig(_) => 0o600,
            Self::Conflist(_) => 0o644,
        }
    }
}

impl Wanted {
    /// A wanted file or folder with one path.
    pub(crate) fn new(path: &Path, content: Content) -> Self {
        let paths = vec![path.to_owned()];
        Self { paths, content }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.paths[0].parent().unwrap_or(Path::new("/"))
    }

    pub(crate) fn is_catalogue(&self) -> bool {
        matches!(self.content, Content::Catalogue(_))
    }

    pub(crate) fn is_conflist(&self) -> bool {
        matches!(self.content, Content::Conflist(_))
    }

    /// True if a ConfigMap contains it.
    pub(crate) fn is_of_config_map(&self) -> bool {
        self.is_conflist() || self.is_catalogue()
    }

    /// The states of its paths.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn states(&self) -> Result<Vec<FileState>> {
        let state = |found: Metadata| ((&found).into(), found.ctime(), found.ctime_nsec());
        let paths = self.paths.iter();
        paths.map(|path| Ok(metadata(path)?.map(state))).collect()
    }

    /// True if the node has it. Of a `known` executable only metadata is read; a file that is right
    /// is added to them.
    ///
    /// # Errors
    ///
    /// A file that was not installed; an I/O error: the owner of an unreadable file is unknown.
    pub(crate) fn is_right(&self, known: &mut KnownStates) -> Result<bool> {
        if let Content::Catalogue(files) = &self.content {
            return is_right_catalogue(self, files);
        }
        let states = self.states()?;
        let is_known = known.get(&self.paths[0]) == Some(&states);
        if is_known && matches!(self.content, Content::Executable(_)) {
            return Ok(true);
        }
        // The runtime may not have noticed a conflist that another process has written or moved.
        let is_noticed = is_known || !self.is_conflist();
        let mut is_right = is_noticed && states.iter().all(|state| *state == states[0]);
        let (bytes, mode) = (self.content.bytes()?, self.content.mode());
        for path in &self.paths {
            is_right &= is_right_file(path, &bytes, mode)?;
        }
        if is_right {
            known.insert(self.paths[0].clone(), states);
        }
        Ok(is_right)
    }
}

fn is_right_catalogue(wanted: &Wanted, files: &Files) -> Result<bool> {
    let path = &wanted.paths[0];
    let Some(folder) = metadata(path)? else {
        return Ok(false);
    };
    ensure!(folder.is_dir(), foreign(path));
    let mut is_right = has_owner_and_mode(&folder, wanted.content.mode());
    let mut count = 0;
    for entry in fs::read_dir(path).at(path)? {
        let file = entry?.path();
        let name = file.file_name().and_then(OsStr::to_str);
        let wanted = name.and_then(|name| files.get(name));
        let text = wanted.map_or("", String::as_str);
        is_right &= is_right_file(&file, text.as_bytes(), 0o644)?;
        count += 1;
    }
    Ok(is_right && count == files.len())
}

fn is_right_file(path: &Path, wanted: &[u8], mode: u32) -> Result<bool> {
    match classify(path)? {
        PathContent::Missing => Ok(false),
        PathContent::Foreign => bail!(foreign(path)),
        PathContent::Installed(content, metadata) => {
            Ok(content == wanted && has_owner_and_mode(&metadata, mode))
        }
    }
}

fn foreign(path: &Path) -> String {
    let path = path.display();
    let why = "nothing is installed or changed until it is moved away";
    format!("{path} was not installed by ipam-installer: {why}")
}

/// True if a file belongs to the user that installs it, and has this mode.
fn has_owner_and_mode(metadata: &Metadata, mode: u32) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o7777 == mode
}

/// The metadata of a file, which isn't followed if it is a link; `None` if it is missing.
///
/// # Errors
///
/// An I/O error, naming the file.
pub(crate) fn metadata(path: &Path) -> Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some).at(path),
    }
}

/// Reads a path, and recognises what an installer has written by its content.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn classify(path: &Path) -> Result<PathContent> {
    match metadata(path)? {
        None => return Ok(PathContent::Missing),
        Some(found) if !found.is_file() => return Ok(PathContent::Foreign),
        Some(_) => {}
    }
    let read = || {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
        let (file, metadata) = open_regular(CWD, path, flags, Mode::empty())?;
        Ok::<_, io::Error>((read_whole(&file, &metadata, MOST_BYTES)?, metadata))
    };
    let (content, metadata) = read().at(path)?;
    if is_marked(&content) {
        return Ok(PathContent::Installed(content, metadata));
    }
    Ok(PathContent::Foreign)
}

/// The conflists in a folder that an installer has written.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn installed_conflists(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut installed = Vec::new();
    for path in conflist::files(folder).at(folder)? {
        if let PathContent::Installed(..) = classify(&path)? {
            installed.push(path);
        }
    }
    Ok(installed)
}
