//! Runs chains, with our plugins linked into this process.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use chain::record as records;
use chain::{Chain, Failure, Outcome, Plugins};
use cni::{Attachment, ContainerId, DelegateName, Environment, Error, IpamResult, NetworkConfig};

use crate::ipam::delegate_log::DelegateLog;
use crate::ipam::held::LivePool;
use crate::linked_plugins::LINKED;
use crate::state::address_record::IFNAME;
use crate::state::caller_line::CallerLine;
use crate::state::pool::PoolChain;

/// The network namespace that plugins are told of. An address is asked for before there
/// is one; this is the host's, which none of them enters.
const NETNS: &str = "/proc/self/ns/net";

/// The container ID that selectors are told when a pool is chosen: there is no container yet.
const CHOICE: &str = "docker-choice";

/// Runs chains.
pub(crate) struct Chains {
    /// The environment of every call.
    environment: Environment,
}

impl Chains {
    /// Chains whose plugins are found in this `CNI_PATH`, with these variables.
    pub(crate) fn new(cni_path: &str, variables: &[(OsString, OsString)]) -> Self {
        let environment: Environment = variables.iter().cloned().collect();
        let environment = environment
            .with("CNI_PATH", cni_path)
            .with("CNI_NETNS", NETNS)
            .with("CNI_IFNAME", IFNAME);
        Self { environment }
    }

    /// ADD of an attachment that holds an address of a pool; waits for its turn. Its record has
    /// the pool's ID.
    ///
    /// # Errors
    ///
    /// The chain's. Something may be held nevertheless.
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
        let output = chain.add(&attachment(container_id)?)?;
        IpamResult::read("the chain's result", output.json())
    }

    /// DEL of such an attachment; waits for its turn. What is gone already is no error.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn del(&self, pool: &LivePool, container_id: &ContainerId) -> Result<(), Error> {
        let _turn = pool.turns.take();
        self.release(&pool.chain.config, container_id)
    }

    /// The result of a chain's selectors, which hold nothing; `None` if it has no selector.
    ///
    /// # Errors
    ///
    /// The first failed selector's, with its name.
    pub(crate) fn ask(
        &self,
        config: &NetworkConfig,
        args: &str,
    ) -> Result<Option<IpamResult>, Error> {
        let environment = self.environment_of(CHOICE, args);
        let mut answers = chain(config, &environment)?.dry_run(DelegateName::is_selector);
        let Some((name, last)) = answers.pop() else {
            return Ok(None);
        };
        let failure = match last {
            Outcome::Result(output) => {
                return IpamResult::read("the selectors' result", output.json()).map(Some);
            }
            Outcome::Nothing => Failure::Silent,
            Outcome::Failed(failure) => failure,
        };
        let error = failure.to_error();
        let msg = format!("{name}: {}", error.msg);
        Err(Error { msg, ..error })
    }

    /// DEL of any attachment.
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
        chain.del(&attachment(container_id)?)
    }

    /// False if the chain certainly has no record of an attachment: then the attachment holds
    /// nothing.
    pub(crate) fn may_have_record(&self, pool: &LivePool, container_id: &ContainerId) -> bool {
        let PoolChain { config, records } = &pool.chain;
        let record = attachment(container_id)
            .map(|attachment| records::record_of(records, config.name(), &attachment));
        !matches!(record, Ok(Ok(None)))
    }

    /// The folder of the records of a configuration's chain.
    ///
    /// # Errors
    ///
    /// Code 7 or 4: the path is relative.
    pub(crate) fn state_dir(&self, config: &NetworkConfig) -> Result<PathBuf, Error> {
        records::state_dir(config, &self.environment)
    }

    fn environment_of(&self, container_id: &str, args: &str) -> Environment {
        let environment = self
            .environment
            .clone()
            .with("CNI_CONTAINERID", container_id);
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

fn attachment(container_id: &ContainerId) -> Result<Attachment, Error> {
    let ifname = IFNAME.parse().map_err(|_| Error::environment(IFNAME))?;
    Ok(Attachment {
        container_id: container_id.clone(),
        ifname,
    })
}

/// The first of these addresses that is in this subnet.
pub(crate) fn address_in(
    mut ips: impl Iterator<Item = IpAddr>,
    subnet: ipam::IpNet,
) -> Option<IpAddr> {
    ips.find(|ip| subnet.contains(ip))
}
