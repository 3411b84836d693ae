//! Takes in the networks, and the records of the endpoints, of earlier daemons. An endpoint that
//! a daemon was making or undoing when it was killed is to be undone.

use std::io;

use crate::lock::lock;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::network_driver::{LiveNetwork, NetworkDriver};
use crate::state::endpoint::{self, endpoint};
use crate::state::record::Record;
use crate::state::stage::Stage;

impl NetworkDriver {
    /// Takes in what is new: at the start all, and later what could not be read before.
    ///
    /// # Errors
    ///
    /// An I/O error of a folder.
    pub(crate) fn take_in(&self) -> io::Result<()> {
        let mut taken = lock(&self.taken);
        let mut unread = Vec::new();
        for stored in self.files.networks.of_earlier(&mut unread)? {
            if taken.insert(stored.file.clone()) {
                let network = LiveNetwork::new(stored.file, stored.object);
                lock(&self.networks).insert(network.network.id.clone(), network);
            }
        }
        for record in endpoint::read_all(&self.records)? {
            let container_id = record.attachment.container_id.to_string();
            if taken.contains(&container_id) {
                continue;
            }
            let file = record.file.clone();
            match self.take_in_endpoint(record) {
                Ok(()) => drop(taken.insert(container_id)),
                Err(reason) => unread.push((file, reason)),
            }
        }
        self.unread.replace(unread);
        Ok(())
    }

    fn take_in_endpoint(&self, record: Record) -> Result<(), String> {
        let (network, attachment) = (record.network, record.attachment);
        let Some(content) = record.content? else {
            // A daemon was killed before it wrote anything.
            self.remove_empty(&network, &attachment);
            return Ok(());
        };
        let (endpoint, stage) = endpoint(content)?;
        // One that is known already stays as it is.
        let _ = self.endpoints.add(LiveEndpoint {
            // Docker never had it, or has given it back.
            is_abandoned: matches!(stage, Stage::Begun | Stage::Ending),
            ..LiveEndpoint::new(endpoint)
        });
        Ok(())
    }

    /// Takes in what could not be read, if there is any, and logs why it can't.
    pub(crate) fn take_in_unread(&self) {
        if !self.unread.is_empty()
            && let Err(error) = self.take_in()
        {
            tracing::warn!(%error, "the files of networks and endpoints can't be read");
        }
    }
}
