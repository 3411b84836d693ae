//! Overflow: a pool, and those that are tried when it is full. Together they yield one address.

use cni::{Error, NetworkName, Object, code};

use crate::Pool;
use crate::pool_ranges::is_set;

/// The key of an entry of `pools`.
const KEY: &str = "or";

/// Keys of an entry that count for all of its pools.
const OF_ALL: [&str; 4] = [KEY, "requested-ip", "sticky", "owner"];

/// An entry of a result's `pools`, and those of its `or`: at least one pool.
#[derive(Clone, Debug)]
pub struct Overflow(Vec<Pool>);

impl Overflow {
    /// Reads an entry of `pools`; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// As [`Pool::read`]; code 7 for a key in `or` that belongs into the entry itself.
    pub fn read(path: &str, entry: Object) -> Result<Self, Error> {
        let or = objects(path, &entry)?;
        let mut pools = vec![Pool::without_request(path, entry)?];
        for (i, object) in or.into_iter().enumerate() {
            let path = format!("{path}.{KEY}[{i}]");
            if let Some(key) = OF_ALL.iter().find(|key| is_set(&object, key)) {
                return Err(Error::config(format!(
                    "{path}.{key}: write it beside {KEY}, where it counts for all of its pools"
                )));
            }
            let mut pool = Pool::without_request(&path, object)?;
            pool.nth = i + 1;
            pools.push(pool);
        }
        Pool::read_request(path, &mut pools)?;
        Ok(Self(pools))
    }

    /// All of them, the entry itself first.
    pub fn all(&self) -> &[Pool] {
        &self.0
    }

    /// All of them, the entry itself first.
    pub fn into_all(self) -> Vec<Pool> {
        self.0
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Pool> {
        self.0.iter_mut()
    }

    /// Those that an allocator tries, in this order: all, or the one of the requested address.
    pub fn tried(&self) -> &[Pool] {
        let requested = self.0.iter().position(|pool| pool.requested.is_some());
        match requested {
            Some(at) => &self.0[at..=at],
            None => &self.0,
        }
    }

    /// Refuses pools that have no address to give even if nothing is reserved.
    ///
    /// # Errors
    ///
    /// Code 50: all of their addresses are excluded, and none is requested.
    pub fn refuse_empty(&self, network: &NetworkName, place: usize) -> Result<(), Error> {
        match self.0.iter().all(Pool::is_empty) {
            true => Err(self.exhausted(network, place, code::UNAVAILABLE)),
            false => Ok(()),
        }
    }

    /// The error, of this code, that none has an address left. `place` is the entry's among those of
    /// an ADD on this network.
    pub fn exhausted(&self, network: &NetworkName, place: usize, code: u64) -> Error {
        let each = self.0.iter().map(|pool| pool.exhausted(network, place));
        Error::new(code, each.collect::<Vec<_>>().join("; "))
    }
}

/// Objects of an entry's `or`, as they are written.
///
/// # Errors
///
/// Code 7 if `or` is no array of objects; `path` is the entry's name in messages.
pub fn objects(path: &str, entry: &Object) -> Result<Vec<Object>, Error> {
    Ok(entry.read(path, KEY)?.unwrap_or_default())
}

/// Replaces the objects of an entry's `or`, unless it has none.
pub fn set_objects(entry: &mut Object, objects: &[Object]) {
    if !objects.is_empty() {
        entry.set(KEY, objects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overflow(keys: &str, or: &str) -> Result<Overflow, String> {
        let json = format!(r#"{{"name":"a","subnet":"10.0.0.0/29"{keys},"or":[{or}]}}"#);
        let entry = serde_json::from_str(&json).unwrap();
        Overflow::read("it", entry).map_err(|error| error.msg)
    }

    const OR: &str = r#"{"name":"b","subnet":"10.1.0.0/29"},{"subnet":"fd00::/64"}"#;

    #[test]
    fn all_are_tried_in_order_with_one_sticky_key() {
        let read = overflow(r#","sticky":"k""#, OR).unwrap();
        let tried = read.tried().iter();
        let tried: Vec<String> = tried.map(|pool| pool.ranges.to_string()).collect();
        assert_eq!(tried[..2], ["10.0.0.1-10.0.0.6", "10.1.0.1-10.1.0.6"]);
        assert_eq!(tried.len(), 3);
        assert!(
            read.all()
                .iter()
                .all(|pool| pool.sticky.as_deref() == Some("k"))
        );
        let rotations: Vec<String> = read.all().iter().map(|pool| pool.rotation(1)).collect();
        assert_eq!(rotations, ["a", "b", "1.2"]);
        let network = "net".parse().unwrap();
        assert_eq!(
            overflow("", r#"{"name":"b","subnet":"10.1.0.0/30"}"#)
                .unwrap()
                .exhausted(&network, 0, 11)
                .msg,
            "pool a (10.0.0.1-10.0.0.6) has no address left: all 5 are reserved; \
             pool b (10.1.0.1-10.1.0.2) has no address left: all 1 are reserved"
        );
    }

    #[test]
    fn of_a_requested_address_only_its_pool_is_tried() {
        for (ip, pool) in [("10.0.0.3", 0), ("10.1.0.3/29", 1), ("fd00::3", 2)] {
            let read = overflow(&format!(r#","requested-ip":"{ip}""#), OR).unwrap();
            let [tried] = read.tried() else {
                panic!("{ip}")
            };
            assert_eq!(tried.nth, pool);
        }
        for (ip, why) in [
            (
                "10.2.0.3",
                "10.2.0.3 is not in the pool, 10.0.0.1-10.0.0.6 or 10.1.0.1-10.1.0.6",
            ),
            ("10.1.0.1", "10.1.0.1 is the gateway of 10.1.0.0/29"),
        ] {
            let refused = overflow(&format!(r#","requested-ip":"{ip}""#), OR).unwrap_err();
            assert!(
                refused.starts_with(&format!("it.requested-ip: {why}")),
                "{refused}"
            );
        }
    }

    #[test]
    fn each_refusal_names_the_key() {
        for (or, message) in [
            (
                "7",
                "it.or[0]: invalid type: integer `7`, expected an object",
            ),
            ("{}", "it.or[0].ranges is missing, and subnet is, too"),
            (
                r#"{"subnet":"10.1.0.0/29","sticky":"k"}"#,
                "it.or[0].sticky: write it beside or, where it counts for all of its pools",
            ),
            (
                r#"{"subnet":"10.1.0.0/29","owner":"o"}"#,
                "it.or[0].owner: write it beside or, where it counts for all of its pools",
            ),
            (
                r#"{"subnet":"10.1.0.0/29","or":[]}"#,
                "it.or[0].or: write it beside or, where it counts for all of its pools",
            ),
        ] {
            assert_eq!(overflow("", or).unwrap_err(), message);
        }
    }
}
