//! SIGTERM and SIGINT as a cancellation; what a call must survive.

use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use cni::Cancellation;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::low_level::pipe;

const SIGNALS: [i32; 2] = [SIGTERM, SIGINT];

/// Handlers of the two signals. Once they are installed, the signals don't end the process. They
/// stay installed until its end.
#[derive(Default)]
pub(crate) struct Signals {
    /// Set by a signal.
    came: Arc<AtomicBool>,
    /// Readable after a signal. It is created for the first waiter, because a chain in one
    /// executable seldom waits.
    pipe: OnceLock<PipeReader>,
    is_installed: AtomicBool,
}

impl Signals {
    /// Installs the handlers.
    pub(crate) fn install(&self) -> io::Result<()> {
        for signal in SIGNALS {
            flag::register(signal, Arc::clone(&self.came))?;
        }
        self.is_installed.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn make_pipe(&self) -> io::Result<PipeReader> {
        let (reader, mut writer) = io::pipe()?;
        for signal in SIGNALS {
            pipe::register(signal, writer.try_clone()?)?;
        }
        // A signal before this has set only the flag.
        if self.is_cancelled() {
            writer.write_all(b"!")?;
        }
        Ok(reader)
    }
}

impl Cancellation for Signals {
    fn is_cancelled(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        if !self.is_installed.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.pipe.get().is_none() {
            let _ = self.pipe.set(self.make_pipe()?);
        }
        self.pipe
            .get()
            .map(AsFd::as_fd)
            .ok_or_else(|| io::Error::other("there is no pipe"))
    }
}

/// Takes two signals that would leave a runtime without a right answer, as programs in Go take them.
/// Beyond the limit of file sizes (`ulimit -f`), a write fails then, and the process isn't ended. And
/// under a caller that ignores SIGCHLD, it can be told how a delegate has ended.
///
/// # Errors
///
/// An I/O error of `sigaction`.
pub(crate) fn survive() -> io::Result<()> {
    for signal in [SIGXFSZ, SIGCHLD] {
        flag::register(signal, Arc::default())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::low_level::raise;
    use std::time::Duration;

    #[test]
    fn a_signal_is_known_of_before_and_after_somebody_waits_for_it() {
        for waits_first in [true, false] {
            let signals = Signals::default();
            signals.install().unwrap();
            let readable = || {
                let fd = signals.fd().unwrap();
                state_files::wait_for([Some(fd)], Some(Duration::ZERO)).unwrap() == [true]
            };
            assert!(!signals.is_cancelled());
            if waits_first {
                assert!(!readable());
            }
            raise(SIGTERM).unwrap();
            assert!(signals.is_cancelled());
            assert!(readable());
            assert!(readable());
        }
    }
}
