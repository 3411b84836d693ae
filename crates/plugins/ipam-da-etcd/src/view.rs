//! Looks at a pool in etcd: which of some addresses are free, and which of all.

use std::collections::HashSet;
use std::net::IpAddr;

use cluster::Keys;
use cni::Error;
use etcd::{Client, Range, RangeAnswer, Txn};
use ipam::Pool;

use crate::candidates::{Candidates, some_free};

/// Addresses that one request looks at: etcd takes 128 operations, and some are needed for
/// other things.
pub(crate) const AT_ONCE: usize = 90;

/// Keys in a page of a whole pool.
const PAGE: u32 = 10_000;

/// A read that tells whether an address is free, with the smallest answer.
pub(crate) fn is_reserved(keys: &Keys, pool: &str, ip: IpAddr) -> Range {
    Range::key(keys.address(pool, ip)).count_only()
}

/// The addresses that are free by the answers to [`is_reserved`].
pub(crate) fn free<'r>(
    ips: impl IntoIterator<Item = IpAddr>,
    answers: impl IntoIterator<Item = &'r RangeAnswer>,
) -> HashSet<IpAddr> {
    let both = ips.into_iter().zip(answers);
    both.filter(|(_, answer)| answer.count == 0)
        .map(|(ip, _)| ip)
        .collect()
}

/// Free addresses of a pool of which the first look has found none: among others at random,
/// and then among all. Empty if there is none.
pub(crate) fn search(
    client: &mut Client<'_>,
    keys: &Keys,
    name: &str,
    pool: &Pool,
) -> Result<Candidates, Error> {
    let ranges = &pool.ranges;
    if ranges.capacity() > AT_ONCE as u128 {
        let random = Candidates::at_random(ranges, AT_ONCE);
        let reads = random.iter().map(|ip| is_reserved(keys, name, *ip));
        let answer = client.txn(&Txn::read(reads))?;
        let free = free(random.iter().copied(), answer.ranges());
        if !free.is_empty() {
            return Ok(Candidates {
                next: Vec::new(),
                random: free.into_iter().collect(),
            });
        }
    }
    let taken = reserved(client, keys, name)?;
    tracing::debug!(
        pool = name,
        reserved = taken.len(),
        "looked at all addresses"
    );
    Ok(Candidates {
        next: Vec::new(),
        random: some_free(ranges, &taken, AT_ONCE),
    })
}

/// All reserved addresses of a pool, in ascending order.
fn reserved(client: &mut Client<'_>, keys: &Keys, name: &str) -> Result<Vec<IpAddr>, Error> {
    let mut taken = Vec::new();
    client.pages::<Error>(&keys.addresses(name), PAGE, true, |_, page| {
        let ips = page
            .iter()
            .filter_map(|it| keys.parse_address(name, &it.key));
        taken.extend(ips);
        Ok(())
    })?;
    taken.sort_unstable();
    Ok(taken)
}
