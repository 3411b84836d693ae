//! SIGTERM and SIGINT as a cancellation; SIGXFSZ as an error of the write.

use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use cni::Cancellation;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
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

/// Lets a write beyond the limit of file sizes (`ulimit -f`) fail, as in programs in Go. Without a
/// handler, the signal ends the process: a runtime would get no answer because of a long log.
///
/// # Errors
///
/// An I/O error of `sigaction`.
pub(crate) fn survive_limit_of_files() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
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
