//! Release of one attachment by a tool: DEL by the record, unless a call for it is running.

use cni::{Attachment, Error};

use crate::chain::Chain;
use crate::record::attachment_record::AttachmentRecord;
use crate::record::folder::Found;
use crate::record::lock::{self, IfMissing};

/// Treatment of an attachment that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    /// The release is refused at once.
    Refuse,
    /// The lock is waited for, at most two seconds; then the release is refused.
    Wait,
}

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
    /// answer and the DEL.
    ///
    /// # Errors
    ///
    /// As [`Self::del`].
    pub fn release(
        &self,
        attachment: &Attachment,
        when_busy: WhenBusy,
        refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
    ) -> Result<Released, Error> {
        // Without a record, the lock's file is made, so that an ADD waits.
        let wait = Some(&self.overtime).filter(|_| when_busy == WhenBusy::Wait);
        let found = lock::acquire(&self.records, attachment, IfMissing::Make, wait);
        let (file, content) = match found {
            // It is locked, or can't be read now.
            Err(error) => return Ok(Released::Refused(error.msg)),
            Ok(Found::Record(locked)) => (Some(locked.file), locked.content),
            // No ADD has a record there, and none waits.
            Ok(Found::Unusable(_)) => (None, None),
        };
        // Made by this call, or empty: nobody needs it.
        let is_empty = content.is_none();
        let record = content.as_ref().and_then(|content| content.as_ref().ok());
        if let Some(reason) = refuse(record) {
            if is_empty && let Some(file) = file {
                file.remove();
            }
            return Ok(Released::Refused(reason));
        }
        let today = self.config.without_call();
        let environment = |record: Option<&_>| self.parameters(attachment, record);
        let failed = self.del_locked(attachment, &today, file.as_ref(), content, environment);
        let released = Error::all_as_one(failed);
        if (released.is_ok() || is_empty)
            && let Some(file) = file
            && !file.is_at_work()
        {
            file.remove();
        }
        match released {
            Ok(()) => Ok(Released::Done),
            Err(error) => Err(self.with_record(attachment, error)),
        }
    }
}
