//! `ipamctl release`: releases one attachment.

use anyhow::Result;
use chain::WhenBusy;

use crate::Context;
use crate::arguments::ReleaseArguments;
use crate::inventory::{Inventory, Nodes, attachments, select};
use crate::release::{Done, Outcome, print, release};

pub(crate) fn run(arguments: &ReleaseArguments, context: &Context<'_>) -> Result<bool> {
    let node = &context.node();
    let inventory = Inventory::read(node, Nodes::ThisWithOwners);
    let all = attachments(&inventory.held);
    let found = select(&all, &arguments.target)?;
    let released = found.into_iter().map(|attachment| {
        let limit = arguments.timeout;
        let released = release(node, attachment, WhenBusy::Wait, limit, |_| None);
        let done = match released.unwrap_or_else(|error| Done::failed(&error)) {
            // A person has asked for it: a reason not to release it is a failure.
            Done::Kept { reason } => Done::Failed { reason },
            done => done,
        };
        Outcome { attachment, done }
    });
    let outcomes: Vec<Outcome<'_>> = released.collect();
    print(&outcomes, context)?;
    Ok(false)
}
