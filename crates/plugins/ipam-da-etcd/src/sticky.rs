//! Sticky keys: which address a key was given last, kept in etcd, so that it counts on every
//! node.
//!
//! A key's address and an address's key are two keys of etcd. An address has one sticky key,
//! the last one, so a pool has no more of them than addresses, and at most [`MOST_KEYS`].

use std::net::IpAddr;

use cluster::Keys;
use etcd::{Client, Compare, Error, Op, Range, RangeAnswer, Txn};
use ipam::Pool;

/// Most keys that are remembered for one pool, however large it is.
const MOST_KEYS: u64 = 65_536;

/// Keys that are forgotten at once: each takes two conditions and two operations.
const FORGOTTEN_AT_ONCE: u32 = 50;

/// A read of the address that the pool's sticky key was given last.
pub(crate) fn read(keys: &Keys, name: &str, key: &str) -> Range {
    Range::key(keys.sticky_key(name, key))
}

/// The address in the answer, if the pool gives it.
pub(crate) fn address(answer: &RangeAnswer, pool: &Pool) -> Option<IpAddr> {
    let text = str::from_utf8(&answer.kvs.first()?.value).ok()?;
    let ip = text.parse().ok()?;
    pool.ranges.gives(ip).then_some(ip)
}

/// Remembers that a key was given this address. Two who do so at once leave the one or the
/// other.
pub(crate) fn remember(
    client: &mut Client<'_>,
    keys: &Keys,
    name: &str,
    key: &str,
    ip: IpAddr,
) -> Result<(), Error> {
    let of_key = keys.sticky_key(name, key);
    let of_address = keys.sticky_address(name, ip);
    let text = ip.to_string();
    let reads = [Range::key(of_key.as_str()), Range::key(of_address.as_str())];
    let answer = client.txn(&Txn::read(reads))?;
    let mut values = answer
        .ranges()
        .map(|it| it.kvs.first().map(|it| it.value.clone()));
    let (old_ip, old_key) = (values.next().flatten(), values.next().flatten());
    if old_ip.as_deref() == Some(text.as_bytes()) && old_key.as_deref() == Some(key.as_bytes()) {
        return Ok(());
    }
    let mut txn = Txn {
        then: vec![Op::put(of_key, text.as_str()), Op::put(of_address, key)],
        ..Txn::default()
    };
    // The key that had this address, and the address that this key had.
    let other = old_key.filter(|it| it != key.as_bytes());
    if let Some(other) = other.and_then(|it| String::from_utf8(it).ok()) {
        let other = keys.sticky_key(name, &other);
        txn.when.push(Compare::value(other.as_str(), text.as_str()));
        txn.then.push(Op::delete(other));
    }
    let other = old_ip.filter(|it| it != text.as_bytes());
    if let Some(other) = other.and_then(|it| str::from_utf8(&it).ok()?.parse().ok()) {
        let other = keys.sticky_address(name, other);
        txn.when.push(Compare::value(other.as_str(), key));
        txn.then.push(Op::delete(other));
    }
    // If the others have changed meanwhile, they are left alone.
    txn.otherwise = txn.then[..2].to_vec();
    let number = Range::prefix(keys.sticky_keys(name)).count_only();
    txn.then.push(Op::get(number.clone()));
    txn.otherwise.push(Op::get(number));
    let answer = client.txn(&txn)?;
    let number = answer.ranges().last().map_or(0, |it| it.count);
    forget_oldest(client, keys, name, number.saturating_sub(MOST_KEYS))
}

/// Forgets so many of the pool's sticky keys, those first that were given an address longest
/// ago. One that is given an address meanwhile is kept.
fn forget_oldest(
    client: &mut Client<'_>,
    keys: &Keys,
    name: &str,
    too_many: u64,
) -> Result<(), Error> {
    if too_many == 0 {
        return Ok(());
    }
    let limit = u32::try_from(too_many).map_or(FORGOTTEN_AT_ONCE, |it| it.min(FORGOTTEN_AT_ONCE));
    let oldest = Range::prefix(keys.sticky_keys(name)).oldest_first();
    let mut txn = Txn::default();
    for kv in client.range(&oldest.limit(limit))?.kvs {
        let ip = str::from_utf8(&kv.value)
            .ok()
            .and_then(|it| it.parse().ok());
        txn.when
            .push(Compare::mod_revision(kv.key.as_slice(), kv.mod_revision));
        txn.then.push(Op::delete(kv.key));
        if let Some(ip) = ip {
            txn.then.push(Op::delete(keys.sticky_address(name, ip)));
        }
    }
    client.txn(&txn)?;
    Ok(())
}
