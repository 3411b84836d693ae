//! The contract between selectors and allocators: `prevResult.pools`.

use std::collections::BTreeSet;

use cni::{Error, IpamResult, NetworkConfig, Object};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::disjoint::Disjoint;
use crate::{Pool, PoolName};

/// The key of a result.
const KEY: &str = "pools";

/// The result of a selector: everything in `prevResult`, with `pools` after those
/// that are there. Each of `pools` is a JSON object.
///
/// # Errors
///
/// Code 7 if `prevResult` is invalid, naming the key.
///
/// # Panics
///
/// If a pool can't be written as JSON.
pub fn append_pools<P: Serialize>(
    config: &NetworkConfig,
    pools: impl IntoIterator<Item = P>,
) -> Result<IpamResult, Error> {
    let mut result = config.prev_result()?.unwrap_or_default();
    let mut all: Vec<Box<RawValue>> = list(&result, "prevResult.pools")?;
    all.extend(
        pools
            .into_iter()
            .map(|pool| to_raw_value(&pool).expect("a pool is JSON")),
    );
    result.set_other(KEY, &all);
    Ok(result)
}

/// The pools of a result, as they are written.
///
/// # Errors
///
/// Code 7 if they are no list of objects.
pub fn pools_of_result(result: &IpamResult) -> Result<Vec<Object>, Error> {
    list(result, KEY)
}

fn list<T: DeserializeOwned>(result: &IpamResult, path: &str) -> Result<Vec<T>, Error> {
    match result.other(KEY) {
        Some(raw) if raw.get() != "null" => cni::read(path, raw),
        _ => Ok(Vec::new()),
    }
}

/// `prevResult.pools`, for an allocator. Empty if no selector has put any there.
///
/// # Errors
///
/// Code 7, naming the key and the value, for an invalid pool, and for two that overlap: an
/// address would be given twice, if not now, then to the next container.
pub fn pools(config: &NetworkConfig) -> Result<Vec<Pool>, Error> {
    read_pools(pool_objects(config)?)
}

/// The pools of these entries of `prevResult.pools`: as [`pools`], for an allocator
/// that completes entries first.
///
/// # Errors
///
/// As [`pools`].
pub fn read_pools(objects: Vec<Object>) -> Result<Vec<Pool>, Error> {
    let mut pools: Vec<Pool> = Vec::with_capacity(objects.len());
    let mut disjoint = Disjoint::default();
    for (i, object) in objects.into_iter().enumerate() {
        let path = path(i);
        let pool = Pool::read(&path, object)?;
        if let Err(earlier) = disjoint.add(&pool.ranges, i) {
            return Err(Error::config(format!(
                "{path}: {} overlaps {} of {}",
                pool.ranges,
                pools[earlier].ranges,
                self::path(earlier)
            )));
        }
        pools.push(pool);
    }
    Ok(pools)
}

/// The pools of `prevResult` that have ranges: those without are other delegates' to
/// understand.
///
/// # Errors
///
/// Code 7, naming the key and the value, for an invalid pool.
pub fn ranged_pools(config: &NetworkConfig) -> Result<Vec<Pool>, Error> {
    let objects = pool_objects(config)?.into_iter().enumerate();
    objects
        .filter(|(_, pool)| has_ranges(pool))
        .map(|(i, pool)| Pool::read(&path(i), pool))
        .collect()
}

/// The names of `prevResult.pools`, for DEL and GC. An unreadable pool is logged and
/// skipped, so that everything else can be released.
pub fn pool_names(config: &NetworkConfig) -> BTreeSet<PoolName> {
    let skip = |error: &Error| {
        tracing::warn!(%error, "going on without this pool, so that addresses are released");
    };
    let objects = pool_objects(config).inspect_err(skip).unwrap_or_default();
    let names = objects
        .iter()
        .enumerate()
        .map(|(i, pool)| pool.read(&path(i), "name"));
    names
        .filter_map(|name| name.inspect_err(skip).ok().flatten())
        .collect()
}

/// True if an entry of `pools` has ranges.
pub fn has_ranges(pool: &Object) -> bool {
    let is_set = |key: &str| pool.get(key).is_some_and(|value| value.get() != "null");
    is_set("ranges") || is_set("subnet")
}

/// The entries of `prevResult.pools`, as a selector wrote them.
///
/// # Errors
///
/// Code 7, naming the key, for what is no array of objects.
pub fn pool_objects(config: &NetworkConfig) -> Result<Vec<Object>, Error> {
    let Some(raw) = config.raw_prev_result() else {
        return Ok(Vec::new());
    };
    let pools = cni::read::<Object>("prevResult", raw)?.read("prevResult", KEY)?;
    Ok(pools.unwrap_or_default())
}

fn path(index: usize) -> String {
    format!("prevResult.{KEY}[{index}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::SpecVersion;

    fn config(prev_result: &str) -> NetworkConfig {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"net","prevResult":{prev_result}}}"#);
        NetworkConfig::parse(json.into_bytes()).unwrap()
    }

    fn appended(prev_result: &str) -> String {
        let result = append_pools(&config(prev_result), [serde_json::json!({"vlan": 7})]).unwrap();
        String::from_utf8(result.to_json(SpecVersion::V1_0_0)).unwrap()
    }

    #[test]
    fn a_selectors_pools_come_after_those_that_are_there() {
        assert_eq!(
            appended(
                r#"{"x":1.50,"pools":[{"name":"blue", "vlan":1e3}],"ips":[{"address":"10.0.0.2/24"}]}"#
            ),
            concat!(
                r#"{"x":1.50,"pools":[{"name":"blue", "vlan":1e3},{"vlan":7}],"#,
                r#""ips":[{"address":"10.0.0.2/24"}],"cniVersion":"1.0.0","routes":[],"dns":{}}"#
            )
        );
        for none in ["null", "{}", r#"{"pools":null}"#, r#"{"pools":[]}"#] {
            assert!(appended(none).contains(r#""pools":[{"vlan":7}]"#), "{none}");
        }
        let error = append_pools(&config(r#"{"pools":{}}"#), [Object::new()]).unwrap_err();
        assert_eq!(
            error.msg,
            "prevResult.pools: invalid type: map, expected a sequence"
        );
    }

    #[test]
    fn pools_without_ranges_are_left_to_other_delegates() {
        let pools = r#"{"name":"a"},{"name":"b","subnet":"10.0.0.0/24"},{"name":"c","subnet":null,"ranges":null},{"ranges":[{"subnet":"10.1.0.0/24"}]}"#;
        let config = config(&format!(r#"{{"pools":[{pools}]}}"#));
        let ranged = ranged_pools(&config).unwrap().into_iter();
        let ranges: Vec<String> = ranged.map(|pool| pool.ranges.to_string()).collect();
        assert_eq!(ranges, ["10.0.0.1-10.0.0.254", "10.1.0.1-10.1.0.254"]);
        let result = append_pools(&config, [Object::new()]).unwrap();
        let all = pools_of_result(&result).unwrap();
        assert_eq!(all.len(), 5);
        assert_eq!(all[0].get("name").unwrap().get(), r#""a""#);
    }

    #[test]
    fn pools_that_overlap_are_refused_whatever_their_directories() {
        let pools = |list: &str| {
            pools(&config(&format!(r#"{{"pools":[{list}]}}"#)))
                .map(|pools| pools.len())
                .map_err(|error| error.msg)
        };
        let (a, b) = (r#""subnet":"10.0.0.0/24""#, r#""subnet":"10.0.0.0/25""#);
        let overlap = "prevResult.pools[1]: 10.0.0.1-10.0.0.126 overlaps 10.0.0.1-10.0.0.254 of prevResult.pools[0]";
        assert_eq!(pools(&format!("{{{a}}},{{{b}}}")), Err(overlap.to_owned()));
        assert_eq!(
            pools(&format!(r#"{{"name":"net",{a}}},{{{b}}}"#)),
            Err(overlap.to_owned())
        );
        assert_eq!(
            pools(&format!(r#"{{"name":"blue",{a}}},{{{b}}}"#)),
            Err(overlap.to_owned())
        );
        assert_eq!(
            pools("{}"),
            Err("prevResult.pools[0].ranges is missing, and subnet is, too".to_owned())
        );
        assert_eq!(pools(""), Ok(0));
    }

    #[test]
    fn an_unreadable_pool_hides_no_other_pools_name() {
        let names = |prev_result: &str| {
            let names = pool_names(&config(prev_result));
            names
                .iter()
                .map(PoolName::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            names(
                r#"{"pools":[{"name":"b","ranges":7},{"name":"../x"},{"name":5},{},{"name":"a"}]}"#
            ),
            "a b"
        );
        assert_eq!(names(r#"{"pools":7}"#), "");
        assert_eq!(names("7"), "");
    }
}
