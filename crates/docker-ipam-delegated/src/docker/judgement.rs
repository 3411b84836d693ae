//! Judges, by Docker's whole answer, whether Docker still has what was made for it.
//!
//! This is the only place where an answer of Docker's becomes a release.

use std::net::IpAddr;

use ipam::IpNet;

use crate::docker::engine::{Engine, User};

/// What was made for Docker, as far as Docker can be asked for it.
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

/// What Docker's answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Docker has it.
    InUse(User),
    /// Docker doesn't have it.
    Lost,
    /// Docker's answer doesn't say, for this reason.
    Unknown(&'static str),
}

/// Judges one thing by Docker's answer.
pub fn judge(held: Held<'_>, docker: &Engine) -> Verdict {
    let found = match held {
        Held::Pool(subnet) => docker.user_of_subnet(subnet),
        Held::Gateway(subnet, ip) => {
            let user = docker.user_of(subnet, ip);
            // Docker shows a gateway only if the user has chosen it.
            if user.is_none() && !docker.names_gateways(subnet) {
                return Verdict::Unknown("Docker doesn't name the gateway of its network");
            }
            user
        }
        Held::Address(subnet, ip) => docker.user_of(subnet, ip),
        Held::Attachment([]) => return Verdict::Unknown("its address isn't known"),
        Held::Attachment(ips) => ips.iter().find_map(|ip| docker.user_of_address(*ip)),
        Held::Network(id) => docker.user_of_network(id),
        Held::Endpoint(id) => docker.user_of_endpoint(id),
    };
    found.map_or(Verdict::Lost, Verdict::InUse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docker::engine::tests::engine;

    fn word(held: Held<'_>) -> &'static str {
        match judge(held, &engine()) {
            Verdict::InUse(_) => "in use",
            Verdict::Lost => "lost",
            Verdict::Unknown(_) => "unknown",
        }
    }

    #[test]
    fn what_dockers_answer_names_is_in_use_and_what_it_cant_name_is_unknown() {
        let subnet = |text: &str| text.parse::<IpNet>().unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let (v4, v6) = (subnet("10.88.0.0/16"), subnet("fd00:88::/64"));
        for (held, expected) in [
            (Held::Pool(v4), "in use"),
            (Held::Pool(subnet("10.89.0.0/16")), "lost"),
            (Held::Address(v4, ip("10.88.0.2")), "in use"),
            (Held::Address(v4, ip("10.88.0.3")), "lost"),
            (Held::Gateway(v4, ip("10.88.0.254")), "in use"),
            (Held::Gateway(v4, ip("10.88.0.1")), "lost"),
            // Docker doesn't show the gateway of this one.
            (Held::Gateway(v6, ip("fd00:88::1")), "unknown"),
            (
                Held::Gateway(subnet("10.89.0.0/16"), ip("10.89.0.1")),
                "lost",
            ),
            (Held::Attachment(&[ip("10.88.0.2")]), "in use"),
            (Held::Attachment(&[ip("10.88.0.3")]), "lost"),
            (Held::Attachment(&[]), "unknown"),
            (Held::Network("9a"), "in use"),
            (Held::Network("9b"), "lost"),
            (Held::Endpoint("e1"), "in use"),
            (Held::Endpoint("e2"), "lost"),
        ] {
            assert_eq!(word(held), expected, "{held:?}");
        }
    }
}
