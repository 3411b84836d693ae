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

use cni::{About, Attachment, Call, Error, IpConfig, Plugin, Reply, code};
use ipam::{Completion, all_or_nothing};

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
                let ip = ips.rfind(|ip| ip.is_ipv4() == any.is_ipv4());
                let renew = |ip| exchange.ask(client, Purpose::Renew(None), ip);
                let why = match ip.map(renew).transpose() {
                    Ok(Some(_)) => continue,
                    Ok(None) => format!("prevResult.ips has no address of the family of {any}"),
                    Err(error) if error.code == code::SERVER_REFUSED => error.msg,
                    Err(error) => return Err(error),
                };
                return Err(Error::new(code::NOT_RESERVED, why));
            }
            Ok(Reply::Nothing)
        })
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
