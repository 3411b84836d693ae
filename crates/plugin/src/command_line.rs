//! The answers to `--version` and `--help`, for people.

use std::env;
use std::sync::OnceLock;

use cni::{About, SpecVersion};

use crate::version_mark;

/// The flavour of this build.
pub(crate) const FLAVOUR: &str = if cfg!(feature = "verbose") {
    "verbose"
} else {
    "normal"
};

/// The commit of this build, if the build has set the variable.
pub(crate) const COMMIT: Option<&str> = option_env!("IPAM_DELEGATED_COMMIT");

/// The answer to the first argument, if it is `--version` or `--help`.
pub(crate) fn answer(about: About) -> Option<String> {
    let argument = env::args_os().nth(1)?;
    match argument.to_str()? {
        "--version" | "-V" => Some(format!("{} {}\n", about.name, version(about))),
        "--help" | "-h" => Some(usage(about)),
        _ => None,
    }
}

/// Version, commit and flavour: `0.1.0 (4bf92f3577b3, normal)`.
fn version(about: About) -> String {
    // Another project's plugin has its own version; the mark has the version of this crate.
    version_mark::version();
    let commit = COMMIT.unwrap_or("unknown commit");
    format!("{} ({commit}, {FLAVOUR})", about.version)
}

/// Version and commit of this build, for `--version` of an executable that is not a plugin:
/// `0.1.0 (4bf92f3577b3)`.
pub fn version_with_commit() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    let commit = COMMIT.unwrap_or("unknown commit");
    TEXT.get_or_init(|| format!("{} ({commit})", version_mark::version()))
}

/// Name, version, purpose, the specification's versions and one line of use.
pub(crate) fn usage(about: About) -> String {
    let About { name, summary, .. } = about;
    format!(
        "{name} {}: {summary}\n\
         CNI versions supported: {}\n\
         Use: a container runtime runs it, with CNI_COMMAND set and the network \
         configuration on stdin: CNI_COMMAND=VERSION {name} </dev/null\n",
        version(about),
        SpecVersion::NAMES.join(", ")
    )
}
