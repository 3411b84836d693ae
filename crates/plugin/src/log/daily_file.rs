//! The log file of the day, `<plugin>.log.<date>` in UTC. The newest seven are kept. The symbolic
//! link `<plugin>.log` leads to it.
//!
//! `tracing-appender` opens the file of each day and removes the oldest files. But it follows
//! symbolic links and leaves the mode to the umask, so each file is created here before the
//! appender opens it. Only the process that creates the file of a day removes old files, because
//! the appender reports it as an error if another process has removed a file. The link is made
//! here, too: the appender removes what has its name first, whatever that is, and fails if another
//! process makes it at the same time.

use std::io::{self, Write};
use std::panic;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use state_files::StateFolder;
use time::{Date, Duration, OffsetDateTime};
use tracing_appender::rolling::{RollingFileAppender, Rotation};

/// Number of files that are kept for each plugin.
const KEPT: usize = 7;

/// The next day's file is created this long before midnight. The time is longer than the interval
/// in which this code and the appender check the clock.
const AHEAD: Duration = Duration::MINUTE;

/// An open log of one plugin.
pub(super) struct DailyFile {
    folder: PathBuf,
    plugin: String,
    /// The last day whose file was created here.
    last_day: Date,
    /// The day to whose file the link leads.
    linked_day: Date,
    appender: RollingFileAppender,
}

impl DailyFile {
    /// Opens today's file. Creates the folder and the file if they are missing.
    ///
    /// # Errors
    ///
    /// An I/O error of the folder or the file; `PermissionDenied` if the file is a symbolic
    /// link, or if others may write to it or to the folder.
    pub(super) fn open(folder: &Path, plugin: &str) -> io::Result<Self> {
        let prefix = format!("{plugin}.log");
        let now = OffsetDateTime::now_utc();
        let (today, last_day) = (now.date(), (now + AHEAD).date());
        let files = StateFolder::create_for_logs(folder)?;
        let file_of_today = format!("{prefix}.{today}");
        let mut is_new = make(&files, &file_of_today)?;
        // Without a link, the log is complete. Something else may have the name.
        let _ = files.link(&prefix, &file_of_today);
        if last_day != today {
            is_new |= make(&files, &format!("{prefix}.{last_day}"))?;
        }

        let mut builder = RollingFileAppender::builder()
            .rotation(Rotation::DAILY)
            .filename_prefix(prefix);
        if is_new {
            // The appender reserves one place for today's file, which already exists.
            builder = builder.max_log_files(KEPT + 1);
        }
        // The appender panics if it can't remove a file while stderr is closed.
        let appender = panic::catch_unwind(|| builder.build(folder))
            .map_err(|_| io::Error::other("the old log files can't be removed"))?
            .map_err(io::Error::other)?;
        Ok(Self {
            folder: folder.to_owned(),
            plugin: plugin.to_owned(),
            last_day,
            linked_day: today,
            appender,
        })
    }
}

impl Write for DailyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = OffsetDateTime::now_utc();
        if (now + AHEAD).date() != self.last_day || now.date() != self.linked_day {
            *self = Self::open(&self.folder, &self.plugin)?;
        }
        self.appender.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.appender.flush()
    }
}

/// Creates the file of a day. Returns false if it exists.
fn make(folder: &StateFolder, name: &str) -> io::Result<bool> {
    let access = OFlags::WRONLY | OFlags::APPEND;
    match folder.open_file(name, access | OFlags::CREATE | OFlags::EXCL) {
        Ok(_) => Ok(true),
        // An existing one must be ours, and must not be a link.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            folder.open_file(name, access).map(|_| false)
        }
        Err(error) => Err(error),
    }
}
