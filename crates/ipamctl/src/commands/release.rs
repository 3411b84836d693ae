//! `ipamctl release`: releases the attachments that a person names, without asking for evidence.

use anyhow::{Result, anyhow};
use chain::WhenBusy;

use crate::Context;
use crate::arguments::ReleaseArguments;
use crate::inventory::{Inventory, NodeScope, attachments, select};
use crate::release::{AttachmentOutcome, Outcome, print, release};

pub(crate) fn run(arguments: &ReleaseArguments, context: &Context<'_>) -> Result<bool> {
    let node = &context.node();
    let inventory = Inventory::read(node, NodeScope::ThisNodeAndOwners);
    let all = attachments(&inventory.rows);
    let found = select(&all, &arguments.target);
    let found = found.map_err(|error| anyhow!(inventory.unless_unread(error)))?;
    let released = found.into_iter().map(|attachment| {
        let limit = arguments.timeout;
        let released = release(node, attachment, WhenBusy::Wait, limit, |_| None);
        let result = match released.unwrap_or_else(|error| Outcome::failed(&error)) {
            // A person has asked for it: a reason not to release it is a failure.
            Outcome::Kept { reason } => Outcome::Failed { reason },
            outcome => outcome,
        };
        AttachmentOutcome { attachment, result }
    });
    let outcomes: Vec<AttachmentOutcome<'_>> = released.collect();
    print(&outcomes, context)?;
    Ok(false)
}
