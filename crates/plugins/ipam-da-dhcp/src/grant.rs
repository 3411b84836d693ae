//! What a server has granted, and the plugin's answer that is made of it.

use std::net::IpAddr;

use cni::{Dns, Error, IpConfig, IpamResult, Object};
use ipam::Completion;

use crate::exchange::other_address;
use crate::lease::{self, Lease};

/// What a server has granted.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The lease.
    pub lease: Lease,
    /// The length of the prefix of the address's subnet.
    pub prefix_len: u8,
    /// The first router.
    pub gateway: Option<IpAddr>,
    /// The routes, as a result has them.
    pub(crate) routes: Vec<Object>,
    pub(crate) dns: Dns,
}

impl Grant {
    /// Refuses another address than the wanted one, if one is wanted.
    pub(crate) fn of_wanted(self, wanted: IpAddr) -> Result<Self, Error> {
        let given = self.lease.address;
        if wanted.is_unspecified() || wanted == given {
            Ok(self)
        } else {
            Err(other_address(given))
        }
    }
}

/// The plugin's answer: what is granted, behind `prevResult` and the keys of `ipam`. The servers'
/// routes get the metric `priority`.
pub(crate) fn answer(
    completion: Completion,
    granted: Vec<Grant>,
    priority: Option<u32>,
) -> Result<IpamResult, Error> {
    let ips = granted
        .iter()
        .map(|grant| IpConfig::new(grant.lease.address, grant.prefix_len, grant.gateway));
    let mut result = completion.with_ips(ips);
    let mut leases = Lease::of_result("prevResult", &result)?;
    for grant in granted {
        for mut route in grant.routes {
            if let Some(priority) = priority {
                route.set("priority", &priority);
            }
            result.routes.push(route);
        }
        result.dns.append(grant.dns);
        leases.push(grant.lease);
    }
    result.set_other(lease::KEY, &leases);
    Ok(result)
}
