//! Sticky keys: the engine keeps the last address of each key, so all nodes know it.
//!
//! A key's address and an address's key are two objects. An address has only its last sticky key,
//! so a pool has at most as many keys as addresses, and at most [`MOST_KEYS`].

use std::net::IpAddr;

use ipam::Pool;

use crate::{Change, Condition, Engine, EngineError, Found, Group, Key, Read};

/// Most keys that are remembered for a pool of any size.
const MOST_KEYS: u64 = 65_536;

/// Most keys that one change forgets: each takes two conditions and two operations.
const FORGOTTEN_AT_ONCE: u32 = 50;

/// A read of the last address of the pool's sticky key.
pub(super) fn read(pool: &str, key: &str) -> Read {
    Read::Get(Key::StickyKey(pool.to_owned(), key.to_owned()))
}

/// The address in the answer, if it is one of the pool's.
pub(super) fn address(found: &Found, pool: &Pool) -> Option<IpAddr> {
    let ip = parse(&found.first()?.value)?;
    pool.ranges.gives(ip).then_some(ip)
}

fn parse(value: &[u8]) -> Option<IpAddr> {
    str::from_utf8(value).ok()?.parse().ok()
}

/// Remembers that a key was given this address. Of two concurrent changes, one wins.
pub(super) fn remember(
    engine: &mut dyn Engine,
    pool: &str,
    key: &str,
    ip: IpAddr,
) -> Result<(), EngineError> {
    let of_key = |key: &str| Key::StickyKey(pool.to_owned(), key.to_owned());
    let of_address = |ip: IpAddr| Key::StickyAddress(pool.to_owned(), ip);
    let (text, key_text) = (ip.to_string().into_bytes(), key.as_bytes().to_vec());
    let number = Read::Count(Group::StickyKeys(pool.to_owned()));
    let found = engine.read(&[Read::Get(of_key(key)), Read::Get(of_address(ip)), number])?;
    let mut values = found.iter().map(|found| Some(found.first()?.value.clone()));
    let (old_ip, old_key) = (values.next().flatten(), values.next().flatten());
    let number = found.get(2).map_or(0, |found| found.number) + u64::from(old_ip.is_none());
    if old_ip.as_ref() == Some(&text) && old_key.as_ref() == Some(&key_text) {
        return Ok(());
    }
    let write = vec![
        (of_key(key), text.clone()),
        (of_address(ip), key_text.clone()),
    ];
    let mut change = Change {
        write: write.clone(),
        ..Change::default()
    };
    // The other key of this address, and the other address of this key.
    let other = old_key.filter(|other| *other != key_text);
    let number = number.saturating_sub(u64::from(other.is_some()));
    if let Some(other) = other.and_then(|other| String::from_utf8(other).ok()) {
        let other = of_key(&other);
        change
            .conditions
            .push(Condition::Value(other.clone(), text.clone()));
        change.delete.push(other);
    }
    let other = old_ip.filter(|other| *other != text);
    if let Some(other) = other.and_then(|other| parse(&other)) {
        let other = of_address(other);
        change
            .conditions
            .push(Condition::Value(other.clone(), key_text));
        change.delete.push(other);
    }
    if !engine.commit(&change)?.done {
        // If the other objects have changed, they are not deleted.
        engine.commit(&Change {
            write,
            ..Change::default()
        })?;
    }
    forget_oldest(engine, pool, number.saturating_sub(MOST_KEYS))
}

/// Forgets `too_many` of the pool's sticky keys, beginning with those that were used longest ago.
/// A key that is used meanwhile is kept.
fn forget_oldest(engine: &mut dyn Engine, pool: &str, too_many: u64) -> Result<(), EngineError> {
    if too_many == 0 {
        return Ok(());
    }
    let most = u32::try_from(too_many).map_or(FORGOTTEN_AT_ONCE, |n| n.min(FORGOTTEN_AT_ONCE));
    let oldest = Read::Oldest(Group::StickyKeys(pool.to_owned()), most);
    let mut change = Change::default();
    for oldest in engine
        .read(&[oldest])?
        .into_iter()
        .flat_map(|found| found.objects)
    {
        let ip = parse(&oldest.value);
        change
            .delete
            .extend(ip.map(|ip| Key::StickyAddress(pool.to_owned(), ip)));
        change.delete.push(oldest.key.clone());
        change
            .conditions
            .push(Condition::Revision(oldest.key, oldest.revision));
    }
    engine.commit(&change).map(|_| ())
}
