//! Takes in the networks and the endpoints' records of earlier daemons. An endpoint that a killed
//! daemon was making or undoing is to be undone.

use std::io;

use chain::record::{RecordState, networks};

use crate::network::live_endpoints::LiveEndpoint;
use crate::network::network_driver::{LiveNetwork, NetworkDriver};
use crate::state::endpoint::endpoint;
use crate::state::record;
use crate::threads::lock;

impl NetworkDriver {
    /// Takes in new files and records: at the start all, later those that could not be read before.
    ///
    /// # Errors
    ///
    /// An I/O error of a folder.
    pub(crate) fn take_in(&self) -> io::Result<()> {
        let mut taken = lock(&self.taken);
        let mut unread = Vec::new();
        for stored in self.files.networks.of_earlier(&mut unread)? {
            if taken.insert(stored.file.clone()) {
                let live = LiveNetwork::new(stored.file, stored.object);
                lock(&self.networks).insert(live.network.id.clone(), live);
            }
        }
        for network in networks(&self.records)? {
            let (records, empty) = record::read_all(&self.records, &network)?;
            for attachment in empty {
                if taken.insert(attachment.container_id.to_string()) {
                    self.remove_empty(&network, &attachment);
                }
            }
            for record in records {
                let container_id = record.attachment.container_id.to_string();
                if taken.contains(&container_id) {
                    continue;
                }
                let content = record.content.and_then(|content| {
                    // Docker never had it, or has given it back.
                    let is_abandoned = content.state != RecordState::Added;
                    Ok((endpoint(content)?, is_abandoned))
                });
                match content {
                    Ok((endpoint, is_abandoned)) => {
                        // If the ID is known already, that endpoint stays as it is.
                        let _ = self.endpoints.add(LiveEndpoint {
                            is_abandoned,
                            ..LiveEndpoint::new(endpoint)
                        });
                        taken.insert(container_id);
                    }
                    Err(reason) => unread.push((record.file, reason)),
                }
            }
        }
        self.unread.replace(unread);
        Ok(())
    }

    /// Tries again to take in the files that could not be read, if there are any.
    pub(crate) fn take_in_unread(&self) {
        self.unread.try_again(|| self.take_in());
    }
}
