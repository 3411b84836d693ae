//! ADD of an attachment: runs the chain and records how far it has got.

use std::io;

use cni::{Attachment, Error, JsonOutput, TraceContext, code};

use crate::context::Context;
use crate::delegates::InstalledDelegates;
use crate::earlier_add::{self, Cleared};
use crate::failure::{FailedAdd, after_undoing};
use crate::journal::Journal;
use crate::record::Record;
use crate::record_line::{Intent, Line};
use crate::steps::Steps;
use crate::version_negotiation::VersionNegotiation;

/// The failure of an ADD that must be recorded and is not.
const NOT_RECORDED: &str = "the attachment can't be recorded";

/// Runs the delegates with ADD, and delivers the result.
pub(crate) fn add(
    context: &Context<'_>,
    attachment: &Attachment,
    deliver: impl FnOnce(&JsonOutput) -> io::Result<()>,
) -> Result<JsonOutput, Error> {
    let Cleared {
        mut journal,
        has_undone,
    } = earlier_add::clear(context, attachment)?;
    let mut record = Record::new(intent(context, attachment));
    // Before the first delegate runs, so that a DEL or a GC finds what was done, whatever
    // happens to this process.
    let mut first = vec![Line::Adding(Box::new(record.intent.clone()))];
    first.extend(context.caller_line.clone().map(Line::Caller));
    if let Some(journal) = &journal {
        journal.append(&first);
    }
    let must_be_recorded = context.caller_line.is_some();
    let is_recorded = || journal.as_ref().is_some_and(Journal::is_whole);
    if must_be_recorded && !is_recorded() {
        if let Some(journal) = journal {
            journal.remove();
        }
        return Err(Error::new(code::IO, NOT_RECORDED));
    }
    let delegates = InstalledDelegates::new(context, context.environment.clone())
        .holding(journal.as_ref())
        .cancellable();
    let mut delegates = VersionNegotiation::new(delegates);
    let result = Steps::new(&mut delegates, Some(attachment)).add(
        context.config,
        &context.settings.delegates,
        context.settings.answer,
        |result, is_last| {
            let mut new = vec![Line::result(result)];
            if is_last {
                new.push(Line::Added {});
            }
            if let Some(journal) = &journal {
                journal.append(&new);
            }
            for line in new {
                let noted = record.note(line);
                debug_assert_eq!(noted, Ok(()));
            }
        },
        |result| match must_be_recorded && !is_recorded() {
            true => Err(io::Error::other(NOT_RECORDED)),
            false => deliver(result),
        },
    );
    drop(delegates);
    if result.is_ok()
        && let Some(journal) = journal.take_if(|it| !it.is_whole())
    {
        // By a record that lacks lines, the next ADD would undo this one.
        journal.remove();
    }
    result.map_err(|failed| {
        if !is_anything_held(&record, &failed)
            && let Some(journal) = journal
            && !journal.is_at_work()
        {
            journal.remove();
        }
        let error = context.with_record(attachment, failed.into_error());
        if has_undone {
            after_undoing(error, attachment)
        } else {
            error
        }
    })
}

/// The first line of the record.
fn intent(context: &Context<'_>, attachment: &Attachment) -> Intent {
    let delegates = &context.settings.delegates;
    let mut intent = Intent::new(
        context.config,
        attachment,
        delegates,
        context.recorded_call(),
    );
    intent.trace = TraceContext::of_call(context.environment)
        .trace_id()
        .to_owned();
    intent.boot = context.boot().map(|boot| boot.id().to_owned());
    intent.netns = context.environment.text("CNI_NETNS");
    intent.args = context.environment.text("CNI_ARGS");
    intent
}

/// True if a delegate that could not be undone may hold something.
fn is_anything_held(record: &Record, failed: &FailedAdd) -> bool {
    let recorded = record.delegates();
    let finds_only = |name| {
        recorded
            .iter()
            .any(|it| it.name == name && it.holds_nothing)
    };
    failed.has_unterminated
        || failed.not_undone.iter().any(|not_undone| {
            let name = &not_undone.delegate;
            !finds_only(name) && (*name != failed.failed.delegate || failed.may_hold)
        })
}
