//! Runs chains, with our plugins linked into this process.

use std::ffi::OsString;
use std::net::IpAddr;

use chain::record::{self as records, ListedRecord};
use chain::{Chain, Plugins};
use cni::{Attachment, ContainerId, Environment, Error, IpamResult, NetworkConfig};
use tokio::runtime::Handle;

use crate::ipam::delegate_log::DelegateLog;
use crate::ipam::linked_plugins::LINKED;
use crate::ipam::live_pools::LivePool;

/// The name of the interface in every attachment.
const IFNAME: &str = "eth0";

/// The network namespace that plugins are told of. An address is asked for before there
/// is one; this is the host's, which none of them enters.
const NETNS: &str = "/proc/self/ns/net";

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

    /// ADD of an attachment that holds an address of a pool; waits for its turn.
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
        let _turn = Handle::current().block_on(pool.chains.acquire());
        self.ask(config, container_id, args)
    }

    /// DEL of such an attachment; waits for its turn. What is gone already is no error.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn del(&self, pool: &LivePool, container_id: &ContainerId) -> Result<(), Error> {
        let _turn = Handle::current().block_on(pool.chains.acquire());
        self.release(&pool.pool.release_config()?, container_id)
    }

    /// ADD of any attachment.
    ///
    /// # Errors
    ///
    /// The chain's.
    pub(crate) fn ask(
        &self,
        config: &NetworkConfig,
        container_id: &ContainerId,
        args: &str,
    ) -> Result<IpamResult, Error> {
        let environment = self.environment_of(container_id).with("CNI_ARGS", args);
        let plugins = Plugins::in_cni_path(&environment)?.and_linked(LINKED);
        let chain = Chain::new(config, &environment, plugins)?.observed_by(&DelegateLog);
        let output = chain.add(&attachment(container_id)?)?;
        IpamResult::read("the chain's result", output.json())
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
        let environment = self.environment_of(container_id);
        let plugins = Plugins::in_cni_path(&environment)?.and_linked(LINKED);
        let chain = Chain::for_del(config, &environment, plugins)?.observed_by(&DelegateLog);
        chain.del(&attachment(container_id)?)
    }

    /// The chain's record of an attachment, which holds something as long as there is one.
    ///
    /// # Errors
    ///
    /// It can't be said whether there is one.
    pub(crate) fn record(
        &self,
        pool: &LivePool,
        container_id: &ContainerId,
    ) -> Result<Option<ListedRecord>, Error> {
        let config = pool.pool.release_config()?;
        let folder = records::state_dir(&config, &self.environment)?;
        let attachment = attachment(container_id)?;
        records::record_of(&folder, config.name(), &attachment)
            .map_err(|error| Error::io(folder.display(), error))
    }

    /// False if the chain certainly has no record of an attachment.
    pub(crate) fn may_have_record(&self, pool: &LivePool, container_id: &ContainerId) -> bool {
        !matches!(self.record(pool, container_id), Ok(None))
    }

    fn environment_of(&self, container_id: &ContainerId) -> Environment {
        let environment = self.environment.clone();
        environment.with("CNI_CONTAINERID", container_id.as_str())
    }
}

fn attachment(container_id: &ContainerId) -> Result<Attachment, Error> {
    let ifname = IFNAME.parse().map_err(|_| Error::environment(IFNAME))?;
    Ok(Attachment {
        container_id: container_id.clone(),
        ifname,
    })
}

/// The address of a result that is in this subnet.
pub(crate) fn address_in(result: &IpamResult, subnet: ipam::IpNet) -> Option<IpAddr> {
    let mut ips = result.ips.iter().map(cni::IpConfig::ip);
    ips.find(|ip| subnet.contains(ip))
}
