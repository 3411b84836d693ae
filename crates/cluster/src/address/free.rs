//! Searches a pool for free addresses.

use std::collections::HashSet;
use std::net::IpAddr;

use cni::Error;
use ipam::{Interval, Pool};

use super::candidates::{Candidates, next_free, some_free};
use crate::{Engine, Found, Group, Key, Read};

/// Most addresses that one request looks at: etcd accepts 128 operations, and the request has
/// other reads as well.
pub(super) const AT_ONCE: usize = 90;

/// A read that tells whether an address is free.
pub(super) fn is_reserved(pool: &str, ip: IpAddr) -> Read {
    Read::Exists(Key::Address(pool.to_owned(), ip))
}

/// The addresses that are free according to the answers to [`is_reserved`].
pub(super) fn free<'f>(
    ips: impl IntoIterator<Item = IpAddr>,
    answers: impl IntoIterator<Item = &'f Found>,
) -> HashSet<IpAddr> {
    let both = ips.into_iter().zip(answers);
    both.filter(|(_, found)| found.number == 0)
        .map(|(ip, _)| ip)
        .collect()
}

/// Searches a pool whose candidates are all reserved. First among random addresses, or among those
/// that this node has not seen reserved, beginning after `from`; then among all addresses. Returns
/// an empty list if no address is free.
pub(super) fn search(
    engine: &mut dyn Engine,
    name: &str,
    pool: &Pool,
    from: Option<IpAddr>,
) -> Result<Candidates, Error> {
    let ranges = &pool.ranges;
    if !engine.remembers() && ranges.capacity() > AT_ONCE as u128 {
        let random = Candidates::at_random(ranges, AT_ONCE);
        let reads: Vec<Read> = random.iter().map(|ip| is_reserved(name, *ip)).collect();
        let free = free(random, &engine.read(&reads)?);
        if !free.is_empty() {
            return Ok(Candidates::only_random(free));
        }
    }
    if let Some(seen) = engine.seen_reserved(name) {
        let candidates = match from {
            Some(_) => Candidates {
                next: next_free(ranges, &seen, from, AT_ONCE),
                random: Vec::new(),
            },
            None => Candidates::only_random(some_free(ranges, &seen, AT_ONCE)),
        };
        if !candidates.is_empty() {
            return Ok(candidates);
        }
    }
    let addresses = engine.list(&Group::Addresses(Some(name.to_owned())), false)?;
    tracing::debug!(
        pool = name,
        reserved = addresses.len(),
        "looked at all addresses"
    );
    let taken = addresses.iter().filter_map(|address| match address.key {
        Key::Address(_, ip) => Interval::new(ip, ip),
        _ => None,
    });
    let taken = Interval::merged(taken.collect());
    Ok(Candidates::only_random(some_free(ranges, &taken, AT_ONCE)))
}
