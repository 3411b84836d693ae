//! Runs chains, with our plugins linked into this process.

use chain::record::record_of;
use chain::{Chain, Failure, Outcome, Plugins};
use cni::{
    Attachment, ContainerId, DelegateName, Environment, Error, IpamResult, NetworkConfig, Object,
};
use ipam::{IpNet, Range, pools_of_result};

use crate::ipam::chain_config::of_question;
use crate::ipam::facts::cni_args;
use crate::ipam::live_pool::LivePool;
use crate::ipam::plugins::{DelegateLog, for_plugins};
use crate::linked_plugins::LINKED;
use crate::pool_filter::ranges;
use crate::state::pool::{Facts, PoolChain};
use crate::state::record::{CallerLine, IFNAME};

/// The value of `CNI_NETNS`. Docker requests an address before the container's network namespace
/// exists, so this is the host's, which no plugin of a chain enters.
const NETNS: &str = "/proc/self/ns/net";

/// The container ID that selectors are told when a pool is chosen: there is no container yet.
const CHOICE: &str = "docker-choice";

/// Runs chains.
pub(crate) struct Chains {
    /// The environment of every call.
    pub(crate) environment: Environment,
}

impl Chains {
    /// Chains whose plugins are found in this `CNI_PATH`.
    pub(crate) fn new(cni_path: &str) -> Self {
        let environment = for_plugins(cni_path)
            .with("CNI_NETNS", NETNS)
            .with("CNI_IFNAME", IFNAME);
        Self { environment }
    }

    /// ADD of an attachment that holds an address of a pool; waits for its turn. Its record has
    /// the pool's ID.
    ///
    /// # Errors
    ///
    /// The chain's. The attachment may hold something nevertheless.
    pub(crate) fn add(
        &self,
        pool: &LivePool,
        config: &NetworkConfig,
        container_id: &ContainerId,
        args: &str,
    ) -> Result<IpamResult, Error> {
        let _turn = pool.turns.take();
        let environment = self.environment_of(container_id.as_str(), args);
        let line = CallerLine::Pool(pool.id.clone()).to_raw();
        let chain = chain(config, &environment)?.with_caller_line(line);
        let output = chain.add(&attachment(container_id))?;
        IpamResult::read("the chain's result", output.json())
    }

    /// DEL of an attachment that holds an address of a pool; waits for its turn. An attachment that
    /// is gone is no error.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn del(&self, pool: &LivePool, container_id: &ContainerId) -> Result<(), Error> {
        let _turn = pool.turns.take();
        self.release(&pool.chain.config, container_id)
    }

    /// The ranges of the pools that the selectors of a configuration choose if Docker asks for
    /// this subnet; `None` if there is no selector. Selectors hold nothing.
    ///
    /// # Errors
    ///
    /// The first failed selector's, with its name.
    pub(crate) fn ask(
        &self,
        config: &Object,
        subnet: Option<IpNet>,
        facts: &Facts,
    ) -> Result<Option<Vec<Range>>, Error> {
        let config = of_question(config, subnet)?;
        let environment = self.environment_of(CHOICE, &cni_args(facts, ""));
        let mut answers = chain(&config, &environment)?.dry_run(DelegateName::is_selector);
        let Some((name, last)) = answers.pop() else {
            return Ok(None);
        };
        let failure = match last {
            Outcome::Result(output) => {
                let result = IpamResult::read("the selectors' result", output.json())?;
                let mut chosen = Vec::new();
                for pool in pools_of_result(&result)? {
                    chosen.extend(ranges(&pool)?.into_iter().map(|(_, range)| range));
                }
                return Ok(Some(chosen));
            }
            Outcome::Nothing => Failure::silent(),
            Outcome::Failed(failure) => failure,
        };
        let error = failure.to_error();
        let msg = format!("{name}: {}", error.msg);
        Err(Error { msg, ..error })
    }

    /// DEL of an attachment with this configuration, without a turn.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn release(
        &self,
        config: &NetworkConfig,
        container_id: &ContainerId,
    ) -> Result<(), Error> {
        let environment = self.environment_of(container_id.as_str(), "");
        let plugins = Plugins::in_cni_path(&environment)?.and_linked(LINKED);
        let chain = Chain::for_del(config, &environment, plugins)?.observed_by(&DelegateLog);
        chain.del(&attachment(container_id))
    }

    /// False if the chain certainly has no record of an attachment: then the attachment holds
    /// nothing.
    pub(crate) fn may_have_record(&self, pool: &LivePool, container_id: &ContainerId) -> bool {
        let PoolChain { config, records } = &pool.chain;
        let record = record_of(records, config.name(), &attachment(container_id));
        !matches!(record, Ok(None))
    }

    fn environment_of(&self, container_id: &str, args: &str) -> Environment {
        let environment = self.environment.clone();
        let environment = environment.with("CNI_CONTAINERID", container_id);
        match args {
            "" => environment,
            args => environment.with("CNI_ARGS", args),
        }
    }
}

fn chain<'a>(config: &'a NetworkConfig, environment: &'a Environment) -> Result<Chain<'a>, Error> {
    let plugins = Plugins::in_cni_path(environment)?.and_linked(LINKED);
    Ok(Chain::new(config, environment, plugins)?.observed_by(&DelegateLog))
}

fn attachment(container_id: &ContainerId) -> Attachment {
    Attachment {
        container_id: container_id.clone(),
        ifname: IFNAME.parse().expect("it is an interface name"),
    }
}
