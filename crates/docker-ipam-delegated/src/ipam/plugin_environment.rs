//! The environment variables that plugins get.

use cni::{CHAIN_CALL, Environment, ROLLBACK};

/// `PATH` and the project's variables from the daemon's environment, but not those of a single
/// call; and this `CNI_PATH`.
pub(crate) fn for_plugins(cni_path: &str) -> Environment {
    let variables = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        let is_of_a_call = [CHAIN_CALL, ROLLBACK].contains(&name.as_ref());
        name == "PATH" || (name.starts_with("IPAM_DELEGATED_") && !is_of_a_call)
    });
    variables
        .collect::<Environment>()
        .with("CNI_PATH", cni_path)
}
