//! Release of one attachment by a tool: DEL by the record, unless a call for it is running.

use std::time::{Duration, Instant};

use cni::{Attachment, Error};

use crate::chain::Chain;
use crate::record::{AttachmentRecord, IfMissing, Lookup, WhenBusy, lock};

/// Outcome of a release in which nothing failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// The delegates have run.
    Done,
    /// Nothing was done, for this reason.
    Refused(String),
}

impl Chain<'_> {
    /// DEL for a tool: undoes an attachment by its record, or by today's configuration,
    /// unless a call for it is running, or `refuse` returns a reason. `refuse` gets the
    /// record, and is asked while the attachment is locked: nothing changes between its
    /// answer and the DEL. The delegates have `within` in all: then the running one is terminated,
    /// and no further one is started.
    ///
    /// # Errors
    ///
    /// As [`Self::del`].
    pub fn release(
        mut self,
        attachment: &Attachment,
        when_busy: WhenBusy,
        within: Duration,
        refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
    ) -> Result<Released, Error> {
        self.limits.deadline = Some(Instant::now() + within);
        // Without a record, the lock's file is made, so that an ADD waits.
        let found = match lock::acquire(&self.records, attachment, IfMissing::Make, when_busy) {
            // It is locked, or can't be read now.
            Err(error) => return Ok(Released::Refused(error.msg)),
            // No ADD has a record there, and none waits.
            Ok(Lookup::Unusable(_)) => Lookup::Missing,
            Ok(found) => found,
        };
        let locked = match &found {
            Lookup::Found(locked) => Some(locked),
            _ => None,
        };
        let content = locked.and_then(|locked| locked.content.as_ref());
        if let Some(reason) = refuse(content.and_then(|content| content.as_ref().ok())) {
            if let (Some(locked), None) = (locked, content) {
                locked.file.remove();
            }
            return Ok(Released::Refused(reason));
        }
        let undone = self.undo(attachment, &self.config.without_call(), found);
        match undone.and_then(|undone| Error::all_as_one(undone.failed)) {
            Ok(()) => Ok(Released::Done),
            Err(error) => Err(self.with_record(attachment, error)),
        }
    }
}
