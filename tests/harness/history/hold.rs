//! The time in which an attachment holds an address, as far as its caller knows it.

use std::fmt;
use std::time::Duration;

use super::{Address, Command, Operation, Outcome};

/// An attachment that was given an address.
///
/// The attachment takes the address at some time during its ADD, and releases it at some time
/// during its DELs. So it surely holds it from the end of the ADD to the start of the first DEL,
/// and possibly from the start of the ADD to the end of the successful DEL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The attachment, by its unique text.
    pub attachment: String,
    /// The address.
    pub address: Address,
    /// The end of its ADD.
    pub surely_from: Duration,
    /// The start of its first DEL; `None` if there was none.
    pub surely_until: Option<Duration>,
    /// The end of the first DEL that succeeded; `None` if none did.
    pub possibly_until: Option<Duration>,
    /// The start of the attachment's next ADD; `None` if there was none.
    pub next_add: Option<Duration>,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            attachment,
            address,
            surely_from,
            ..
        } = self;
        write!(f, "{attachment} has {address} from {surely_from:.3?} ")?;
        match self.surely_until {
            Some(until) => write!(f, "to {until:.3?}"),
            None => f.write_str("on"),
        }
    }
}

/// The holds of an attachment, from all of its calls in their order.
pub(super) fn of(calls: &[Operation]) -> Vec<Hold> {
    let mut holds = Vec::new();
    for (i, call) in calls.iter().enumerate() {
        let Command::Add(Outcome::Succeeded(addresses)) = &call.command else {
            continue;
        };
        let later = || calls[i + 1..].iter();
        let is_del = |operation: &&Operation| matches!(operation.command, Command::Del(_));
        let dels = || later().filter(is_del);
        let next_add = later().find(|operation| !is_del(operation));
        let succeeded =
            |operation: &&Operation| operation.command == Command::Del(Outcome::Succeeded(()));
        for address in addresses {
            holds.push(Hold {
                attachment: call.attachment.clone(),
                address: address.clone(),
                surely_from: call.ended,
                surely_until: dels().next().map(|del| del.started),
                possibly_until: dels().find(succeeded).map(|del| del.ended),
                next_add: next_add.map(|add| add.started),
            });
        }
    }
    holds
}
