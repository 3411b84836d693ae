//! Finds plugins of one conflist that share a folder of records or of reservations: their attachments
//! have the same name there.

use crate::check::conflist_check::Check;
use crate::network::Network;

impl Check<'_> {
    /// Compares the plugins with an `ipam` section of a chain with the ones before them.
    pub(super) fn shared_folders(&mut self) {
        let read = Network::each_of(self.one.conflist, self.environment);
        let usable = read.filter_map(|(i, network)| Some((i, network.ok()?)));
        let plugins: Vec<(usize, Network)> = usable.collect();
        for (at, (i, network)) in plugins.iter().enumerate() {
            for (_, other) in &plugins[..at] {
                self.folders_of_two(*i, network, other);
            }
        }
    }

    fn folders_of_two(&mut self, i: usize, network: &Network, other: &Network) {
        let has_records = !network.is_host_local && !other.is_host_local;
        let has_chain = !network.is_host_local || !other.is_host_local;
        let keep_files = network.keeps_files() && other.keeps_files();
        let kind = &other.main.kind;
        let mut add = |name: &str, problem: String| {
            let key = format!("plugins[{i}].ipam.{name}");
            let instead = "a \"stateDir\" and a \"dataDir\" of its own for each plugin";
            self.error(&key, problem, instead);
        };
        if has_records && network.state_dir == other.state_dir {
            let path = network.state_dir.display();
            let problem = format!("{path} has the records of {kind}, too: each ADD fails with 110");
            add("stateDir", problem);
        }
        if has_chain && keep_files && network.data_dir == other.data_dir {
            let path = network.data_dir.display();
            let problem = format!(
                "{path} has the reservations of {kind}, too: a DEL of one may release the other's"
            );
            add("dataDir", problem);
        }
    }
}
