//! The gateways of a call's pools: none is given, and none is left out beside a main plugin that
//! takes one.

use std::net::IpAddr;

use cni::{Error, NetworkConfig};

use crate::disjoint::Disjoint;
use crate::{IpNet, NO_GATEWAY, Pool, Range, RangeSet};

/// The keys of a main plugin (`bridge`) that takes an address of the subnet as the gateway.
const TAKES_GATEWAY: [&str; 2] = ["isGateway", "isDefaultGateway"];

/// Takes each pool's gateways out of what the others give. Each pool has its name in messages, and
/// `disjoint` has the index of the pool of each address.
///
/// # Errors
///
/// Code 7 for a gateway that is requested.
pub(crate) fn keep_free(
    pools: &mut [(String, &mut Pool)],
    disjoint: &Disjoint,
) -> Result<(), Error> {
    let mut gateways: Vec<(usize, IpAddr, IpNet)> = Vec::new();
    for (i, (_, pool)) in pools.iter().enumerate() {
        let of_pool = pool.ranges.gateways();
        gateways.extend(of_pool.map(|(gateway, subnet)| (i, gateway, subnet)));
    }
    for (of, gateway, subnet) in gateways {
        let Some(at) = disjoint.owner(gateway).filter(|at| *at != of) else {
            continue;
        };
        let (path, pool) = &mut pools[at];
        if pool.requested == Some(gateway) {
            return Err(Error::config(format!(
                "{path}.requested-ip: {gateway} is the gateway of {subnet}"
            )));
        }
        pool.ranges.keep_free(gateway);
    }
    Ok(())
}

/// Refuses ranges without a gateway beside `isGateway` and `isDefaultGateway`: `bridge` would take
/// the subnet's second address by itself, which such a range gives. `path` names the ranges in
/// messages.
///
/// # Errors
///
/// Code 7, naming the two keys.
pub fn refuse_missing_gateway(
    path: &str,
    ranges: &RangeSet,
    config: &NetworkConfig,
) -> Result<(), Error> {
    let has_gateway = |range: &Range| range.gateway().is_some();
    if ranges.ranges().iter().all(has_gateway) {
        return Ok(());
    }
    for key in TAKES_GATEWAY {
        if config.read(key)?.unwrap_or(false) {
            return Err(Error::config(format!(
                "{path}: \"gateway\": \"{NO_GATEWAY}\" can't be beside {key}: the main plugin would take \
                 an address of {ranges} as the gateway"
            )));
        }
    }
    Ok(())
}
