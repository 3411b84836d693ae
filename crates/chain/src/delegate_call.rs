//! A call of a delegate, and the interface of what runs it.

use std::borrow::Cow;

use cni::{Command, DelegateName, NetworkConfig, SpecVersion};
use serde_json::value::RawValue;

use crate::{Left, Outcome};

/// A call of a delegate.
#[derive(Clone, Copy)]
pub(crate) struct DelegateCall<'a> {
    pub(crate) name: &'a DelegateName,
    pub(crate) command: Command,
    pub(crate) config: &'a NetworkConfig,
    /// `prevResult`, if it isn't the configuration's own.
    pub(crate) prev_result: Option<&'a RawValue>,
    /// The version to be called with, if it isn't the configuration's.
    pub(crate) version: Option<SpecVersion>,
}

impl DelegateCall<'_> {
    /// The delegate's stdin.
    pub(crate) fn stdin(&self) -> Cow<'_, [u8]> {
        match (self.version, self.prev_result) {
            (Some(version), prev_result) => self.config.in_version(version, prev_result).into(),
            (None, Some(prev_result)) => self.config.with_prev_result(prev_result).into(),
            (None, None) => self.config.as_bytes().into(),
        }
    }
}

/// Delegates that can be run.
pub(crate) trait Delegates {
    /// Runs one.
    fn run(&mut self, call: &DelegateCall<'_>) -> Outcome;

    /// Asks one for VERSION, with this `cniVersion`.
    fn ask_version(&mut self, name: &DelegateName, version: SpecVersion) -> Outcome;

    /// True if the call is cancelled.
    fn is_cancelled(&self) -> bool;

    /// Begins the rollback: terminates processes that delegates have left behind, and
    /// ignores the cancellation from now on, and bounds each delegate's time. From now on, a
    /// delegate is told that only this call is undone.
    fn begin_rollback(&mut self) -> Left;
}
