//! Events of a chain: start, stderr and end of each delegate.

use std::path::Path;
use std::time::Duration;

use cni::{Command, DelegateName};
use serde_json::value::RawValue;

use crate::call::outcome::Outcome;

/// Receives the events of a chain, for a log, a demo or a tool.
pub trait Observer {
    /// Takes note of an event.
    fn event(&self, event: &Event<'_>);
}

/// An event of a chain.
#[derive(Debug)]
pub enum Event<'a> {
    /// A delegate is about to run.
    Started {
        /// The name in `ipam.delegates`.
        delegate: &'a DelegateName,
        /// `CNI_COMMAND` of the delegate.
        command: Command,
        /// Its executable; `None` for a plugin that is only linked into this process.
        executable: Option<&'a Path>,
        /// Its `prevResult`.
        prev_result: Option<&'a RawValue>,
    },
    /// A delegate has written to stderr.
    Stderr {
        /// The name in `ipam.delegates`.
        delegate: &'a DelegateName,
        /// The bytes, as they came.
        bytes: &'a [u8],
    },
    /// A delegate has ended.
    Ended {
        /// The name in `ipam.delegates`.
        delegate: &'a DelegateName,
        /// `CNI_COMMAND` of the delegate.
        command: Command,
        /// Its result, or its failure.
        outcome: &'a Outcome,
        /// The time from its start to its end.
        took: Duration,
    },
}
