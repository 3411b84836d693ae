//! Calls cargo from a program that cargo itself has started, such as a test, without the variables that
//! would have dependencies built again.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prefixes of the variables in which cargo describes a program's package.
const PACKAGE: [&str; 5] = [
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_PRIMARY_",
];

/// The environment variable with the target that cargo builds for.
pub const TARGET: &str = "CARGO_BUILD_TARGET";

/// The environment variable with a program that cargo has compile the crates of the workspace.
pub const COMPILER_WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// The variables with which `cargo xtask test` has everything built once: executables, their tests and
/// the archives.
pub const BUILD_ENV: [&str; 6] = [
    TARGET,
    COMPILER_WRAPPER,
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_ENCODED_RUSTDOCFLAGS",
    "CARGO_PROFILE_DEV_DEBUG",
    "CARGO_PROFILE_DEV_STRIP",
];

/// The root of the repository.
pub fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let root = root.expect("this crate is in a folder of the repository");
    root.to_owned()
}

/// The folder of builds.
pub fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// The folder in which cargo puts what it builds without `--release`.
pub fn debug_dir() -> PathBuf {
    let target = env::var_os(TARGET).unwrap_or_default();
    target_dir().join(target).join("debug")
}

/// A call of cargo in the repository, as a person makes it: without [`BUILD_ENV`].
pub fn cargo_by_hand() -> Command {
    let mut command = cargo();
    for variable in BUILD_ENV {
        command.env_remove(variable);
    }
    command
}

/// A call of cargo in the repository.
///
/// The variables of the calling package are removed: the build script of `ring` depends on them,
/// so ring and all crates that depend on it would be built again.
pub fn cargo() -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(repository());
    let variables = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for variable in variables.filter(|variable| is_of_package(variable)) {
        command.env_remove(variable);
    }
    command
}

fn is_of_package(variable: &str) -> bool {
    variable == "OUT_DIR" || PACKAGE.iter().any(|prefix| variable.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_calling_package_are_removed() {
        // cargo sets these variables for this test.
        assert!(env::var_os("CARGO_PKG_NAME").is_some());
        let command = cargo();
        let removed = |name: &str| {
            command
                .get_envs()
                .any(|variable| variable == (name.as_ref(), None))
        };
        assert!(removed("CARGO_PKG_NAME") && removed("CARGO_MANIFEST_DIR"));
        assert!(!removed("CARGO_HOME") && !removed("CARGO_TARGET_DIR"));
    }
}
