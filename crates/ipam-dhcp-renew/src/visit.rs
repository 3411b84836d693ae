//! One visit of an attachment: renews what is due, while the attachment's record is locked.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use chain::WhenBusy;
use chain::record::{AttachmentRecord, Namespace, RecordState, record_of, with_locked};
use cni::{Error, IpamResult, code};
use ipam_da_dhcp::{Exchange, FOREVER, Grant, Lease, Link, LinkAddress, in_namespace};
use ipnet::IpNet;

use crate::due::{left_by_clock, seconds, server, until_t1, window};
use crate::records::RecordName;

/// Longest time of a visit's exchanges together: a DEL waits two seconds for the lock.
const MOST: Duration = Duration::from_millis(1500);

/// The time after which a visit is repeated that another call's lock has prevented.
const BUSY: Duration = Duration::from_secs(1);

/// Interval of the visits of an attachment for which nothing can be done now.
const IDLE: Duration = Duration::from_secs(60);

/// The time after its ADD during which a missing address isn't asked for: the main plugin may still
/// be about to add it.
const YOUNG: Duration = Duration::from_secs(30);

/// Outcome of a visit: the time until the next one. `Err` has it, too, if something is wrong, which
/// is logged.
pub(crate) type Visited = Result<Duration, Duration>;

/// Visits an attachment; renews what is due, or all leases.
pub(crate) fn visit(name: &RecordName, renews_all: bool) -> Visited {
    let (network, attachment) = (&name.network, &name.attachment);
    let _span = tracing::info_span!("attachment", %network, %attachment).entered();
    let interface = attachment.ifname.as_str();
    let worked = record_of(&name.state_dir, network, attachment)
        .map_err(|error| Error::io("its record", error))
        .and_then(|listed| match listed {
            None => Ok(None),
            Some(listed) => with_locked(&listed, WhenBusy::Refuse, |record| {
                tend_all(record, interface, renews_all)
            }),
        });
    match worked {
        Ok(Some(Ok(visited))) => visited,
        // The record is removed, or its first line isn't written yet.
        Ok(None) => Ok(BUSY),
        Err(error) if error.code == code::TRY_AGAIN_LATER => Ok(BUSY),
        Ok(Some(Err(error))) | Err(error) => {
            tracing::warn!(%error, "its leases can't be renewed");
            Err(IDLE)
        }
    }
}

/// Tends all leases of a record, whose ADD has succeeded.
fn tend_all(
    record: &AttachmentRecord,
    interface: &str,
    renews_all: bool,
) -> Result<Visited, Error> {
    let leases = Lease::of_answer(record.answer())?;
    let is_in_use = record.state == RecordState::Added && record.namespace() == Namespace::There;
    if leases.is_empty() || !is_in_use {
        return Ok(Ok(IDLE));
    }
    let share = MOST / u32::try_from(leases.len()).unwrap_or(1);
    let worked = in_namespace(Path::new(&record.netns), || {
        let Some(link) = Link::open(interface)? else {
            return Ok(Ok(IDLE));
        };
        let mut all = Ok(Duration::MAX);
        for lease in &leases {
            let tending = Tending {
                link: &link,
                lease,
                record,
                renews_all,
                share,
            };
            all = match (all, tending.tend()?) {
                (Ok(one), Ok(other)) => Ok(one.min(other)),
                (Ok(one) | Err(one), Ok(other) | Err(other)) => Err(one.min(other)),
            };
        }
        Ok(all)
    });
    let visited = worked.and_then(|visited: io::Result<Visited>| visited);
    visited.map_err(|error| Error::io(format_args!("{interface} in {}", record.netns), error))
}

/// The work on one lease.
struct Tending<'a> {
    link: &'a Link,
    lease: &'a Lease,
    record: &'a AttachmentRecord,
    renews_all: bool,
    /// The time for it.
    share: Duration,
}

impl Tending<'_> {
    /// Gives the address the lease's lifetime, and renews the lease if that is due.
    fn tend(&self) -> io::Result<Visited> {
        let (lease, address) = (self.lease, self.lease.address);
        let mut addresses = self.link.addresses()?.into_iter();
        let Some(mut found) = addresses.find(|one| one.net.addr() == address) else {
            return self.ask_anew();
        };
        if found.valid == FOREVER {
            found.valid = left_by_clock(lease);
            self.link.put(found)?;
        }
        let wait = until_t1(lease, found.valid);
        if wait > 0 && !self.renews_all {
            return Ok(Ok(seconds(wait)));
        }
        let renewed = self.exchange().renew(address, server(lease, found.valid));
        match renewed {
            Ok(grant) => self.put(found.net, &grant),
            Err(error) if error.code == code::SERVER_REFUSED => {
                tracing::warn!(%address, %error, "the address is removed");
                self.link.remove(found.net)?;
                Ok(Ok(Duration::ZERO))
            }
            Err(error) => Ok(self.not_renewed(&error)),
        }
    }

    /// Asks for the lease of an address that isn't at the interface any more, and adds it with its
    /// routes.
    fn ask_anew(&self) -> io::Result<Visited> {
        let address = self.lease.address;
        if self.record.added.elapsed().is_ok_and(|age| age < YOUNG) {
            return Ok(Ok(BUSY));
        }
        match self.exchange().acquire(address) {
            Ok(grant) => {
                let net = IpNet::new(address, grant.prefix_len).map_err(io::Error::other)?;
                let visited = self.put(net, &grant);
                self.put_routes(&grant)?;
                visited
            }
            Err(error) => Ok(self.not_renewed(&error)),
        }
    }

    fn exchange(&self) -> Exchange<'_> {
        Exchange {
            link: self.link,
            client: &self.lease.client,
            until: Instant::now() + self.share,
        }
    }

    /// Gives an address the lifetime of what is granted, or adds it.
    fn put(&self, net: IpNet, grant: &Grant) -> io::Result<Visited> {
        let valid = grant.lease.seconds;
        self.link.put(LinkAddress { net, valid })?;
        tracing::info!(address = %net.addr(), seconds = valid, "renewed");
        Ok(Ok(seconds(grant.lease.renew)))
    }

    /// Adds the routes of the lease's family, which the kernel has removed with the address. As in
    /// the reference plugins, those without a gateway have the address's.
    fn put_routes(&self, grant: &Grant) -> io::Result<()> {
        let answer = self
            .record
            .answer()
            .map(|raw| IpamResult::read("result", raw));
        let answer = answer.and_then(Result::ok).unwrap_or_default();
        for route in &answer.routes {
            let Ok(Some(to)) = route.read::<IpNet>("route", "dst") else {
                continue;
            };
            if to.addr().is_ipv4() == self.lease.address.is_ipv4() {
                let own = route.read("route", "gw").ok().flatten();
                let metric = route.read("route", "priority").ok().flatten();
                self.link.put_route(to, own.or(grant.gateway), metric)?;
            }
        }
        Ok(())
    }

    /// Logs an exchange without the wanted lease.
    fn not_renewed(&self, error: &Error) -> Visited {
        tracing::warn!(address = %self.lease.address, %error, "not renewed");
        Err(window(self.lease))
    }
}
