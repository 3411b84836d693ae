//! Work in a container's network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::panic;
use std::path::Path;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs `work` in the network namespace at this path, in a thread that ends with it: no other
/// thread of the process is moved.
///
/// # Errors
///
/// An I/O error: the namespace can't be entered.
pub fn in_namespace<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = File::open(path)?;
    thread::scope(|scope| {
        let entered = thread::Builder::new().spawn_scoped(scope, || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind)?;
            Ok(work())
        })?;
        let ended = entered.join();
        ended.unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}
