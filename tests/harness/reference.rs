//! Requirements of some tests: root, and programs of Debian's packages.

use std::path::{Path, PathBuf};

/// The folder of Debian's `containernetworking-plugins`.
pub const REFERENCE_PLUGINS: &str = "/usr/lib/cni";

/// The executable of Debian's `dnsmasq-base`.
pub const DNSMASQ: &str = "/usr/sbin/dnsmasq";

/// The path of a reference plugin, if it is installed.
pub fn reference(name: &str) -> Option<PathBuf> {
    Some(Path::new(REFERENCE_PLUGINS).join(name)).filter(|path| path.exists())
}

/// True if the tests are run by root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self")
        .is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}
