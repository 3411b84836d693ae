//! What the tests need of the machine: root, and Debian's packages.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where Debian's `containernetworking-plugins` has its executables.
pub const REFERENCE_PLUGINS: &str = "/usr/lib/cni";

/// Where Debian's `dnsmasq-base` has its executable.
pub const DNSMASQ: &str = "/usr/sbin/dnsmasq";

/// A reference plugin, if it is installed.
pub fn reference(name: &str) -> Option<PathBuf> {
    Some(Path::new(REFERENCE_PLUGINS).join(name)).filter(|path| path.exists())
}

/// Whether the tests are run by root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0)
}

/// Says that a test is left out, and why: on stderr, and in the file that
/// `cargo xtask test` prints at its end.
pub fn skip(test: &str, reason: &str) {
    let line = format!("left out: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(file) = std::env::var_os("IPAM_DELEGATED_LEFT_OUT") {
        let file = OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the list of what is left out");
    }
}

/// Leaves the test out, saying so, unless the machine has what is named:
/// `root`, `dist` for the archives of a release, a reference plugin, or the path of
/// a file.
#[macro_export]
macro_rules! needs {
    ($($what:expr),+ $(,)?) => {
        $(
            if let Some(reason) = $crate::missing($what) {
                $crate::skip(concat!(module_path!(), " line ", line!()), &reason);
                return;
            }
        )+
    };
}

/// Why something that a test needs isn't there.
pub fn missing(what: &str) -> Option<String> {
    if what == "root" {
        return (!is_root()).then(|| "it needs root, for network namespaces".to_owned());
    }
    if what == "dist" {
        let reason = "it needs the archives of a release, which cargo xtask test makes";
        return crate::dist().is_none().then(|| reason.to_owned());
    }
    let path = match what.strip_prefix('/') {
        Some(_) => PathBuf::from(what),
        None => Path::new(REFERENCE_PLUGINS).join(what),
    };
    (!path.exists()).then(|| format!("{} is not installed", path.display()))
}
