//! GC: undo what is recorded of attachments that aren't valid any more, so that
//! delegates which know no GC are collected all the same; then hand the GC on.

use std::collections::HashSet;

use cni::{Attachment, Command, Error};

use crate::chain::{Chain, OnFailure, Turn};
use crate::context::Context;
use crate::delegates::Variable;
use crate::failure::{self, Failed};
use crate::record::Record;
use crate::undo;

/// Runs it, past all failures.
pub(crate) fn gc(context: &Context<'_>) -> Result<(), Error> {
    let config = &context.call.config;
    let (mut failures, refusal) = match config.valid_attachments() {
        Ok(valid) => (undo_stale(context, valid), None),
        // Without the list, nothing is known to be stale. The delegates decide
        // for themselves.
        Err(error) => (Vec::new(), Some(error)),
    };
    let turns: Vec<Turn<'_>> = context
        .settings
        .delegates
        .iter()
        .map(|name| Turn::new(name, config))
        .collect();
    let mut delegates = context.delegates(&context.id, Vec::new(), None);
    failures.extend(Chain::new(&mut delegates, None).run_all(
        Command::Gc,
        &turns,
        None,
        OnFailure::GoOn,
    ));
    match (refusal, failure::of_all(failures)) {
        (None, None) => Ok(()),
        (Some(error), None) | (None, Some(error)) => Err(error),
        (Some(refusal), Some(more)) => Err(Error {
            msg: format!("{}; {}", refusal.msg, more.msg),
            ..refusal
        }),
    }
}

fn undo_stale(context: &Context<'_>, valid: Vec<Attachment>) -> Vec<Failed> {
    let valid: HashSet<Attachment> = valid.into_iter().collect();
    let today = context.call.config.without_call();
    let recorded = context.records.attachments().into_iter();
    let stale = recorded.filter(|attachment| !valid.contains(attachment));
    stale
        .flat_map(|attachment| {
            tracing::debug!(%attachment, "is not valid any more");
            undo::attachment(context, &attachment, &today, |record| {
                parameters(&attachment, record)
            })
        })
        .collect()
}

/// What a runtime would call a DEL of the attachment with.
fn parameters(attachment: &Attachment, record: Option<&Record>) -> Vec<Variable> {
    vec![
        ("CNI_CONTAINERID", attachment.container_id.as_str().into()),
        ("CNI_IFNAME", attachment.ifname.as_str().into()),
        (
            "CNI_NETNS",
            record
                .map(|it| it.netns.as_str())
                .unwrap_or_default()
                .into(),
        ),
        (
            "CNI_ARGS",
            record.map(|it| it.args.as_str()).unwrap_or_default().into(),
        ),
    ]
}
