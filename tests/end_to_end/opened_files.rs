//! Lists the files in a directory that a call opens, with inotify.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::inotify;

/// The names of the files in the directory that these calls open.
pub(crate) fn opened_in(directory: &Path, calls: impl FnOnce()) -> BTreeSet<String> {
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, directory, inotify::WatchFlags::OPEN).unwrap();
    calls();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    let mut names = BTreeSet::new();
    while let Ok(event) = events.next() {
        let name = event
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        // The kernel's placeholder for a file without a name.
        names.extend(name.filter(|name| !name.starts_with('#')));
    }
    names
}
