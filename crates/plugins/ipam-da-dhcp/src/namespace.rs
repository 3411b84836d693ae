//! Work on an interface of a container's network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::panic;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Link;

/// Runs `work` on the interface of this name in the network namespace at this path, in a thread
/// that ends with it: no other thread of the process is moved. `None` if there is no such interface.
///
/// # Errors
///
/// An I/O error: the namespace can't be entered, or it is unknown whether the interface is there.
pub fn on_link<T: Send>(
    netns: &str,
    interface: &str,
    work: impl FnOnce(&Link) -> T + Send,
) -> io::Result<Option<T>> {
    let namespace = File::open(netns)?;
    thread::scope(|scope| {
        let entered = thread::Builder::new().spawn_scoped(scope, || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind)?;
            let link = Link::open(interface)?;
            Ok(link.map(|link| work(&link)))
        })?;
        let ended = entered.join();
        ended.unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}
