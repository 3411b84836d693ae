//! C library in the plugins, and the paths of its licences on several distributions.

use std::path::Path;

use anyhow::Result;

use super::licences::{Part, texts_at};
use crate::target::Target;

/// Instructions for recipients of the plugins to exercise the rights of the LGPL.
pub(super) const REMARK: &str = "\n\
    Where the C library is glibc, which is under the LGPL: the plugins' sources are public, and \
    `cargo xtask dist`, at the commit that `--version` names, links them with the glibc of the \
    machine that it is run on. Where it is musl, LLVM's libunwind is linked in, too, whose licence is \
    among those of the standard library.\n";

/// Debian's paths, and the folder on Fedora and Void.
const GLIBC: [&str; 3] = [
    "/usr/share/doc/libc6-dev/copyright",
    "/usr/share/common-licenses/LGPL-2.1",
    "/usr/share/licenses/glibc",
];
const LIBGCC: [&str; 3] = [
    "/usr/share/doc/libgcc-s1/copyright",
    "/usr/share/common-licenses/GPL-3",
    "/usr/share/licenses/libgcc",
];
/// The toolchain ships musl without its licence, whose text is the same for all versions
/// but for the list of authors.
const MUSL: [&str; 3] = [
    "/usr/share/doc/musl/copyright",
    "/usr/share/doc/musl-dev/copyright",
    "/usr/share/licenses/musl",
];

/// The system libraries that are linked in for this target.
///
/// # Errors
///
/// A licence can't be read.
pub(super) fn parts(target: &Target) -> Result<Vec<Part>> {
    let part = |name: &str, licence: &str, paths: &[&str]| -> Result<Part> {
        Ok(Part {
            name: name.to_owned(),
            licence: licence.to_owned(),
            texts: texts_at(paths)?,
        })
    };
    if target.is_musl() {
        // One text is enough.
        let text = MUSL.into_iter().find(|path| Path::new(path).exists());
        return Ok(vec![part("musl", "MIT", text.as_slice())?]);
    }
    Ok(vec![
        part("glibc", "LGPL-2.1-or-later", &GLIBC)?,
        part("libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1", &LIBGCC)?,
    ])
}
