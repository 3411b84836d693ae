//! SIGTERM and SIGINT, as something that can be asked for and waited for.

use std::cell::{OnceCell, RefCell};
use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::{pipe, unregister};

/// From its making on, the two signals don't end the process any more.
pub(crate) struct Interrupt {
    /// Whether one of them has come.
    came: Arc<AtomicBool>,
    /// Readable once one of them has come; made when somebody waits for it, as a
    /// chain in one file seldom does.
    pipe: OnceCell<PipeReader>,
    /// What is to be told of each signal, until this is dropped.
    told: RefCell<Vec<SigId>>,
}

impl Interrupt {
    /// Takes the signals over.
    pub(crate) fn install() -> io::Result<Self> {
        let it = Self {
            came: Arc::default(),
            pipe: OnceCell::new(),
            told: RefCell::default(),
        };
        for signal in [SIGTERM, SIGINT] {
            let id = flag::register(signal, Arc::clone(&it.came))?;
            it.told.borrow_mut().push(id);
        }
        Ok(it)
    }

    /// Whether one of them has come.
    pub(crate) fn came(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }

    fn make_pipe(&self) -> io::Result<PipeReader> {
        let (reader, mut writer) = io::pipe()?;
        for signal in [SIGTERM, SIGINT] {
            let id = pipe::register(signal, writer.try_clone()?)?;
            self.told.borrow_mut().push(id);
        }
        // One that came before told only the flag.
        if self.came() {
            writer.write_all(b"!")?;
        }
        Ok(reader)
    }
}

impl cni::Interrupt for Interrupt {
    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        if self.pipe.get().is_none() {
            // Nobody else can have set it meanwhile.
            let _ = self.pipe.set(self.make_pipe()?);
        }
        self.pipe
            .get()
            .map(AsFd::as_fd)
            .ok_or_else(|| io::Error::other("there is no pipe"))
    }
}

impl Drop for Interrupt {
    /// Closes the other ends, too, so that a process that calls us many times
    /// doesn't run out of descriptors.
    fn drop(&mut self) {
        for id in self.told.take() {
            unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::Interrupt as _;
    use signal_hook::low_level::raise;
    use std::fs::read_dir;
    use std::time::Duration;

    #[test]
    fn a_signal_is_known_of_before_and_after_somebody_waits_for_it() {
        for waits_first in [true, false] {
            let interrupt = Interrupt::install().unwrap();
            let readable = || {
                let fd = interrupt.fd().unwrap();
                cni::wait_readable(fd, Duration::ZERO).unwrap()
            };
            assert!(!interrupt.came());
            if waits_first {
                assert!(!readable());
            }
            raise(SIGTERM).unwrap();
            assert!(interrupt.came());
            assert!(readable());
            assert!(readable());
        }
    }

    #[test]
    fn nothing_stays_open_of_those_that_are_dropped() {
        let open = || read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        for _ in 0..200 {
            let interrupt = Interrupt::install().unwrap();
            interrupt.fd().unwrap();
        }
        // Other tests open files meanwhile, but not hundreds.
        assert!(open() < before + 200);
    }
}
