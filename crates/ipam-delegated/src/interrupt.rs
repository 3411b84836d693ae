//! SIGTERM and SIGINT, as something that can be waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// From its making on, the two signals don't end the process any more.
pub(crate) struct Interrupt {
    /// Readable once one of them has come.
    came: UnixStream,
    /// What is to be told of each signal, until this is dropped.
    told: Vec<SigId>,
}

impl Interrupt {
    /// Takes the signals over.
    pub(crate) fn install() -> io::Result<Self> {
        let (came, write) = UnixStream::pair()?;
        let mut it = Self {
            came,
            told: Vec::new(),
        };
        it.told.push(pipe::register(SIGTERM, write.try_clone()?)?);
        it.told.push(pipe::register(SIGINT, write)?);
        Ok(it)
    }

    /// Readable once one of them has come, and from then on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.came.as_fd()
    }

    /// Whether one of them has come.
    pub(crate) fn came(&self) -> bool {
        cni::wait_readable(&self.came, Duration::ZERO).unwrap_or_default()
    }
}

impl Drop for Interrupt {
    /// Closes the other ends, too, so that a process that calls us many times
    /// doesn't run out of descriptors.
    fn drop(&mut self) {
        for id in self.told.drain(..) {
            unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_dir;

    #[test]
    fn nothing_stays_open_of_those_that_are_dropped() {
        let open = || read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        for _ in 0..200 {
            assert!(!Interrupt::install().unwrap().came());
        }
        // Other tests open files meanwhile, but not hundreds.
        assert!(open() < before + 200);
    }
}
