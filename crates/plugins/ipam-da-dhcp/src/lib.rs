#![doc = include_str!("../README.md")]

mod client;
mod exchange;
mod lease;
mod link;
mod namespace;
mod question;
mod settings;
mod socket;
mod v4;
mod v6;

use std::time::{Duration, Instant};

use cni::{About, Attachment, Call, DELEGATE, Error, IpConfig, Plugin, Reply, code};
use ipam::{Completion, all_or_nothing, with_any_pools};

use settings::Settings;

pub use client::Client;
pub use exchange::Exchange;
pub use lease::{FOREVER, Grant, Lease};
pub use link::Link;
pub use namespace::on_link;
pub use question::Purpose;

/// The allocator `ipam-da-dhcp`: takes a lease for each family from the network's DHCP servers.
pub struct IpamDaDhcp;

impl Plugin for IpamDaDhcp {
    fn about(&self) -> About {
        cni::about!()
    }

    /// Takes the leases. The answer has them behind `prevResult` and the keys of `ipam`, and the
    /// servers' routes with the metric `priority`.
    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        refuse_without_chain(call)?;
        let settings = Settings::read(call, attachment)?;
        let completion = Completion::read(&call.config, &call.config.ipam()?)?;
        let mut leases: Vec<Lease> = completion.earlier(lease::KEY)?.unwrap_or_default();
        let granted = exchange(attachment, call, settings.timeout, |exchange| {
            let set_up = exchange.link.set_up();
            set_up.map_err(|error| Error::io("it can't be set up", error))?;
            all_or_nothing(
                exchange,
                &settings.clients,
                |exchange, (any, client)| exchange.acquire(client, *any),
                |exchange, grant| exchange.release(&grant.lease),
            )
        })?;
        let mut result = completion.with_ips([]);
        for grant in granted {
            let ip = IpConfig::new(grant.lease.address, grant.prefix_len, grant.gateway);
            result.ips.push(ip);
            for mut route in grant.routes {
                if let Some(priority) = settings.priority {
                    route.set("priority", &priority);
                }
                result.routes.push(route);
            }
            result.dns.append(grant.dns);
            leases.push(grant.lease);
        }
        result.set_other(lease::KEY, &leases);
        Ok(Reply::Result(result))
    }

    /// Releases the leases of `prevResult`, if the interface is there. Otherwise they end by
    /// themselves.
    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let leases = Lease::of_answer(call.config.raw_prev_result());
        let released = leases.and_then(|leases| match leases.as_slice() {
            [] => Ok(()),
            leases => exchange(attachment, call, Duration::ZERO, |exchange| {
                let released = leases.iter().map(|lease| exchange.release(lease));
                Error::all_as_one(released.filter_map(Result::err))
            }),
        });
        if let Err(error) = released {
            tracing::info!(%error, "a lease is not released: it ends by itself");
        }
        Ok(Reply::Nothing)
    }

    /// Asks all servers for more time of each address.
    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let settings = Settings::read(call, attachment)?;
        let ips = call.config.prev_result()?.unwrap_or_default().ips;
        exchange(attachment, call, settings.timeout, |exchange| {
            for (any, client) in &settings.clients {
                let mut ips = ips.iter().map(IpConfig::ip);
                let refused = |why: String| Err(Error::new(code::NOT_RESERVED, why));
                let Some(ip) = ips.rfind(|ip| ip.is_ipv4() == any.is_ipv4()) else {
                    let why = format!("prevResult.ips has no address of the family of {any}");
                    return refused(why);
                };
                let found = exchange.link.address(ip);
                if found.map_err(|error| Error::io(ip, error))?.is_none() {
                    return refused(format!("{ip} is not at the interface"));
                }
                match exchange.ask(client, Purpose::Renew(None), ip) {
                    Err(error) if error.code == code::SERVER_REFUSED => return refused(error.msg),
                    asked => asked?,
                };
            }
            Ok(Reply::Nothing)
        })
    }

    /// Refuses what each ADD would refuse. No server is asked: it may be away for a while.
    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        refuse_without_chain(call)?;
        Completion::read(&call.config, &call.config.ipam()?)?;
        let any = Attachment {
            container_id: "any".parse().expect("it is a valid ID"),
            ifname: "eth0".parse().expect("it is a valid name"),
        };
        with_any_pools(&call.config, |pools| {
            Settings::with_pools(pools, call, &any).map(drop)
        })?;
        Ok(Reply::Nothing)
    }
}

/// Refuses a call that isn't a chain's: only in a chain's record can ipam-dhcp-renew find the lease.
fn refuse_without_chain(call: &Call<'_>) -> Result<(), Error> {
    match call.environment.get(DELEGATE) {
        Some(_) => Ok(()),
        None => Err(Error::config(
            "ipam.type: ipam-da-dhcp is a delegate, and nobody renews a lease that no chain has \
             recorded: write \"type\": \"ipam-delegated\", \"delegates\": [\"ipam-da-dhcp\"]",
        )),
    }
}

/// Exchanges messages on the attachment's interface, in its network namespace.
fn exchange<T: Send>(
    attachment: &Attachment,
    call: &Call<'_>,
    timeout: Duration,
    work: impl FnOnce(&mut Exchange<'_>) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let netns = call.environment.text("CNI_NETNS");
    let interface = attachment.ifname.as_str();
    let until = Instant::now() + timeout;
    let exchange = |link: &Link| work(&mut Exchange { link, until });
    let worked = on_link(&netns, interface, exchange);
    let worked = worked.map_err(|error| Error::io(format_args!("CNI_NETNS: {netns}"), error))?;
    let missing = || Err(Error::new(code::IO, "it is not in CNI_NETNS"));
    worked.unwrap_or_else(missing).map_err(|error| Error {
        msg: format!("interface {interface}: {}", error.msg),
        ..error
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::{Environment, NetworkConfig};

    /// STATUS with this `ipam` and `prevResult`; by a chain, if `caller` is its variable.
    fn status(caller: &str, ipam: &str, prev_result: &str) -> Result<(), String> {
        let keys = format!(r#""ipam":{ipam},"prevResult":{prev_result}"#);
        let json = format!(r#"{{"cniVersion":"1.1.0","name":"lan",{keys}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let environment = Environment::default().with(caller, "1");
        let answer = IpamDaDhcp.status(&Call::new(config, &environment));
        answer.map(drop).map_err(|error| error.msg)
    }

    #[test]
    fn status_refuses_what_each_add_refuses() {
        let of_chain = |ipam, prev_result| status(DELEGATE, ipam, prev_result);
        for prev_result in [
            "null",
            r#"{"pools":[{"name":"a"}]}"#,
            // Another rule leads to a pool that the server can honour.
            r#"{"alternatives":[[{"subnet":"10.0.0.0/24"}],[{"name":"a"}]]}"#,
        ] {
            assert_eq!(of_chain("{}", prev_result), Ok(()));
        }
        for (ipam, prev_result, key) in [
            (
                r#"{"dhcp":{"families":["7"]}}"#,
                "null",
                "ipam.dhcp.families[0]",
            ),
            (r#"{"dhcp":{"timeout":0}}"#, "null", "ipam.dhcp.timeout"),
            (r#"{"dhcp":[]}"#, "null", "ipam.dhcp"),
            (r#"{"priority":-1}"#, "null", "ipam.priority"),
            (r#"{"provide":[{"option":"x"}]}"#, "null", "ipam.provide[0]"),
            (r#"{"routes":[{}]}"#, "null", "ipam.routes[0]"),
            (
                "{}",
                r#"{"pools":[{"subnet":"10.0.0.0/24"}]}"#,
                "prevResult.pools[0]",
            ),
            (
                "{}",
                r#"{"alternatives":[[{"owner":"vm"}]]}"#,
                "prevResult.pools[0]",
            ),
        ] {
            let refusal = of_chain(ipam, prev_result).unwrap_err();
            assert!(refusal.starts_with(key), "{refusal}");
        }
    }

    #[test]
    fn a_call_without_a_chain_gets_no_lease() {
        let refusal = status("OTHER", "{}", "null").unwrap_err();
        assert!(
            refusal.starts_with("ipam.type: ipam-da-dhcp is a delegate"),
            "{refusal}"
        );
        let attachment: Attachment =
            serde_json::from_str(r#"{"containerID":"c1","ifname":"eth0"}"#).unwrap();
        let json = br#"{"cniVersion":"1.1.0","name":"lan","ipam":{"type":"ipam-da-dhcp"}}"#;
        let config = NetworkConfig::parse(json.to_vec()).unwrap();
        let environment = Environment::default();
        let added = IpamDaDhcp.add(&attachment, &Call::new(config, &environment));
        assert_eq!(added.unwrap_err().msg, refusal);
    }
}
