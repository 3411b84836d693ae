//! ADD: run the chain, and remember how far it has got.

use cni::{Attachment, Error, Printed, code};

use crate::chain::Chain;
use crate::config::AnswerIs;
use crate::context::Context;
use crate::failure::{self, FailedAdd};
use crate::interrupt::Interrupt;
use crate::record::{Circumstances, Record, State};
use crate::records::Found;
use crate::undo;

/// Runs the delegates with ADD.
pub(crate) fn add(context: &Context<'_>, attachment: &Attachment) -> Result<Printed, Error> {
    let boot = context.boot();
    clear_earlier(context, attachment, boot.as_deref())?;

    let (config, settings) = (&context.call.config, &context.settings);
    let circumstances = Circumstances {
        call: context.id.clone(),
        trace: context.call.trace.trace_id().to_owned(),
        boot,
        netns: context.text("CNI_NETNS"),
        args: context.text("CNI_ARGS"),
    };
    let mut record = Record::of_intent(config, attachment, &settings.delegates, circumstances);
    // Before anything is done, so that a DEL or a GC finds what was, whatever
    // happens to us.
    context.records.keep(attachment, &record);

    let interrupt = Interrupt::install()
        .inspect_err(|error| tracing::warn!(%error, "SIGTERM and SIGINT end us at once"))
        .ok();
    let mut delegates = context.delegates(&context.id, Vec::new(), interrupt.as_ref());
    let merged = settings.answer == AnswerIs::Merged;
    let result = Chain::new(&mut delegates, Some(attachment)).add(
        config,
        &settings.delegates,
        merged,
        |handed_on, answered, next| {
            record.note(handed_on);
            // A delegate that is called directly doesn't outlive us, and one of these
            // finds again what it has found, by the configuration in the record.
            let both_are_direct = context.calls_directly(answered)
                && next.is_some_and(|next| context.calls_directly(next));
            if !(both_are_direct && record.has_config()) {
                context.records.keep(attachment, &record);
            }
        },
    );
    result.map_err(|failed| {
        if !is_anything_held(&record, &failed) {
            context.records.remove(attachment);
        }
        context.with_record(attachment, failed.into_error())
    })
}

/// Whether a delegate that could not be undone may hold something.
fn is_anything_held(record: &Record, failed: &FailedAdd) -> bool {
    let ran = record.delegates();
    failed.not_undone.iter().any(|not_undone| {
        let name = &not_undone.delegate;
        let finds_only = ran.iter().any(|it| it.name == *name && it.holds_nothing);
        !finds_only && (*name != failed.failed.delegate || failed.may_hold)
    })
}

/// What there is of an earlier ADD: one that wasn't finished, or is from before the
/// last boot, is undone; one that stands is a reason to refuse this one, whose
/// failure would release what is in use.
fn clear_earlier(
    context: &Context<'_>,
    attachment: &Attachment,
    boot: Option<&str>,
) -> Result<(), Error> {
    let path = context.records.file(attachment);
    let record = match context.records.find(attachment) {
        Found::Nothing => return Ok(()),
        Found::Broken(reason) => {
            tracing::warn!(path = %path.display(), reason, "replacing a record that can't be used");
            return Ok(());
        }
        Found::Record(record) => *record,
    };
    let network = context.call.config.name();
    let this_boot = record.boot.as_deref() == boot || record.boot.is_none() || boot.is_none();
    if record.state == State::Added && this_boot {
        return Err(Error::new(
            code::ALREADY_ALLOCATED,
            format!("{attachment} is on network {network} already; a second ADD without a DEL is refused"),
        )
        .with_details(format!("recorded in {}", path.display())));
    }
    tracing::warn!(%attachment, state = ?record.state, this_boot, "undoing an earlier call first");
    let failures = undo::recorded(
        context,
        attachment,
        &record,
        &context.call.config,
        Vec::new(),
    );
    match failure::of_all(failures) {
        None => Ok(()),
        Some(error) => Err(context.with_record(attachment, error)),
    }
}
