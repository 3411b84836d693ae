//! The time limit of a release, including waits for locks.

use std::io;
use std::time::Duration;

use chain::WhenBusy;
use cni::Cancellation;
use state_files::Deadline;

use crate::node::Node;
use crate::output::times::rounded;

/// Time limit of `ipamctl gc` for an attachment.
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
    /// A releaser with this time limit.
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

    /// The error of a release that has reached its time limit; `None` before.
    pub(super) fn is_over(&self) -> Option<anyhow::Error> {
        let is_over = self.deadline.is_cancelled();
        is_over.then(|| anyhow::anyhow!("not released within {}", self.time))
    }
}
