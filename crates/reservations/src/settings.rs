//! Folders of the reservations and indexes, and the network that uses them.

use std::path::PathBuf;

use cni::{Cancellation, NetworkName};
use state_files::Boot;

use crate::origin::Fact;

/// Folders of the reservations and indexes, and the network that uses them.
#[derive(Clone)]
pub struct Settings<'a> {
    /// The folder with a directory for each network and each named pool: an absolute path.
    pub data_dir: PathBuf,
    /// The folder for indexes.
    pub cache_dir: PathBuf,
    /// The network.
    pub network: NetworkName,
    /// Releases the network's reservations from before this boot. `None` releases nothing.
    pub reclaim: Option<Boot>,
    /// The ID of the chain's call, which new reservations note. `None` outside of a chain.
    pub call: Option<String>,
    /// Ends a wait for a lock.
    pub cancellation: Option<&'a dyn Cancellation>,
}

impl Settings<'_> {
    /// The origin of a new reservation.
    pub(crate) fn origin(&self) -> Vec<(Fact, &str)> {
        let boot = self.reclaim.as_ref().map(|boot| (Fact::Boot, boot.id()));
        let call = self.call.as_deref().map(|call| (Fact::Call, call));
        boot.into_iter().chain(call).collect()
    }
}
