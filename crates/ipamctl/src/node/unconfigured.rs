//! Networks that use a cluster and have no conflist: Multus keeps its networks'
//! configurations in the API server, and each ADD is recorded with its own.

use std::collections::BTreeMap;
use std::path::Path;

use chain::record::{AttachmentRecord, ListedRecord, records};
use cni::{DelegateName, NetworkName};
use conflist::{Conflist, Problem};

use crate::node::machine::{Node, known_or_empty};
use crate::node::network::Network;
use crate::shared_pools::engines::EngineKind;

impl Node {
    /// Reads the networks without a conflist that have records and use a cluster.
    pub(crate) fn unconfigured(&self, problems: &mut Vec<Problem>) -> Vec<Network> {
        let mut all = Vec::new();
        for (state_dir, name) in self.recorded_networks(problems) {
            if self.network(name.as_str()).is_none() {
                let path = state_dir.join(name.as_str());
                all.extend(known_or_empty(&path, records(&state_dir, &name), problems));
            }
        }
        self.unconfigured_in(&all, problems)
    }

    /// The networks of these records that have no conflist and use a cluster. The newest ADD has
    /// the configuration of each.
    pub(crate) fn unconfigured_in(
        &self,
        records: &[ListedRecord],
        problems: &mut Vec<Problem>,
    ) -> Vec<Network> {
        let mut newest: BTreeMap<&NetworkName, (&ListedRecord, &AttachmentRecord)> =
            BTreeMap::new();
        for record in records {
            let Ok(content) = &record.content else {
                continue;
            };
            if self.network(record.network.as_str()).is_some() || !uses_cluster(content) {
                continue;
            }
            let known = newest.entry(&record.network).or_insert((record, content));
            if known.1.added < content.added {
                *known = (record, content);
            }
        }
        let mut found = Vec::new();
        for (record, content) in newest.into_values() {
            match self.network_of(record, content) {
                Ok(network) => found.extend(network),
                Err(reason) => problems.push(Problem::new(&record.file, reason)),
            }
        }
        found
    }

    /// The network of a record, as its ADD was configured.
    fn network_of(
        &self,
        record: &ListedRecord,
        content: &AttachmentRecord,
    ) -> Result<Option<Network>, String> {
        let config = content.raw_config().ok_or("it has no configuration")?;
        let conflist = Conflist::parse(&record.file, config.get().as_bytes())?;
        let mut network = Network::of(&conflist, &self.environment)?;
        let state_dir = record.file.parent().and_then(Path::parent);
        if let (Some(network), Some(state_dir)) = (&mut network, state_dir) {
            state_dir.clone_into(&mut network.state_dir);
        }
        Ok(network)
    }
}

/// True if one of the ADD's delegates uses a cluster.
fn uses_cluster(content: &AttachmentRecord) -> bool {
    let delegates = content.delegates.iter();
    let names: Vec<DelegateName> = delegates.map(|delegate| delegate.name.clone()).collect();
    EngineKind::of(&names).is_some()
}
