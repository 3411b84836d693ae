//! The environment variables that plugins get.

use std::ffi::OsString;

/// The variables of the process that plugins get: `PATH`, and the project's own.
pub(crate) fn for_plugins(
    process: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let is_for_plugins = |(name, _): &(OsString, OsString)| {
        let name = name.to_string_lossy();
        let is_of_a_call = [cni::CHAIN_CALL, cni::ROLLBACK].contains(&name.as_ref());
        name == "PATH" || (name.starts_with("IPAM_DELEGATED_") && !is_of_a_call)
    };
    process.filter(is_for_plugins).collect()
}
