//! Waits for an attachment's lock, and terminates what holds it for too long.

use std::io;
use std::time::Duration;

use cni::{Attachment, Error, code};
use rustix::process::Pid;

use crate::context::Context;
use crate::journal::Journal;
use crate::leftover_processes::{making_call, terminate, terminate_call};
use crate::record::Record;

/// How long others may go on: a killed call's delegates need milliseconds to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// A locked journal, and the record in it.
pub(crate) struct Locked {
    pub(crate) journal: Journal,
    /// `None` if nothing has been written yet; else the record, or the reason why it
    /// can't be used.
    pub(crate) record: Option<Result<Record, String>>,
}

/// What happens to a call of the same attachment that is still running.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunningCall {
    /// It is left alone, and the lock is not acquired.
    Respected,
    /// It is terminated: the runtime has given it up.
    Terminated,
}

/// Opens an attachment's journal and locks it; `None` if there is none, and `create` is
/// not set.
///
/// # Errors
///
/// Code 11 if another call holds the lock and is not to be terminated, or can't be; code
/// 5 for the system's errors.
pub(crate) fn acquire(
    context: &Context<'_>,
    attachment: &Attachment,
    create: bool,
    running: RunningCall,
) -> Result<Option<Locked>, Error> {
    let failed = |error: io::Error| {
        Error::io(
            format_args!("record {}", context.journals.file(attachment).display()),
            error,
        )
    };
    loop {
        let opened = if create {
            context.journals.create(attachment).map(Some)
        } else {
            context.journals.open(attachment)
        };
        let Some(mut journal) = opened.map_err(failed)? else {
            return Ok(None);
        };
        match lock(context, attachment, &mut journal, running) {
            Ok(()) => {
                let record = context.journals.read(&journal, attachment).transpose();
                return Ok(Some(Locked { journal, record }));
            }
            // Its holder has removed it.
            Err(Problem::System(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(Problem::System(error)) => return Err(failed(error)),
            Err(Problem::Held(error)) => return Err(error),
        }
    }
}

enum Problem {
    System(io::Error),
    Held(Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

fn lock(
    context: &Context<'_>,
    attachment: &Attachment,
    journal: &mut Journal,
    running: RunningCall,
) -> Result<(), Problem> {
    if journal.lock(Duration::ZERO)? {
        return Ok(());
    }
    tracing::debug!("waiting for the attachment's lock");
    if context
        .overtime
        .spend(|most| journal.lock(most.min(PATIENCE)))?
    {
        return Ok(());
    }
    let record = match context.journals.read(journal, attachment) {
        Ok(Some(record)) => record,
        _ if running == RunningCall::Respected => return Err(held(attachment, &[])),
        // Nobody can be told from others by it.
        _ => return take_over(journal),
    };
    let makers: Vec<Pid> = record
        .calls()
        .filter_map(|call| making_call(&call.id, attachment))
        .collect();
    if running == RunningCall::Respected && !makers.is_empty() {
        return Err(held(attachment, &makers));
    }
    let unended = context
        .overtime
        .spend(|most| terminate_holders(context, &record, attachment, makers, most));
    if context.overtime.spend(|most| journal.lock(most))? {
        return Ok(());
    }
    if unended.is_empty() {
        // A daemon, which has inherited it.
        return take_over(journal);
    }
    Err(held(attachment, &unended))
}

fn terminate_holders(
    context: &Context<'_>,
    record: &Record,
    attachment: &Attachment,
    makers: Vec<Pid>,
    at_most: Duration,
) -> Vec<Pid> {
    let is_still = |pid| {
        let mut calls = record.calls();
        calls.any(|call| making_call(&call.id, attachment) == Some(pid))
    };
    let mut unended = terminate(makers, at_most / 2, is_still);
    for call in record.calls() {
        if let Some(session) = call.session
            && context.running.has(&call.id)
        {
            unended.extend(terminate_call(&call.id, session, at_most / 4));
        }
    }
    unended
}

/// Takes the record over from a process that is none of an earlier call's.
fn take_over(journal: &mut Journal) -> Result<(), Problem> {
    tracing::warn!("a daemon holds the attachment's lock: taking the record over");
    Ok(journal.take_over()?)
}

fn held(attachment: &Attachment, processes: &[Pid]) -> Problem {
    let pids: Vec<String> = processes.iter().map(ToString::to_string).collect();
    let who = match pids.as_slice() {
        [] => String::new(),
        pids => format!(" (process {})", pids.join(", ")),
    };
    Problem::Held(Error::new(
        code::TRY_AGAIN_LATER,
        format!("an earlier call for {attachment} is still running{who}"),
    ))
}
