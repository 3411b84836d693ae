//! The verbose flavour: each line also goes to a file in `/var/log/cni`.
//!
//! If the log can't be written, a warning goes to stderr, and the call continues without a log.

use std::cell::RefCell;
use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use tracing::Level;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use super::Stderr;
use super::context::lines;
use super::daily_file::DailyFile;

/// Environment variable with another folder for the logs.
const LOG_DIR: &str = "IPAM_DELEGATED_LOG_DIR";

const DEFAULT_LOG_DIR: &str = "/var/log/cni";

pub(super) fn init(plugin: &str) {
    let stderr = (|| Stderr).with_max_level(Level::WARN);
    let _ = lines()
        .with_max_level(Level::DEBUG)
        .with_writer((|| Log).and(stderr))
        .try_init();
    switch_to(plugin);
}

/// The log of this thread's plugin; `None` if it can't be written.
pub(super) type ThreadLog = Option<DailyFile>;

/// From now on, this thread logs to the file of this plugin. Returns the previous log.
pub(super) fn switch_to(plugin: &str) -> ThreadLog {
    let (log, error) = match open(plugin) {
        Ok(file) => (Some(file), None),
        Err(error) => (None, Some(error)),
    };
    let before = LOG.replace(log);
    warn_of(error);
    before
}

pub(super) fn restore(before: ThreadLog) {
    LOG.set(before);
}

/// Opens the log of this plugin.
///
/// # Errors
///
/// An I/O error; `InvalidInput` for a folder that is no absolute path.
fn open(plugin: &str) -> io::Result<DailyFile> {
    let folder = folder();
    if !folder.is_absolute() {
        let why = format!("{LOG_DIR} is not an absolute path");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    DailyFile::open(&folder, plugin)
}

fn warn_of(error: Option<io::Error>) {
    if let Some(error) = error {
        // Without the context of a call, because the warning is the same for all calls.
        tracing::warn!(parent: None, path = %folder().display(), %error, "the log file can't be written; going on without");
    }
}

thread_local! {
    /// The log of this thread's plugin.
    static LOG: RefCell<ThreadLog> = const { RefCell::new(None) };
}

/// Writes to [`LOG`], one line in one write.
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Taken out, so that the warning below isn't written to it.
        let Some(mut file) = LOG.take() else {
            return Ok(bytes.len());
        };
        match file.write(bytes) {
            Ok(written) => {
                LOG.set(Some(file));
                Ok(written)
            }
            Err(error) => {
                warn_of(Some(error));
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn folder() -> PathBuf {
    env::var_os(LOG_DIR)
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| PathBuf::from(DEFAULT_LOG_DIR), PathBuf::from)
}
