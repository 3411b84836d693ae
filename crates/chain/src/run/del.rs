//! DEL of an attachment: by its record, or by today's configuration.

use std::io;

use cni::{
    Attachment, Command, DelegateName, Environment, Error, IpamResult, NetworkConfig, Object, code,
};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::call::installed_delegates::InstalledDelegates;
use crate::chain::Chain;
use crate::record::attachment_record::AttachmentRecord;
use crate::record::file::RecordFile;
use crate::record::folder::Found;
use crate::record::line::{Line, RecordedCall};
use crate::record::lock::IfMissing;
use crate::run::failed_delegate::FailedDelegate;
use crate::run::prev_result::completed;
use crate::run::step::Step;
use crate::run::steps::{self, OnFailure};

/// Warns of a record that DEL can't use.
const WITHOUT_A_RECORD: &str = "the record can't be used: doing what the configuration says";

impl Chain<'_> {
    /// DEL: runs the delegates of the ADD, by its record, and those of today's
    /// configuration.
    ///
    /// # Errors
    ///
    /// The first failed delegate's code and all of their messages, after all have run; code 11
    /// if another call, or a process that it has left, holds the attachment's lock, or if its
    /// record can't be read now.
    pub fn del(&self, attachment: &Attachment) -> Result<(), Error> {
        let environment = |record: Option<&AttachmentRecord>| {
            let environment = self.environment.clone();
            match record {
                // A runtime must give DEL what it gave ADD, and some don't.
                Some(record) if environment.text("CNI_ARGS").is_empty() => {
                    environment.with("CNI_ARGS", &record.args)
                }
                _ => environment,
            }
        };
        let failed = self.del_with(attachment, self.config, environment);
        let failed = failed.map_or_else(|not_begun| vec![not_begun], |(failed, _)| failed);
        Error::all_as_one(failed).map_err(|error| self.with_record(attachment, error))
    }

    /// Runs DEL for an attachment: the delegates of its record, and those that only `today`'s
    /// configuration names. Returns the errors of the failed ones, and true if there is a record
    /// nevertheless: something has failed, or the record can't be changed. `environment` makes the
    /// delegates' environment, from the record if there is one.
    ///
    /// # Errors
    ///
    /// Code 11 if no delegate has run: the attachment is locked, or its record can't be read
    /// now.
    pub(crate) fn del_with(
        &self,
        attachment: &Attachment,
        today: &NetworkConfig,
        environment: impl FnOnce(Option<&AttachmentRecord>) -> Environment,
    ) -> Result<(Vec<Error>, bool), Error> {
        let mut is_recorded = true;
        let (file, content) = match self.lock_record(attachment, IfMissing::Leave)? {
            Found::Unusable(error) if error.kind() == io::ErrorKind::NotFound => {
                is_recorded = false;
                (None, None)
            }
            Found::Unusable(error) => {
                let path = self.records.file(attachment);
                tracing::warn!(path = %path.display(), %error, "{WITHOUT_A_RECORD}");
                (None, None)
            }
            Found::Record(locked) => (Some(locked.file), locked.content),
        };
        let failed = self.del_locked(attachment, today, file.as_ref(), content, environment);
        if failed.is_empty()
            && let Some(file) = file
        {
            is_recorded = !file.remove();
        }
        Ok((failed, is_recorded))
    }

    /// Runs DEL for an attachment whose record is locked, if it has one. The record is not
    /// removed. Returns the errors of the failed delegates.
    pub(crate) fn del_locked(
        &self,
        attachment: &Attachment,
        today: &NetworkConfig,
        file: Option<&RecordFile>,
        content: Option<Result<AttachmentRecord, String>>,
        environment: impl FnOnce(Option<&AttachmentRecord>) -> Environment,
    ) -> Vec<Error> {
        let delegates = |record: Option<&AttachmentRecord>| {
            InstalledDelegates::new(self, environment(record))
                .holding(file)
                .cancelled_by(self.deadline)
        };
        match (file, content) {
            (Some(file), Some(Ok(record))) => {
                let delegates = delegates(Some(&record));
                self.del_by_record(attachment, &record, file, today, delegates)
            }
            (_, content) => {
                if let Some(Err(reason)) = content {
                    let path = self.records.file(attachment);
                    tracing::warn!(path = %path.display(), reason, "{WITHOUT_A_RECORD}");
                }
                let steps = Step::all(&self.settings.delegates, today);
                run(attachment, delegates(None), file, &steps, None)
            }
        }
    }

    /// Runs DEL for an attachment by its record, with these delegates, which inherit its lock.
    /// The record is not removed.
    pub(crate) fn del_by_record(
        &self,
        attachment: &Attachment,
        record: &AttachmentRecord,
        file: &RecordFile,
        today: &NetworkConfig,
        delegates: InstalledDelegates<'_, '_>,
    ) -> Vec<Error> {
        tracing::debug!(added_by_trace = record.trace, "undoing what is recorded");
        // The configuration of the ADD, if it differs from today's.
        let then = record.config().filter(|then| !are_equal(then, today));
        let recorded = record.recorded_delegates();
        let today_names = &self.settings.delegates;
        let mut steps: Vec<Step<'_>> = recorded
            .iter()
            .map(|recorded| {
                let is_named_today = today_names.contains(recorded.name);
                Step {
                    // The configuration of the ADD may have a fault that today's has not.
                    fallback: Some(today).filter(|_| then.is_some() && is_named_today),
                    may_be_gone: !is_named_today,
                    ..Step::recorded(*recorded, then.as_ref().unwrap_or(today))
                }
            })
            .collect();
        let is_recorded =
            |name: &DelegateName| recorded.iter().any(|delegate| delegate.name == name);
        let only_today = today_names.iter().filter(|name| !is_recorded(name));
        steps.extend(only_today.map(|name| Step::new(name, today)));

        file.append(&[Line::Deleting(RecordedCall {
            id: self.id.clone(),
        })]);
        let prev_result = match (today.raw_prev_result(), record.answer()) {
            (Some(todays), Some(answer)) if !has_addresses(todays) => {
                Some(completed(Some(&without_ips(todays)), answer))
            }
            // The `prevResult` in the configuration, unchanged.
            (Some(_), _) if then.is_none() => None,
            (todays, answer) => todays.or(answer).map(ToOwned::to_owned),
        };
        run(attachment, delegates, Some(file), &steps, prev_result)
    }
}

fn run(
    attachment: &Attachment,
    mut delegates: InstalledDelegates<'_, '_>,
    file: Option<&RecordFile>,
    steps: &[Step<'_>],
    prev_result: Option<Box<RawValue>>,
) -> Vec<Error> {
    let failed = steps::run(
        &mut delegates,
        Command::Del,
        Some(attachment),
        steps,
        prev_result,
        OnFailure::Continue,
    );
    drop(delegates);
    let mut errors: Vec<Error> = failed.into_iter().map(FailedDelegate::into_error).collect();
    if errors.is_empty() && file.is_some_and(RecordFile::is_at_work) {
        errors.push(Error::new(
            code::TRY_AGAIN_LATER,
            "a process that a delegate has left behind can't be terminated",
        ));
    }
    errors
}

/// True if a `prevResult` lists addresses. The allocator reads the files of these, even
/// if its index doesn't know them.
fn has_addresses(prev_result: &RawValue) -> bool {
    let result = IpamResult::read("prevResult", prev_result);
    result.is_ok_and(|result| !result.ips.is_empty())
}

/// A `prevResult` without `ips`: the record's `ips` replace an empty list.
fn without_ips(prev_result: &RawValue) -> Box<RawValue> {
    let Ok(mut object) = serde_json::from_str::<Object>(prev_result.get()) else {
        return prev_result.to_owned();
    };
    object.remove("ips");
    to_raw_value(&object).expect("an object is JSON")
}

/// True if two configurations differ only in the keys of one call.
fn are_equal(one: &NetworkConfig, other: &NetworkConfig) -> bool {
    // A number may be too large for a `Value`; such configurations count as different.
    let value = |config: &NetworkConfig| {
        serde_json::from_slice::<Value>(config.without_call().as_bytes()).ok()
    };
    one.as_bytes() == other.as_bytes() || value(one).is_some_and(|one| value(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::config;

    #[test]
    fn configurations_are_equal_if_they_say_the_same_beside_the_call() {
        let equal = |one: &str, other: &str| are_equal(&config(one), &config(other));
        assert!(equal(
            r#","a":1,"b":2"#,
            r#", "b":2, "a":1, "prevResult":{}"#
        ));
        assert!(!equal(r#","a":1"#, r#","a":2"#));
        assert!(equal(r#","a":1e400"#, r#","a":1e400"#));
        assert!(!equal(r#","a":1e400,"b":1"#, r#","a":1e400,"b":2"#));
    }

    #[test]
    fn a_prev_result_without_addresses_is_completed_from_the_record() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let prev_result = raw(r#"{"ips":[],"x":1}"#);
        let answer = raw(r#"{"ips":[{"address":"10.0.0.2/24"}],"x":2}"#);
        assert!(!has_addresses(&prev_result) && has_addresses(&answer));
        assert_eq!(
            completed(Some(&without_ips(&prev_result)), &answer).get(),
            r#"{"x":1,"ips":[{"address":"10.0.0.2/24"}]}"#
        );
    }
}
