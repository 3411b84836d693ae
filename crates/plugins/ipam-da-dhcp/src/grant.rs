//! What a server has granted, and the plugin's answer that is made of it.

use std::net::IpAddr;
use std::time::SystemTime;

use cni::{Dns, Error, IpConfig, IpamResult, Object};
use ipam::Completion;
use ipnet::IpNet;

use crate::identity::{Identity, hex};
use crate::lease::{Lease, Times};
use crate::link::unspecified;

/// What a server has granted.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The lease.
    pub lease: Lease,
    /// The length of the prefix of the address's subnet.
    pub prefix_len: u8,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) routes: Vec<GrantedRoute>,
    pub(crate) dns: Dns,
    /// The largest packet of the network, in bytes.
    pub(crate) mtu: Option<u16>,
}

/// A route that a server has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrantedRoute {
    pub(crate) to: IpNet,
    /// Unspecified for a destination on the link.
    pub(crate) gateway: IpAddr,
}

impl Grant {
    /// The address of a lease that begins now, and nothing else.
    pub(crate) fn new(
        (address, prefix_len): (IpAddr, u8),
        server: String,
        (identity, client_id): (&Identity, &[u8]),
        times: Times,
    ) -> Self {
        Self {
            lease: Lease {
                address,
                server,
                client_id: hex(client_id),
                sticky: identity.is_sticky,
                start: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
                seconds: times.seconds,
                renew: times.renew,
                rebind: times.rebind,
            },
            prefix_len,
            gateway: None,
            routes: Vec::new(),
            dns: Dns::default(),
            mtu: None,
        }
    }
}

impl GrantedRoute {
    /// As a result's `routes` have it. A destination on the link has the kernel's scope for that,
    /// as the reference plugin writes it.
    fn to_object(&self, priority: Option<u32>, mtu: Option<u16>) -> Object {
        const LINK: u8 = 253;
        let mut object = Object::new();
        object.set("dst", &self.to.to_string());
        object.set("gw", &self.gateway.to_string());
        if self.gateway == unspecified(self.gateway) {
            object.set("scope", &LINK);
        }
        if let Some(priority) = priority {
            object.set("priority", &priority);
        }
        if let Some(mtu) = mtu {
            object.set("mtu", &mtu);
        }
        object
    }
}

/// The plugin's answer: what is granted, behind `prevResult` and the keys of `ipam`.
pub(crate) fn answer(
    completion: Completion,
    granted: Vec<Grant>,
    priority: Option<u32>,
) -> Result<IpamResult, Error> {
    let ips = granted
        .iter()
        .map(|grant| IpConfig::new(grant.lease.address, grant.prefix_len, grant.gateway));
    let mut result = completion.with_ips(ips);
    // They were for this plugin.
    result.remove_other("facts");
    let mut leases = Vec::new();
    for grant in granted {
        let routes = grant.routes.iter();
        let routes = routes.map(|route| route.to_object(priority, grant.mtu));
        result.routes.extend(routes);
        result.dns.append(grant.dns);
        leases.push(grant.lease);
    }
    Lease::append(&mut result, leases)?;
    Ok(result)
}
