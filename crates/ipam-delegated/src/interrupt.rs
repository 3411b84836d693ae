//! SIGTERM and SIGINT, as something that can be waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// From its making on, the two signals don't end the process any more.
pub(crate) struct Interrupt {
    /// Readable once one of them has come.
    came: UnixStream,
}

impl Interrupt {
    /// Takes the signals over.
    pub(crate) fn install() -> io::Result<Self> {
        let (came, write) = UnixStream::pair()?;
        pipe::register(SIGTERM, write.try_clone()?)?;
        pipe::register(SIGINT, write)?;
        Ok(Self { came })
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
