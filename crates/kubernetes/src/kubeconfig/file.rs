//! Reads the files of a kubeconfig.

use std::fmt::Display;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

use cluster::{EngineError, Kind};

/// Reads a regular file. Other files, such as pipes, are refused: a read could wait longer than
/// the timeout.
pub(super) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() || kind.is_dir() {
        fs::read(path)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Logs a warning if everybody may read this file.
pub(super) fn warn_if_readable_by_all(path: &Path) {
    let readable_by_all = 0o004;
    let mode = fs::metadata(path).map(|metadata| metadata.permissions().mode());
    if mode.is_ok_and(|mode| mode & readable_by_all != 0) {
        let path = path.display();
        tracing::warn!(%path, "everybody may read this kubeconfig; its mode should be 0600");
    }
}

/// The error for a kubeconfig that can't be used.
pub(crate) fn refused(path: &Path, why: &dyn Display) -> EngineError {
    let msg = format!("ipam.kubernetes.kubeconfig: {}: {why}", path.display());
    EngineError::new(Kind::Settings, msg)
}
