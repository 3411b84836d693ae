#![doc = include_str!("../README.md")]

mod exchange;
mod grant;
mod identity;
mod lease;
mod link;
mod namespace;
mod settings;
mod socket;
mod v4;
mod v6;

use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use cni::{About, Attachment, Call, Error, Plugin, Reply, code};
use ipam::Completion;

pub use exchange::{Failure, Granted};
pub use grant::Grant;
pub use identity::Identity;
pub use lease::{FOREVER, Lease};
pub use link::{Link, LinkAddress};
pub use namespace::in_namespace;
pub use settings::{Family, Settings};

/// The allocator `ipam-da-dhcp`: takes a lease for each family from the network's DHCP servers.
pub struct IpamDaDhcp;

impl Plugin for IpamDaDhcp {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let config = &call.config;
        let settings = Settings::read(config, &call.args()?, attachment)?;
        let completion = Completion::read(config, &config.ipam()?)?;
        let granted = on_link(attachment, call, |link| acquire_all(link, &settings))?;
        grant::answer(completion, granted, settings.priority).map(Reply::Result)
    }

    /// Releases the leases of `prevResult`, if the interface is there. Otherwise they end by
    /// themselves.
    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let leases = leases(call).unwrap_or_else(|error| {
            tracing::warn!(%error, "no lease is released; it ends by itself");
            Vec::new()
        });
        let leases: Vec<Lease> = leases.into_iter().filter(|lease| !lease.sticky).collect();
        if leases.is_empty() || call.environment.text("CNI_NETNS").is_empty() {
            return Ok(Reply::Nothing);
        }
        let released = on_link(attachment, call, |link| {
            for lease in &leases {
                if let Err(failure) = release(link, lease) {
                    tracing::warn!(address = %lease.address, %failure, "it ends by itself");
                }
            }
            Ok(())
        });
        if let Err(error) = released {
            tracing::debug!(%error, "no lease is released; it ends by itself");
        }
        Ok(Reply::Nothing)
    }

    /// Asks all servers for more time of each address.
    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let settings = Settings::read(&call.config, &call.args()?, attachment)?;
        let prev_result = call.config.prev_result()?;
        let ips = prev_result.iter().flat_map(|result| &result.ips);
        let ips: Vec<IpAddr> = ips.map(|ip| ip.ip()).collect();
        on_link(attachment, call, |link| {
            for family in &settings.families {
                let is_of = |ip: &&IpAddr| ip.is_ipv4() == (*family == Family::V4);
                let Some(ip) = ips.iter().rfind(is_of) else {
                    let why = format!("prevResult.ips has no address of family {family:?}");
                    return Err(Error::new(code::NOT_RESERVED, why));
                };
                let until = Instant::now() + settings.timeout;
                renew(link, &settings, *ip, None, until).map_err(|failure| {
                    let refused = matches!(failure, Failure::Refused(_));
                    let error = failure.into_error(attachment.ifname.as_str());
                    let code = if refused {
                        code::NOT_RESERVED
                    } else {
                        error.code
                    };
                    Error::new(code, format!("{ip}: {}", error.msg))
                })?;
            }
            Ok(())
        })?;
        Ok(Reply::Nothing)
    }
}

/// The leases of `prevResult`.
fn leases(call: &Call<'_>) -> Result<Vec<Lease>, Error> {
    let prev_result = call.config.prev_result()?;
    let leases = prev_result.map(|result| Lease::of_result("prevResult", &result));
    leases.unwrap_or_else(|| Ok(Vec::new()))
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
        let opened = Link::open(name);
        let link = opened.map_err(|error| Error::io(format_args!("interface {name}"), error))?;
        let missing = || Error::io(format_args!("interface {name}"), "it is not in CNI_NETNS");
        work(&link.ok_or_else(missing)?)
    });
    worked.map_err(|error| Error::io(format_args!("CNI_NETNS: {netns}"), error))?
}

/// Takes a lease for each family, or none.
fn acquire_all(link: &Link, settings: &Settings) -> Result<Vec<Grant>, Error> {
    let until = Instant::now() + settings.timeout;
    let name = &link.name;
    let up = link.set_up();
    up.map_err(|error| Error::io(format_args!("interface {name}"), error))?;
    let families = settings.families.iter();
    let wanted = families.map(|family| acquire(link, settings, *family, None, until));
    let mut granted = Vec::new();
    for outcome in wanted {
        match outcome {
            Ok(grant) => {
                tracing::debug!(address = %grant.lease.address, server = grant.lease.server, "granted");
                granted.push(grant);
            }
            Err(failure) => {
                let undone = granted.iter().filter(|grant: &&Grant| !grant.lease.sticky);
                for grant in undone {
                    let _ = release(link, &grant.lease);
                }
                return Err(failure.into_error(name));
            }
        }
    }
    Ok(granted)
}

/// Asks for a lease: of the wanted address, or of any of the family.
///
/// # Errors
///
/// The reason why there is none.
pub fn acquire(
    link: &Link,
    settings: &Settings,
    family: Family,
    wanted: Option<IpAddr>,
    until: Instant,
) -> Granted {
    match (family, wanted) {
        (Family::V4, Some(IpAddr::V4(ip))) => v4::acquire(link, settings, Some(ip), until),
        (Family::V4, _) => v4::acquire(link, settings, None, until),
        (Family::V6, Some(IpAddr::V6(ip))) => v6::acquire(link, settings, Some(ip), until),
        (Family::V6, _) => v6::acquire(link, settings, None, until),
    }
}

/// Asks for more time of an address: a lease's own server, or, without one, all servers.
///
/// # Errors
///
/// The reason why there is none.
pub fn renew(
    link: &Link,
    settings: &Settings,
    address: IpAddr,
    server: Option<&str>,
    until: Instant,
) -> Granted {
    match address {
        IpAddr::V4(ip) => {
            let server = server.and_then(|server| server.parse().ok());
            v4::renew(link, settings, (ip, server), until)
        }
        IpAddr::V6(ip) => {
            let server = server.and_then(identity::from_hex);
            v6::renew(link, settings, (ip, server), until)
        }
    }
}

/// Tells the server that a lease isn't needed any more.
fn release(link: &Link, lease: &Lease) -> Result<(), Failure> {
    match lease.address {
        IpAddr::V4(ip) => v4::release(link, lease, ip),
        IpAddr::V6(ip) => v6::release(link, lease, ip),
    }
}
