//! The version as text within the executable, so that a program can read it from the file without
//! running it.

use std::hint::black_box;

/// Start of the text; the version and a closing parenthesis follow.
pub const VERSION_MARK: &str = "executable of ipam-delegated (version ";

const WHOLE: &str = concat!(
    "executable of ipam-delegated (version ",
    env!("CARGO_PKG_VERSION"),
    ")"
);

/// The version of this build. An executable that calls this function contains the text of
/// [`VERSION_MARK`].
pub fn version() -> &'static str {
    // Prevents the compiler from keeping only the version.
    let whole = black_box(WHOLE);
    &whole[VERSION_MARK.len()..whole.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_workspaces() {
        assert_eq!(version(), env!("CARGO_PKG_VERSION"));
        assert!(WHOLE.starts_with(VERSION_MARK));
    }
}
