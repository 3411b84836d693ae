//! A release, and its time limit: locks and plugins together.

use std::io;
use std::time::Duration;

use chain::WhenBusy;
use cni::Cancellation;
use state_files::Deadline;

use crate::node::Node;
use crate::output::times::rounded;

/// The longest that the release of an attachment by `ipamctl gc` waits.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);

/// Releases attachments and reservations until a deadline.
pub(crate) struct Releaser<'a> {
    pub(super) node: &'a Node,
    pub(super) when_busy: WhenBusy,
    pub(super) deadline: Deadline,
    /// The whole time, for messages.
    pub(super) time: String,
}

impl<'a> Releaser<'a> {
    /// A releaser with this much time.
    ///
    /// # Errors
    ///
    /// An I/O error: without a timer, there would be no bound.
    pub(crate) fn new(node: &'a Node, when_busy: WhenBusy, time: Duration) -> io::Result<Self> {
        Ok(Self {
            node,
            when_busy,
            deadline: Deadline::after(time)?,
            time: rounded(time),
        })
    }

    /// The error of a release that was not finished in time; `None` while there is time.
    pub(super) fn is_over(&self) -> Option<anyhow::Error> {
        let is_over = self.deadline.is_cancelled();
        is_over.then(|| anyhow::anyhow!("not released within {}", self.time))
    }
}
