//! A network of the network driver, as it is remembered.

use serde::{Deserialize, Serialize};

use crate::state::pool::Facts;

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    /// Docker's ID.
    pub(crate) id: String,
    /// The name of the network configuration.
    pub(crate) conflist: String,
    /// The other options.
    pub(crate) facts: Facts,
    /// Gateways of Docker's own subnets.
    pub(crate) gateways: Vec<String>,
    /// True if its containers get no default route (`--internal`).
    pub(crate) is_internal: bool,
}
