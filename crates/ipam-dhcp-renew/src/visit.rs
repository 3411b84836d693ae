//! One visit of an attachment: renews what is due, while the attachment's record is locked.

use std::io;
use std::time::{Duration, Instant};

use chain::WhenBusy;
use chain::record::{AttachmentRecord, Namespace, RecordState, record_of, with_locked};
use cni::{Error, IpamResult, code};
use ipam_da_dhcp::{Exchange, FOREVER, Grant, Lease, Link, Purpose, on_link};
use ipnet::IpNet;

use crate::due::{left_by_clock, server, until_t1, window};
use crate::records::RecordName;
use crate::schedule::{Entry, own_moment};

/// Longest time of a visit's exchanges together: a DEL waits two seconds for the lock.
const MOST: Duration = Duration::from_millis(1500);

/// The time after which a visit is repeated that another call's lock has prevented.
const BUSY: Duration = Duration::from_secs(1);

/// Interval of the visits of an attachment for which nothing can be done now.
const IDLE: Duration = Duration::from_secs(60);

/// Interval of the requests for an address that is missing.
const MISSING: Duration = Duration::from_secs(10);

/// The time after its ADD during which a missing address isn't asked for: the main plugin may still
/// be about to add it.
const YOUNG: Duration = Duration::from_secs(30);

impl Entry {
    /// Visits the attachment: renews what is due.
    pub(crate) fn visit(&mut self, name: &RecordName) {
        let (network, attachment) = (&name.network, &name.attachment);
        let _span = tracing::info_span!("attachment", %network, %attachment).entered();
        self.is_well = true;
        let next = self.tend_locked(name).unwrap_or_else(|error| {
            if error.code == code::TRY_AGAIN_LATER {
                return BUSY;
            }
            tracing::warn!(%error, "its leases can't be renewed");
            self.is_well = false;
            IDLE
        });
        self.due = Instant::now() + next;
    }

    /// Tends all leases of the record; returns the time until the next visit.
    fn tend_locked(&mut self, name: &RecordName) -> Result<Duration, Error> {
        let listed = record_of(&name.state_dir, &name.network, &name.attachment);
        let Some(listed) = listed.map_err(|error| Error::io("its record", error))? else {
            return Ok(BUSY);
        };
        let tended = with_locked(&listed, WhenBusy::Refuse, |record| self.tend(record, name));
        // It is removed, or its first line isn't written yet.
        tended?.unwrap_or(Ok(BUSY))
    }

    /// Tends all leases of a record, whose ADD has succeeded.
    fn tend(&mut self, record: &AttachmentRecord, name: &RecordName) -> Result<Duration, Error> {
        let recorded = Lease::of_answer(record.answer())?;
        let is_added = record.state == RecordState::Added;
        if recorded.is_empty() || !is_added || record.namespace() != Namespace::There {
            return Ok(IDLE);
        }
        if self.recorded != recorded {
            self.leases.clone_from(&recorded);
            self.recorded = recorded;
        }
        // Each visit begins with another lease, so none takes all the time.
        self.leases.rotate_left(1);
        let until = Instant::now() + MOST;
        let at_start = std::mem::take(&mut self.is_start).then_some(name);
        let tended = on_link(&record.netns, name.attachment.ifname.as_str(), |link| {
            let exchange = Exchange { link, until };
            let tend = |lease: &mut Lease| {
                let tended = tend_one(&exchange, record, lease, at_start);
                tended.unwrap_or_else(|error| {
                    tracing::warn!(address = %lease.address, %error, "not renewed");
                    self.is_well = false;
                    let found = link.address(lease.address).ok().flatten();
                    found.map_or(MISSING, |(_, left)| window(lease, left))
                })
            };
            self.leases.iter_mut().map(tend).min()
        });
        let next = tended.map_err(|error| Error::io(&record.netns, error))?;
        Ok(next.flatten().unwrap_or(IDLE))
    }
}

/// Gives a lease's address its lifetime, and renews the lease if that is due: at a daemon's start, at
/// the attachment's own moment. Returns the time until the next visit.
fn tend_one(
    exchange: &Exchange<'_>,
    record: &AttachmentRecord,
    lease: &mut Lease,
    at_start: Option<&RecordName>,
) -> io::Result<Duration> {
    let (link, address) = (exchange.link, lease.address);
    // If the clock was set back meanwhile, the age is unknown, and not that of a young one.
    let age = record.added.elapsed().unwrap_or(Duration::MAX);
    let has_time = Instant::now() < exchange.until;
    let Some((net, mut left)) = link.address(address)? else {
        if age < YOUNG || !has_time {
            return Ok(BUSY);
        }
        return ask_anew(exchange, record, lease);
    };
    if left == FOREVER && lease.seconds != FOREVER {
        left = left_by_clock(lease, age);
        link.put(net, left)?;
    }
    if let Some(name) = at_start {
        lease.renew = 0;
        return Ok(own_moment(name, window(lease, left)));
    }
    let wait = until_t1(lease, left);
    if !wait.is_zero() || !has_time {
        return Ok(wait.max(BUSY));
    }
    let purpose = Purpose::Renew(server(lease, left));
    match exchange.ask(&lease.client, purpose, address) {
        Err(error) if error.code == code::SERVER_REFUSED => {
            tracing::warn!(%address, %error, "the address is removed");
            link.remove(net)?;
            Ok(Duration::ZERO)
        }
        renewed => put(link, net, renewed.map_err(io::Error::other)?, lease),
    }
}

/// Asks for the lease of an address that isn't at the interface any more, and adds it with the
/// recorded routes of its family, which the kernel has removed with it. As in the reference plugins,
/// those without a gateway have the address's.
fn ask_anew(
    exchange: &Exchange<'_>,
    record: &AttachmentRecord,
    lease: &mut Lease,
) -> io::Result<Duration> {
    let acquired = exchange.acquire(&lease.client, lease.address);
    let grant = acquired.map_err(io::Error::other)?;
    let net = IpNet::new(lease.address, grant.prefix_len).map_err(io::Error::other)?;
    let gateway = grant.gateway;
    let next = put(exchange.link, net, grant, lease)?;
    let answer = record.answer();
    let answer = answer.and_then(|raw| IpamResult::read("result", raw).ok());
    for route in answer.unwrap_or_default().routes {
        let Ok(Some(to)) = route.read::<IpNet>("route", "dst") else {
            continue;
        };
        if to.addr().is_ipv4() == net.addr().is_ipv4() {
            let own = route.read("route", "gw").ok().flatten();
            exchange.link.put_route(to, own.or(gateway), &route)?;
        }
    }
    Ok(next)
}

/// Gives an address the lifetime of what is granted, or adds it, and remembers what is granted.
fn put(link: &Link, net: IpNet, grant: Grant, lease: &mut Lease) -> io::Result<Duration> {
    *lease = grant.lease;
    let valid = lease.seconds;
    link.put(net, valid)?;
    tracing::info!(address = %net.addr(), seconds = valid, "renewed");
    Ok(Duration::from_secs(lease.renew.into()))
}
