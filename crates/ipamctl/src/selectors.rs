//! Asks the selectors of a network for their pools, without a chain: those that are linked into this
//! process, as the daemon for Docker links them. They hold nothing, and nothing is executed. `explain` asks
//! for the pools of one container; [`Network::pools`], for those of any.

use cni::{
    Command, Environment, Error, LinkedPlugin, NetworkConfig, Object, SpecVersion, holds_nothing,
};
use docker_records::linked_plugins::LINKED;
use ipam::ALTERNATIVES;
use tracing::subscriber::{NoSubscriber, with_default};

use crate::network::{HOST_LOCAL, IPAM_DS_RANGES, Network};

impl Network {
    /// The pools that each linked selector prints on a command, in the order of the delegates; on STATUS,
    /// those that any container may get. The selector with host-local's configuration answers for
    /// host-local.
    ///
    /// # Errors
    ///
    /// The first refusal.
    pub(crate) fn selected(
        &self,
        command: Command,
        config: &NetworkConfig,
        environment: &Environment,
    ) -> Result<Vec<Option<Vec<Object>>>, Error> {
        let environment = environment.clone().with("CNI_COMMAND", command.as_str());
        // Older versions have neither GC nor STATUS.
        let config = config.in_version(SpecVersion::LATEST);
        let ask = |selector: &dyn LinkedPlugin| {
            let answer = selector.call(&environment, config.clone(), None).answer?;
            let Some(output) = answer else {
                return Ok(None);
            };
            let result: Object = cni::read("result", output.json())?;
            let pools: Option<Vec<Object>> = result.read("result", "pools")?;
            let alternatives: Option<Vec<Vec<Object>>> = result.read("result", ALTERNATIVES)?;
            let alternatives = alternatives.into_iter().flatten();
            let all = pools.into_iter().chain(alternatives).flatten();
            Ok(Some(all.collect()))
        };
        let selectors = self.delegates.iter().filter_map(|delegate| {
            let name = match delegate.as_str() {
                HOST_LOCAL if !self.has_delegate(IPAM_DS_RANGES) => IPAM_DS_RANGES,
                name => name,
            };
            let mut linked = LINKED.iter().copied();
            linked.find(|plugin| plugin.name() == name && holds_nothing(name))
        });
        // What a selector logs besides is meant for a runtime.
        with_default(NoSubscriber::default(), || selectors.map(ask).collect())
    }

    /// All pools of the linked selectors, for whatever container; `None` without such a selector.
    ///
    /// # Errors
    ///
    /// The reason why a selector knows none.
    pub(crate) fn pools(&self, environment: &Environment) -> Result<Option<Vec<Object>>, Error> {
        let pools = self.selected(Command::Gc, &self.config, environment)?;
        // On GC, a selector keeps the reason to itself, so that addresses are released.
        if pools.iter().any(Option::is_none) {
            self.selected(Command::Status, &self.config, environment)?;
        }
        let is_known = !pools.is_empty();
        Ok(is_known.then(|| pools.into_iter().flatten().flatten().collect()))
    }
}
