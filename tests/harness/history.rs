//! History of a cluster's callers: the calls, their answers, and the keys over time.
//! [`violations`](History::violations) finds violations of the rules.
//!
//! Pure logic: a test collects the history, with one clock for all callers.

mod checker;
mod hold;
#[cfg(test)]
mod wrong_histories;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

pub use checker::Violation;
pub use hold::Hold;

/// An address of a pool. Two pools may have the same IP address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The pool's name.
    pub pool: String,
    /// The address, without a prefix.
    pub ip: IpAddr,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.ip, self.pool)
    }
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The call succeeded with this answer.
    Succeeded(T),
    /// An error or no answer. It is unknown whether the call was executed: the answer to a
    /// successful transaction may have been lost.
    Open,
}

/// A command with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// ADD, which gives addresses.
    Add(Outcome<Vec<Address>>),
    /// DEL.
    Del(Outcome<()>),
}

/// A call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The attachment, by a text that is unique in the cluster.
    pub attachment: String,
    /// The time before the call.
    pub started: Duration,
    /// The time after its answer.
    pub ended: Duration,
    /// What was called, and what became of it.
    pub command: Command,
}

/// Keys that were read between `started` and `ended`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The time before they were read.
    pub started: Duration,
    /// The time after they were read.
    pub ended: Duration,
    /// Each address that is reserved, with the attachment that holds it.
    pub addresses: Vec<(Address, String)>,
    /// The index by attachment, which DEL and GC use. `None` if there is no such index.
    pub index: Option<Vec<(Address, String)>>,
    /// True if no write is sent twice: what was given and then released stays released.
    pub sent_once: bool,
    /// True after GC with the living attachments as the valid ones, while nobody calls:
    /// nothing else may be there.
    pub collected: bool,
}

/// All calls of a test, and what was seen while they ran.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All calls of an attachment, in order.
    calls: BTreeMap<String, Vec<Operation>>,
    observations: Vec<Observation>,
}

impl History {
    /// The history of these calls and observations.
    ///
    /// # Errors
    ///
    /// The history is invalid: a call ends before its start, or two calls of one attachment
    /// overlap.
    pub fn new(calls: Vec<Operation>, observations: Vec<Observation>) -> Result<Self, String> {
        let mut history = Self {
            calls: BTreeMap::new(),
            observations,
        };
        for call in calls {
            if call.ended < call.started {
                return Err(format!("a call ends before it has started: {call:?}"));
            }
            let of_attachment = history.calls.entry(call.attachment.clone()).or_default();
            of_attachment.push(call);
        }
        for calls in history.calls.values_mut() {
            calls.sort_by_key(|call| call.started);
            if let Some(pair) = calls
                .windows(2)
                .find(|pair| pair[1].started < pair[0].ended)
            {
                return Err(format!("two calls of one attachment overlap: {pair:?}"));
            }
        }
        Ok(history)
    }

    /// The number of successful ADDs, and of all ADDs.
    pub fn adds(&self) -> (usize, usize) {
        let all = self.calls.values().flatten();
        let adds = all.filter_map(|call| match &call.command {
            Command::Add(outcome) => Some(outcome != &Outcome::Open),
            Command::Del(_) => None,
        });
        adds.fold((0, 0), |(succeeded, all), it| {
            (succeeded + usize::from(it), all + 1)
        })
    }

    /// The attachments that live at the end: their ADD succeeded, and DEL was not called.
    pub fn living(&self) -> Vec<&str> {
        let holds = self.holds();
        let living = holds.iter().filter(|hold| hold.surely_until.is_none());
        let mut names: Vec<&str> = living
            .filter_map(|hold| self.calls.get_key_value(&hold.attachment))
            .map(|(name, _)| name.as_str())
            .collect();
        names.dedup();
        names
    }

    /// All violations; empty if there is none.
    pub fn violations(&self) -> Vec<Violation> {
        let holds = self.holds();
        let mut all = checker::added_twice(self.calls.values());
        all.extend(checker::held_twice(&holds));
        for observation in &self.observations {
            all.extend(checker::missing(&holds, observation));
            all.extend(checker::not_released(&holds, observation));
            all.extend(checker::left_behind(&holds, observation));
            all.extend(checker::index_differs(observation));
        }
        all
    }

    fn holds(&self) -> Vec<Hold> {
        self.calls
            .values()
            .flat_map(|calls| hold::of(calls))
            .collect()
    }
}
