//! Acquires an attachment's lock, and terminates processes that hold it for too long.

use std::io;
use std::time::Duration;

use cni::{Attachment, Error, code};
use rustix::process::Pid;

use crate::context::Context;
use crate::journal::Journal;
use crate::leftover_processes::{making_call, terminate, terminate_call};
use crate::record::Record;

/// Longest wait before the lock's holders are looked for. The delegates of a killed call
/// end within milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// A locked journal, and the record in it.
pub(crate) struct LockedJournal {
    pub(crate) journal: Journal,
    /// `None` if nothing has been written yet; else the record, or the reason why it
    /// can't be used.
    pub(crate) record: Option<Result<Record, String>>,
}

/// Treatment of a call for the same attachment that is still running.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunningCall {
    /// The call goes on, and the lock is not acquired.
    Respected,
    /// The call is terminated: the runtime has given it up.
    Terminated,
    /// The call goes on, and the lock is neither waited for nor taken over.
    Untouched,
    /// The call goes on. The lock is waited for, and not taken over: this process may not
    /// be one that recognizes the call's.
    WaitedFor,
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
) -> Result<Option<LockedJournal>, Error> {
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
                return Ok(Some(LockedJournal { journal, record }));
            }
            // The holder of the lock has removed the file: opened again.
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
    if running == RunningCall::Untouched {
        return Err(held(attachment, &[]));
    }
    tracing::debug!("waiting for the attachment's lock");
    if context
        .overtime
        .spend(|most| journal.lock(most.min(PATIENCE)))?
    {
        return Ok(());
    }
    if running == RunningCall::WaitedFor {
        return Err(held(attachment, &[]));
    }
    let record = match context.journals.read(journal, attachment) {
        Ok(Some(record)) => record,
        _ if running == RunningCall::Respected => return Err(held(attachment, &[])),
        // A record that can't be used doesn't identify the holder.
        _ => return take_over(journal),
    };
    let makers: Vec<Pid> = record
        .calls()
        .filter_map(|call| making_call(&call.id, attachment))
        .collect();
    if running == RunningCall::Respected && !makers.is_empty() {
        return Err(held(attachment, &makers));
    }
    let unterminated = context
        .overtime
        .spend(|most| terminate_holders(context, &record, attachment, makers, most));
    if context.overtime.spend(|most| journal.lock(most))? {
        return Ok(());
    }
    if unterminated.is_empty() {
        // The holder is a daemon, which has inherited the lock.
        return take_over(journal);
    }
    Err(held(attachment, &unterminated))
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
    let mut unterminated = terminate(makers, at_most / 2, is_still);
    for call in record.calls() {
        if let Some(session) = call.session
            && context.running.has(&call.id)
        {
            unterminated.extend(terminate_call(&call.id, session, at_most / 4));
        }
    }
    unterminated
}

/// Takes the record over from a process that no recorded call identifies.
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
