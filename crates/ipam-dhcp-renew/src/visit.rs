//! One visit of an attachment: renews what is due, while the attachment's record is locked.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use chain::WhenBusy;
use chain::record::{AttachmentRecord, Namespace, RecordState, record_of, with_locked};
use cni::{Error, IpamResult, Object, code};
use ipam_da_dhcp::{Failure, Family, Link, LinkAddress, acquire, in_namespace, renew};
use ipnet::IpNet;

use crate::due::{Due, due, first_left, pause, seconds, window};
use crate::records::{RecordName, RecordedLease, recorded_leases};

/// Longest time of a visit's exchanges together: a DEL waits two seconds for the lock.
const MOST: Duration = Duration::from_millis(1500);

/// The time after which a visit is repeated that another call's lock has prevented.
const BUSY: Duration = Duration::from_secs(1);

/// Interval of the visits of an attachment for which nothing can be done now.
const IDLE: Duration = Duration::from_secs(60);

/// The time after its ADD during which a missing address isn't asked for: the main plugin may still
/// be about to add it.
const YOUNG: Duration = Duration::from_secs(30);

/// What a visit asks servers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Nothing: the daemon has just started, and each attachment has its own moment.
    Nothing,
    /// What is due.
    WhatIsDue,
    /// Every lease.
    All,
}

/// Outcome of a visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited {
    /// The time until the next one.
    pub(crate) next: Duration,
    /// The time over which requests after a start are spread; `None` if there is nothing to ask for.
    pub(crate) spread: Option<Duration>,
    /// False if something is wrong, which is logged.
    pub(crate) is_well: bool,
}

impl Visited {
    fn waits(next: Duration) -> Self {
        Self {
            next,
            spread: None,
            is_well: true,
        }
    }

    /// The visit that covers both: the next one is the earlier one.
    fn and(self, other: Self) -> Self {
        Self {
            next: self.next.min(other.next),
            spread: self.spread.into_iter().chain(other.spread).min(),
            is_well: self.is_well && other.is_well,
        }
    }
}

/// Visits an attachment.
pub(crate) fn visit(name: &RecordName, asks: Asks) -> Visited {
    let (network, attachment) = (&name.network, &name.attachment);
    let _span = tracing::info_span!("attachment", %network, %attachment).entered();
    let worked = record_of(&name.state_dir, network, attachment)
        .map_err(|error| Error::io("its record", error))
        .and_then(|listed| match listed {
            None => Ok(None),
            Some(listed) => with_locked(&listed, WhenBusy::Refuse, |record| {
                let leases = recorded_leases(record, attachment)?;
                tend_all(record, &leases, attachment.ifname.as_str(), asks)
            }),
        });
    match worked {
        Ok(Some(Ok(visited))) => visited,
        // The record is removed, or its first line isn't written yet.
        Ok(None) => Visited::waits(BUSY),
        Err(error) if error.code == code::TRY_AGAIN_LATER => Visited::waits(BUSY),
        Ok(Some(Err(error))) | Err(error) => {
            tracing::warn!(%error, "its leases can't be renewed");
            Visited {
                is_well: false,
                ..Visited::waits(IDLE)
            }
        }
    }
}

/// Tends all leases of a record.
fn tend_all(
    record: &AttachmentRecord,
    leases: &[RecordedLease],
    interface: &str,
    asks: Asks,
) -> Result<Visited, Error> {
    match record.state {
        RecordState::Adding => return Ok(Visited::waits(BUSY)),
        RecordState::Deleting => return Ok(Visited::waits(IDLE)),
        RecordState::Added if leases.is_empty() => return Ok(Visited::waits(10 * IDLE)),
        RecordState::Added => {}
    }
    match record.namespace() {
        Namespace::There => {}
        Namespace::Gone(why) | Namespace::Unknown(why) => {
            tracing::debug!(why, "its leases are not renewed");
            return Ok(Visited::waits(IDLE));
        }
    }
    let answer = record.answer().map(|raw| IpamResult::read("result", raw));
    let answer = answer.transpose()?.unwrap_or_default();
    let is_young = record.added.elapsed().is_ok_and(|age| age < YOUNG);
    let worked = in_namespace(Path::new(&record.netns), || {
        let io = |error| Error::io(format_args!("interface {interface}"), error);
        let Some(link) = Link::open(interface).map_err(io)? else {
            tracing::debug!("its interface is gone");
            return Ok(Visited::waits(IDLE));
        };
        let tending = Tending {
            link,
            answer,
            is_young,
            asks,
            share: MOST / u32::try_from(leases.len()).unwrap_or(1).max(1),
        };
        let all = leases.iter().map(|lease| tending.tend(lease).map_err(io));
        let mut visited = Visited::waits(IDLE * 60);
        for one in all {
            visited = visited.and(one?);
        }
        Ok(visited)
    });
    worked.map_err(|error| Error::io(format_args!("netns {}", record.netns), error))?
}

/// The work on one interface.
struct Tending {
    link: Link,
    /// The chain's answer to ADD.
    answer: IpamResult,
    is_young: bool,
    asks: Asks,
    /// The time for one lease.
    share: Duration,
}

impl Tending {
    /// Tends a lease: gives its address the lifetime, and renews it if that is due.
    fn tend(&self, of: &RecordedLease) -> std::io::Result<Visited> {
        let lease = &of.lease;
        let mut addresses = self.link.addresses()?.into_iter();
        let Some(found) = addresses.find(|one| one.net.addr() == lease.address) else {
            return self.ask_anew(of);
        };
        let mut left = found.valid;
        if left == u32::MAX {
            left = first_left(lease);
            self.link.put(LinkAddress {
                valid: left,
                ..found
            })?;
        }
        let server = match due(lease, left) {
            Due::Nothing(wait) if self.asks != Asks::All || left == u32::MAX => {
                let is_old = lease.seconds.saturating_sub(left) >= window(lease);
                return Ok(Visited {
                    spread: is_old.then(|| seconds(window(lease))),
                    ..Visited::waits(wait)
                });
            }
            _ if self.asks == Asks::Nothing => {
                return Ok(Visited {
                    spread: Some(seconds(window(lease))),
                    ..Visited::waits(seconds(left / 2))
                });
            }
            Due::Rebinding => None,
            Due::Nothing(_) | Due::Renewal => Some(lease.server.as_str()),
        };
        let until = Instant::now() + self.share;
        match renew(&self.link, &of.settings, lease.address, server, until) {
            Ok(grant) if grant.lease.address == lease.address => {
                let valid = grant.lease.seconds;
                self.link.put(LinkAddress { valid, ..found })?;
                tracing::info!(address = %lease.address, seconds = valid, "renewed");
                Ok(Visited::waits(seconds(grant.lease.renew)))
            }
            Err(Failure::Refused(why)) => {
                tracing::warn!(address = %lease.address, why, "refused: the address is removed");
                self.link.remove(found.net)?;
                Ok(Visited::waits(Duration::ZERO))
            }
            other => Ok(unanswered(of, &other, pause(lease, left))),
        }
    }

    /// Asks for the lease of an address that isn't at the interface any more, and adds it with its
    /// routes. Another address isn't taken.
    fn ask_anew(&self, of: &RecordedLease) -> std::io::Result<Visited> {
        let lease = &of.lease;
        if self.is_young {
            return Ok(Visited::waits(BUSY));
        }
        if self.asks == Asks::Nothing {
            let spread = seconds(window(lease));
            return Ok(Visited {
                spread: Some(spread),
                ..Visited::waits(spread)
            });
        }
        let family = match lease.address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        };
        let (wanted, until) = (Some(lease.address), Instant::now() + self.share);
        match acquire(&self.link, &of.settings, family, wanted, until) {
            Ok(grant) if grant.lease.address == lease.address => {
                let net = IpNet::new(lease.address, grant.prefix_len);
                let net = net.map_err(std::io::Error::other)?;
                let valid = grant.lease.seconds;
                self.link.put(LinkAddress { net, valid })?;
                self.put_routes(lease.address)?;
                tracing::warn!(address = %lease.address, seconds = valid, "given again");
                Ok(Visited::waits(seconds(grant.lease.renew)))
            }
            other => Ok(unanswered(of, &other, seconds(window(lease)))),
        }
    }

    /// Adds the routes of the address's family, which the kernel has removed with the address.
    fn put_routes(&self, address: IpAddr) -> std::io::Result<()> {
        for route in &self.answer.routes {
            let text = |key: &str| route.read::<String>("route", key).ok().flatten();
            let Some(to) = text("dst").and_then(|dst| dst.parse::<IpNet>().ok()) else {
                continue;
            };
            if to.addr().is_ipv4() != address.is_ipv4() {
                continue;
            }
            let gateway = text("gw").and_then(|gw| gw.parse::<IpAddr>().ok());
            let gateway = gateway.filter(|gateway| !gateway.is_unspecified());
            self.link.put_route(to, gateway, metric_of(route))?;
        }
        Ok(())
    }
}

fn metric_of(route: &Object) -> Option<u32> {
    route.read("route", "priority").ok().flatten()
}

/// Logs an exchange without the wanted lease.
fn unanswered(of: &RecordedLease, outcome: &ipam_da_dhcp::Granted, next: Duration) -> Visited {
    let address = of.lease.address;
    match outcome {
        Err(failure) => tracing::warn!(%address, %failure, "not renewed"),
        Ok(grant) => {
            let offered = grant.lease.address;
            tracing::warn!(%address, %offered, "the server gives another address: it isn't used");
        }
    }
    Visited {
        is_well: false,
        ..Visited::waits(next)
    }
}
