//! Reads the records of earlier daemons: what they hold for Docker.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use chain::OwnRecord;
use chain::record::{ListedRecord, RecordState, attachments, networks, records, state_dir};
use cni::{Attachment, NetworkName};

use crate::ipam::chain_config::{self, conflist, of_conflist};
use crate::ipam::conflists;
use crate::ipam::held::{Held, Phase};
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::pool::Pool;
use crate::records::{IFNAME, Line};
use crate::threads::lock;

/// The start of the container IDs and of the network names of the daemon.
const PREFIX: &str = "docker-";

impl IpamDriver {
    /// Reads all records: the daemon's own, those of the network configurations that are there, and
    /// those in the default folder. The folder of another configuration is read with the first
    /// call for its pool.
    pub(crate) fn read_all_records(&self) {
        let environment = &self.chains.environment;
        let own = chain_config::own(&self.arguments);
        let found = conflists::all(&self.arguments.conf_dir);
        let of_list =
            |(name, list): &(NetworkName, _)| of_conflist(&conflist(list, name).ok()?).ok();
        let configs = found.iter().filter_map(of_list).chain([own]);
        let configs = configs.filter_map(|config| chain_config::parse(&config).ok());
        let mut folders = BTreeSet::new();
        for config in configs {
            if let Ok(folder) = state_dir(&config, environment) {
                folders.insert((folder, config.name().clone()));
            }
        }
        let default = chain_config::parse(&chain_config::nameless());
        let default = default.and_then(|config| state_dir(&config, environment));
        let default = default.unwrap_or_default();
        let in_default = networks(&default).unwrap_or_default().into_iter();
        let in_default = in_default.filter(|name| name.as_str().starts_with(PREFIX));
        folders.extend(in_default.map(|name| (default.clone(), name)));
        for (folder, network) in &folders {
            self.read_records(folder, network);
        }
    }

    /// Reads the records of a pool's chain, unless they were read.
    pub(crate) fn read_records_of(&self, pool: &Pool) {
        self.read_records(&pool.state_dir, &pool.network);
    }

    /// Reads records again that could not be read.
    pub(crate) fn read_unread(&self) {
        let unread = std::mem::take(&mut *lock(&self.unread));
        for (folder, network) in unread {
            lock(&self.read).remove(&(folder.clone(), network.clone()));
            self.read_records(&folder, &network);
        }
    }

    fn read_records(&self, folder: &Path, network: &NetworkName) {
        let key = (folder.to_owned(), network.clone());
        // Held meanwhile: a call must not miss an address that is being read.
        let mut read = lock(&self.read);
        if !read.insert(key.clone()) {
            return;
        }
        let listed = attachments(folder, network);
        let is_whole = listed.and_then(|attachments| {
            let records = records(folder, network)?;
            self.remove_empty(folder, network, &attachments, &records);
            let are_read = records.into_iter().map(|record| self.take_in(record));
            Ok(are_read.fold(true, |all, one| all & one))
        });
        let is_whole = is_whole.unwrap_or_else(|error| {
            tracing::warn!(%error, folder = %folder.display(), %network, "its records can't be read");
            false
        });
        if !is_whole {
            lock(&self.unread).insert(key);
        }
    }

    /// Takes in a record; false if it can't be read.
    fn take_in(&self, record: ListedRecord) -> bool {
        let ListedRecord {
            attachment,
            file,
            content,
            ..
        } = record;
        let id = attachment.container_id;
        if self.is_of_this_process(id.as_str()) || self.held.has(&id) {
            return true;
        }
        let content = match content {
            Ok(content) => content,
            Err(reason) => {
                tracing::warn!(reason, file = %file.display(), "can't be read; what it holds stays reserved");
                return false;
            }
        };
        let Some(Line::Address(line)) = Line::of(&content) else {
            return true;
        };
        let ip = line.address_in(&content);
        let pool = match self.pool(&line.pool) {
            Ok(pool) => pool,
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "its pool can't be read");
                return false;
            }
        };
        let phase = match content.state {
            RecordState::Added if ip.is_some() => Phase::Given,
            // Docker never had it, or has given it back.
            _ => Phase::Unreleased,
        };
        let held = Held {
            id,
            pool,
            purpose: line.purpose,
            name: line.name,
            is_requested: line.address.is_some(),
            added: content.added,
            since: None,
        };
        self.held.add(Arc::new(held), ip, phase);
        true
    }

    /// Removes empty records of earlier daemons: they were killed before any delegate ran.
    fn remove_empty(
        &self,
        folder: &Path,
        network: &NetworkName,
        attachments: &[Attachment],
        records: &[ListedRecord],
    ) {
        let is_empty = |attachment: &&Attachment| {
            let id = attachment.container_id.as_str();
            let is_ours = id.starts_with(PREFIX) && attachment.ifname.as_str() == IFNAME;
            let listed = records.binary_search_by_key(attachment, |record| &record.attachment);
            is_ours && !self.is_of_this_process(id) && listed.is_err()
        };
        for attachment in attachments.iter().filter(is_empty) {
            if let Ok(Some(record)) = OwnRecord::open(folder, network, attachment) {
                record.remove();
            }
        }
    }
}
