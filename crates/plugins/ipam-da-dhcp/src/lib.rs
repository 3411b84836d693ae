#![doc = include_str!("../README.md")]

mod client;
mod exchange;
mod grant;
mod lease;
mod link;
mod namespace;
mod settings;
mod socket;
mod v4;
mod v6;

use std::path::Path;
use std::time::Instant;

use cni::{About, Attachment, Call, Error, IpConfig, Plugin, Reply, code};
use ipam::Completion;

use settings::Settings;

pub use client::Client;
pub use exchange::Exchange;
pub use grant::Grant;
pub use lease::{FOREVER, Lease};
pub use link::{Link, LinkAddress};
pub use namespace::in_namespace;

/// The allocator `ipam-da-dhcp`: takes a lease for each family from the network's DHCP servers.
pub struct IpamDaDhcp;

impl Plugin for IpamDaDhcp {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let settings = Settings::read(call, attachment)?;
        let completion = Completion::read(&call.config, &call.config.ipam()?)?;
        let granted = on_link(attachment, call, |link| acquire_all(link, &settings))?;
        grant::answer(completion, granted, settings.priority).map(Reply::Result)
    }

    /// Releases the leases of `prevResult`, if the interface is there. Otherwise they end by
    /// themselves.
    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let released = leases(call).and_then(|leases| match leases.as_slice() {
            [] => Ok(()),
            leases => on_link(attachment, call, |link| release_all(link, leases)),
        });
        if let Err(error) = released {
            tracing::info!(%error, "a lease is not released: it ends by itself");
        }
        Ok(Reply::Nothing)
    }

    /// Asks all servers for more time of each address.
    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let settings = Settings::read(call, attachment)?;
        let prev_result = call.config.prev_result()?.unwrap_or_default();
        on_link(attachment, call, |link| {
            for (any, client) in &settings.clients {
                let mut ips = prev_result.ips.iter().map(IpConfig::ip);
                let Some(ip) = ips.rfind(|ip| ip.is_ipv4() == any.is_ipv4()) else {
                    let why = format!("prevResult.ips has no address of the family of {any}");
                    return Err(Error::new(code::NOT_RESERVED, why));
                };
                let until = Instant::now() + settings.timeout;
                let exchange = Exchange {
                    link,
                    client,
                    until,
                };
                exchange.renew(ip, None).map_err(|error| match error.code {
                    code::SERVER_REFUSED => Error::new(code::NOT_RESERVED, error.msg),
                    _ => error,
                })?;
            }
            Ok(())
        })?;
        Ok(Reply::Nothing)
    }
}

/// The leases of `prevResult`.
fn leases(call: &Call<'_>) -> Result<Vec<Lease>, Error> {
    let prev_result = call.config.prev_result()?.unwrap_or_default();
    Lease::of_result("prevResult", &prev_result)
}

/// Works on the attachment's interface, in its network namespace.
fn on_link<T: Send>(
    attachment: &Attachment,
    call: &Call<'_>,
    work: impl FnOnce(&Link) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let netns = call.environment.text("CNI_NETNS");
    let name = attachment.ifname.as_str();
    let worked = in_namespace(Path::new(&netns), || {
        let link = Link::open(name).map_err(|error| Error::io("its state", error))?;
        work(&link.ok_or_else(|| Error::new(code::IO, "it is not in CNI_NETNS"))?)
    });
    let worked = worked.map_err(|error| Error::io(format_args!("CNI_NETNS: {netns}"), error))?;
    worked.map_err(|error| Error {
        msg: format!("interface {name}: {}", error.msg),
        ..error
    })
}

/// Takes a lease for each family, or none.
fn acquire_all(link: &Link, settings: &Settings) -> Result<Vec<Grant>, Error> {
    let until = Instant::now() + settings.timeout;
    link.set_up()
        .map_err(|error| Error::io("it can't be set up", error))?;
    let mut granted: Vec<Grant> = Vec::new();
    for (any, client) in &settings.clients {
        match (Exchange {
            link,
            client,
            until,
        })
        .acquire(*any)
        {
            Ok(grant) => granted.push(grant),
            Err(error) => {
                let leases: Vec<Lease> = granted.into_iter().map(|grant| grant.lease).collect();
                let _ = release_all(link, &leases);
                return Err(error);
            }
        }
    }
    Ok(granted)
}

/// Releases leases that aren't a workload's.
fn release_all(link: &Link, leases: &[Lease]) -> Result<(), Error> {
    let own = leases.iter().filter(|lease| !lease.client.sticky);
    let outcomes = own.map(|lease| {
        let exchange = Exchange {
            link,
            client: &lease.client,
            until: Instant::now(),
        };
        exchange.release(lease)
    });
    Error::all_as_one(outcomes.filter_map(Result::err))
}
