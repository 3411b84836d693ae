//! Judges by Docker's whole answer whether Docker still has an address, a pool, an endpoint or a
//! network.
//!
//! This is the only place where an answer of Docker's becomes a release.

use std::net::IpAddr;

use ipam::IpNet;

use crate::docker::engine::{Engine, User};

/// A thing that the daemon has made for Docker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held<'a> {
    /// A pool.
    Pool(IpNet),
    /// The gateway of a pool.
    Gateway(IpNet, IpAddr),
    /// An address of a pool.
    Address(IpNet, IpAddr),
    /// An attachment whose pool isn't known, with its recorded addresses.
    Attachment(&'a [IpAddr]),
    /// A network of the network driver, by Docker's ID.
    Network(&'a str),
    /// An endpoint of the network driver, by Docker's ID.
    Endpoint(&'a str),
}

/// The judgement of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Docker has it.
    InUse(User),
    /// Docker doesn't have it.
    Lost,
    /// Unknown from Docker's answer, for this reason.
    Unknown(&'static str),
}

/// Judges one thing by Docker's answer.
pub fn judge(held: Held<'_>, docker: &Engine) -> Verdict {
    let found = match held {
        // A lost network shows no subnet, and its containers need theirs.
        Held::Pool(subnet) => docker.user(|network, _| {
            network.has_subnet(subnet) || network.is_lost && network.has_address_in(subnet)
        }),
        Held::Gateway(subnet, ip) | Held::Address(subnet, ip) => {
            docker.user(|network, endpoint| {
                (network.is_lost || network.has_subnet(subnet)) && network.has(endpoint, ip)
            })
        }
        Held::Attachment([]) => return Verdict::Unknown("its address isn't known"),
        Held::Attachment(ips) => {
            docker.user(|network, endpoint| ips.iter().any(|ip| network.has(endpoint, *ip)))
        }
        Held::Network(id) => docker.user(|network, _| network.id == id),
        Held::Endpoint(id) => {
            docker.user(|_, endpoint| endpoint.is_some_and(|endpoint| endpoint.endpoint_id == id))
        }
    };
    match (found, held) {
        (Some(user), _) => Verdict::InUse(user),
        // Docker shows a gateway only if the user has chosen it.
        (None, Held::Gateway(subnet, _)) if !docker.names_gateways(subnet) => {
            Verdict::Unknown("Docker doesn't name the gateway of its network")
        }
        (None, _) => Verdict::Lost,
    }
}
