//! The verbose flavour's log file, `/var/log/cni/<plugin>.log`. A log that can't be
//! written never fails a call.

use std::cell::RefCell;
use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use tracing::Level;
use tracing_appender::rolling::{InitError, RollingFileAppender, Rotation};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use super::Stderr;
use super::who::lines;

/// Overrides the folder that the logs are in.
const LOG_DIR: &str = "IPAM_DELEGATED_LOG_DIR";

pub(crate) fn init(plugin: &str) {
    let lines = lines();
    let stderr = Stderr.with_max_level(Level::WARN);
    match open(plugin) {
        Ok(file) => {
            LOG.set(Some(file));
            let _ = lines
                .with_max_level(Level::DEBUG)
                .with_writer(Log.and(stderr))
                .try_init();
        }
        Err(error) => {
            let _ = lines
                .with_max_level(Level::WARN)
                .with_writer(Log.and(stderr))
                .try_init();
            cant_be_written(&error);
        }
    }
}

pub(super) fn with_log_of<T>(plugin: &str, call: impl FnOnce() -> T) -> T {
    let (file, error) = match open(plugin) {
        Ok(file) => (Some(file), None),
        Err(error) => (None, Some(error)),
    };
    let before = LOG.replace(file);
    if let Some(error) = error {
        cant_be_written(&error);
    }
    let answer = call();
    LOG.set(before);
    answer
}

fn cant_be_written(error: &InitError) {
    // Of no call: it is the same for all.
    tracing::warn!(parent: None, %error, "the log file can't be written; going on without");
}

thread_local! {
    /// The log of the plugin that is at work.
    static LOG: RefCell<Option<RollingFileAppender>> = const { RefCell::new(None) };
}

/// Writes to [`LOG`].
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| match log {
            Some(file) => file.write(bytes),
            None => Ok(bytes.len()),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        LOG.with_borrow_mut(|log| log.as_mut().map_or(Ok(()), Write::flush))
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

fn open(plugin: &str) -> Result<RollingFileAppender, InitError> {
    let folder = env::var_os(LOG_DIR)
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| PathBuf::from("/var/log/cni"), PathBuf::from);
    RollingFileAppender::builder()
        .rotation(Rotation::NEVER)
        .filename_prefix(format!("{plugin}.log"))
        .build(folder)
}
