//! Lists the files that a call opens in a directory, by inotify.

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
        // The kernel's name for a file that has none yet.
        names.extend(name.filter(|name| !name.starts_with('#')));
    }
    names
}
