//! The verbose flavour: every line also to `/var/log/cni/<plugin>.log`.
//!
//! A log that can't be written never fails a call.

use std::cell::RefCell;
use std::env;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::fs::OFlags;
use state_files::StateFolder;
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use super::Stderr;
use super::context::lines;

/// Names another folder for the logs.
const LOG_DIR: &str = "IPAM_DELEGATED_LOG_DIR";

const DEFAULT_LOG_DIR: &str = "/var/log/cni";

pub(crate) fn init(plugin: &str) {
    let stderr = Stderr.with_max_level(Level::WARN);
    let log = open(plugin);
    let level = if log.is_ok() {
        Level::DEBUG
    } else {
        Level::WARN
    };
    let error = log.map(|file| LOG.set(Some(file))).err();
    let _ = lines()
        .with_max_level(level)
        .with_writer(Log.and(stderr))
        .try_init();
    warn_of(error);
}

pub(super) fn with_log_of<T>(plugin: &str, call: impl FnOnce() -> T) -> T {
    let (log, error) = match open(plugin) {
        Ok(file) => (Some(file), None),
        Err(error) => (None, Some(error)),
    };
    let before = LOG.replace(log);
    warn_of(error);
    let answer = call();
    LOG.set(before);
    answer
}

fn warn_of(error: Option<io::Error>) {
    if let Some(error) = error {
        // Without the context of a call: it is the same for all calls.
        tracing::warn!(parent: None, path = %folder().display(), %error, "the log file can't be written; going on without");
    }
}

thread_local! {
    /// The log of the plugin that runs in this thread.
    static LOG: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Writes to [`LOG`], one line in one write.
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| match log {
            Some(file) => file.write(bytes),
            None => Ok(bytes.len()),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

fn folder() -> PathBuf {
    env::var_os(LOG_DIR)
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| PathBuf::from(DEFAULT_LOG_DIR), PathBuf::from)
}

fn open(plugin: &str) -> io::Result<File> {
    let access = OFlags::WRONLY | OFlags::APPEND;
    let folder = StateFolder::create_for_logs(&folder())?;
    let file = folder.create_file(&format!("{plugin}.log"), access)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & READABLE_BY_ALL != 0 {
        // An earlier version has made it, and the configuration is in it.
        file.set_permissions(Permissions::from_mode(mode & !READABLE_BY_ALL))?;
    }
    Ok(file)
}

/// Permissions of everybody.
const READABLE_BY_ALL: u32 = 0o007;
