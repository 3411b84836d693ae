//! What `import`, `reconcile` and `node-forget` have done with an address of a cluster.

use anyhow::Result;
use cluster::{AddressKey, Holder, Remembered, Restored};
use serde::Serialize;

use crate::Context;

/// An address, its holder, and what was done. The keys are documented, and don't change their meaning.
#[derive(Serialize)]
pub(super) struct AddressOutcome {
    address: String,
    #[serde(flatten)]
    holder: Holder,
    /// `claimed`, `held`, `conflict`, `released`, `would-release`.
    outcome: &'static str,
    /// In a conflict, the address's holder.
    other: Option<String>,
}

impl AddressOutcome {
    pub(super) fn new(key: &AddressKey, holder: Holder, outcome: &'static str) -> Self {
        Self {
            address: key.to_string(),
            holder,
            outcome,
            other: None,
        }
    }

    /// An address that was claimed again: `held` if the engine still had it.
    pub(super) fn restored((address, restored): (Remembered, Restored)) -> Self {
        let (outcome, other) = match restored {
            Restored::Ours => ("held", None),
            Restored::Claimed => ("claimed", None),
            Restored::Taken(held) => ("conflict", Some(held.describe())),
        };
        Self {
            other,
            ..Self::new(&address.key, address.holder, outcome)
        }
    }

    fn text(&self) -> String {
        let (address, holder) = (&self.address, &self.holder);
        let pod = holder.pod.iter().map(|pod| format!(" of pod {pod}"));
        let other = self.other.iter().map(|other| format!(", it is {other}"));
        let more: String = pod.chain(other).collect();
        format!("{}: {address}, {holder}{more}", self.outcome)
    }
}

/// Prints the rows; true if one of them is a conflict.
pub(super) fn print(rows: &[AddressOutcome], context: &Context<'_>) -> Result<bool> {
    context.print(&rows, || rows.iter().map(AddressOutcome::text))?;
    Ok(rows.iter().any(|row| row.outcome == "conflict"))
}
