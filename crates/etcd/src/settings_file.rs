//! Files that the settings name: certificates, keys, the password.

use std::path::Path;

use cluster::{EngineError, Kind};

/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a file. `key` is that of `ipam.etcd`, for messages.
///
/// # Errors
///
/// [`Kind::Settings`] for a file that can't be read, and for a pipe: a read of it could wait
/// longer than the timeout.
pub(crate) fn read(key: &str, path: &Path) -> Result<Vec<u8>, EngineError> {
    let read = state_files::read_regular(path, MOST_BYTES);
    read.map_err(|error| refused(key, path, &error))
}

/// The error for a file that can't be used. The value of `passwordFile` is not shown: somebody may
/// have written the password itself there.
pub(crate) fn refused(key: &str, path: &Path, why: &dyn std::fmt::Display) -> EngineError {
    let path = match key {
        "passwordFile" => "the file that it names".into(),
        _ => path.to_string_lossy(),
    };
    EngineError::new(Kind::Settings, format!("ipam.etcd.{key}: {path}: {why}"))
}
