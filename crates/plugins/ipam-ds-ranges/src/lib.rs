#![doc = include_str!("../README.md")]

mod ranges;

use std::collections::BTreeMap;

use cni::{About, Attachment, Call, Error, Object, Plugin, Reply};
use ipam::RequestedAddress;

/// The selector `ipam-ds-ranges`: makes a pool of each range set of `ipam.ranges`.
pub struct IpamDsRanges;

impl Plugin for IpamDsRanges {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Selection::read(call)?.not_empty()?.served()?.reply(call)
    }

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let selection = Selection::read(call).and_then(Selection::not_empty);
        Ok(warn_of_error(
            selection.and_then(|selection| selection.reply(call)),
        ))
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        if call.config.raw_prev_result().is_none() {
            return Err(Error::config(
                "prevResult is missing: CHECK requires the result of ADD",
            ));
        }
        Selection::read(call)?.reply(call)
    }

    // GC and STATUS are called without runtimeConfig, so the runtime's ranges are missing.

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        Ok(warn_of_error(
            Selection::read(call).and_then(|selection| selection.reply(call)),
        ))
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let selection = Selection::read(call)?;
        // The runtime may pass ranges to ADD, but not to STATUS.
        if selection.pools.is_empty() && takes_ranges_of_the_runtime(call)? {
            return Ok(Reply::Nothing);
        }
        // A request that is made without a container is made for each.
        selection.not_empty()?.served()?.reply(call)
    }
}

/// True if the configuration declares that the runtime may add ranges: the capability
/// `ipRanges`.
fn takes_ranges_of_the_runtime(call: &Call<'_>) -> Result<bool, Error> {
    let capabilities: Option<Object> = call.config.read("capabilities")?;
    // libcni reads their names exactly.
    let declared =
        capabilities.map(|capabilities| capabilities.read_exact("capabilities", "ipRanges"));
    Ok(declared.transpose()?.flatten().unwrap_or(false))
}

/// The reply to DEL and GC. An invalid configuration is only logged, as a warning: on these commands,
/// its ranges are as certain as on ADD, and an allocator can release addresses without the pools.
fn warn_of_error(reply: Result<Reply, Error>) -> Reply {
    reply.unwrap_or_else(|error| {
        tracing::warn!(%error, "going on without the pools, so that addresses are released");
        Reply::Nothing
    })
}

/// The pools of a call.
struct Selection {
    /// The configured pools, each with its request.
    pools: Vec<Object>,
    /// Why requests are not served, each by the key that makes it.
    unserved: Vec<String>,
}

impl Selection {
    fn read(call: &Call<'_>) -> Result<Self, Error> {
        let ranges = ranges::Configured::read(&call.config, &call.config.ipam()?)?;
        let mut selection = Self {
            pools: ranges.sets.iter().map(ranges::pool).collect(),
            unserved: Vec::new(),
        };
        call.args()?.expect_only(&["IP"])?;
        let mut served = BTreeMap::new();
        for request in ipam::requests(call)? {
            let RequestedAddress { ip, source } = &request;
            match ranges.serving(&request, &served) {
                Ok(i) => {
                    let ip = ranges.sets[i].set.in_family(*ip);
                    tracing::debug!(pool = %ranges.sets[i].set, %ip, by = source, "requested");
                    selection.pools[i].set("requested-ip", &ip.to_string());
                    served.insert(i, request);
                }
                Err(why) => selection.unserved.push(format!("{source}: {ip} {why}")),
            }
        }
        Ok(selection)
    }

    /// Refuses a configuration without ranges.
    fn not_empty(self) -> Result<Self, Error> {
        if self.pools.is_empty() {
            let why =
                "ipam.ranges is missing or empty: no range is configured to give addresses from";
            return Err(Error::config(why));
        }
        Ok(self)
    }

    /// Refuses requests that no pool serves.
    fn served(self) -> Result<Self, Error> {
        if !self.unserved.is_empty() {
            return Err(Error::config(self.unserved.join("; ")));
        }
        Ok(self)
    }

    /// `prevResult` with these pools.
    fn reply(self, call: &Call<'_>) -> Result<Reply, Error> {
        ipam::Pools::append(&call.config, self.pools).map(Reply::Result)
    }
}
