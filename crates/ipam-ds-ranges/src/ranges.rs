//! The range sets that the configuration names, in the order of the addresses
//! that they yield.

use cni::{Error, NetworkConfig, Object};
use ipam::{Range, RangeConfig, RangeSet};

/// A range set, as it was written and as it is understood.
#[derive(Debug)]
pub(crate) struct ConfiguredSet {
    /// Where it stands: `ipam.ranges[0]`.
    pub(crate) path: String,
    /// Its ranges with every key that they carry.
    pub(crate) written: Vec<Object>,
    /// Its ranges, checked.
    pub(crate) set: RangeSet,
}

/// The keys of a range.
const KEYS: [&str; 4] = ["subnet", "rangeStart", "rangeEnd", "gateway"];

/// All range sets: first the runtime's, then the one at the top of `ipam`,
/// then those of `ipam.ranges`; the order of host-local
/// (`backend/allocator/config.go`).
///
/// # Errors
///
/// Code 7, naming the key and the value: no range, a range or a set that is
/// wrong, sets that overlap.
pub(crate) fn configured(
    config: &NetworkConfig,
    ipam: &Object,
) -> Result<Vec<ConfiguredSet>, Error> {
    let mut sets = Vec::new();
    if let Some(runtime) = config.read::<Object>("runtimeConfig")? {
        listed(&mut sets, &runtime, "runtimeConfig", "ipRanges")?;
    }
    if ipam.get("subnet").is_some_and(|raw| raw.get() != "null") {
        let mut range = Object::new();
        for key in KEYS {
            if let Some(value) = ipam.get(key) {
                range.set(key, value);
            }
        }
        let alone = Range::try_from(&range_config("ipam", &range)?)
            .map_err(|e| Error::config(e.within("ipam").to_string()))?;
        sets.push(ConfiguredSet {
            path: "ipam".to_owned(),
            written: vec![range],
            set: alone.into(),
        });
    }
    listed(&mut sets, ipam, "ipam", "ranges")?;
    if sets.is_empty() {
        return Err(Error::config(
            "ipam.ranges is missing or empty: no range is configured to give addresses from",
        ));
    }
    refuse_overlaps(&sets)?;
    Ok(sets)
}

fn listed(
    sets: &mut Vec<ConfiguredSet>,
    section: &Object,
    path: &str,
    key: &str,
) -> Result<(), Error> {
    let lists: Vec<Vec<Object>> = section.read(path, key)?.unwrap_or_default();
    for (i, written) in lists.into_iter().enumerate() {
        let path = format!("{path}.{key}[{i}]");
        let configs = written
            .iter()
            .enumerate()
            .map(|(j, range)| range_config(&format!("{path}[{j}]"), range))
            .collect::<Result<Vec<_>, _>>()?;
        let set = RangeSet::try_from(configs.as_slice())
            .map_err(|e| Error::config(e.within(&path).to_string()))?;
        sets.push(ConfiguredSet { path, written, set });
    }
    Ok(())
}

fn range_config(path: &str, range: &Object) -> Result<RangeConfig, Error> {
    // host-local, being written in Go, reads "rangestart", too. Passing over it
    // would give addresses that the range was meant to leave out.
    for key in range.keys() {
        if let Some(meant) = KEYS
            .iter()
            .find(|k| **k != key && k.eq_ignore_ascii_case(key))
        {
            return Err(Error::config(format!("{path}.{key}: write it as {meant}")));
        }
    }
    Ok(RangeConfig {
        subnet: range.read(path, "subnet")?,
        range_start: range.read(path, "rangeStart")?,
        range_end: range.read(path, "rangeEnd")?,
        gateway: range.read(path, "gateway")?,
    })
}

fn refuse_overlaps(sets: &[ConfiguredSet]) -> Result<(), Error> {
    for (i, later) in sets.iter().enumerate() {
        for earlier in &sets[..i] {
            if earlier.set.overlaps(&later.set) {
                return Err(Error::config(format!(
                    "{}: {} overlaps {} of {}",
                    later.path, later.set, earlier.set, earlier.path
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(rest: &str) -> Result<Vec<String>, Error> {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"n",{rest}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let sets = configured(&config, &config.ipam()?)?;
        Ok(sets
            .iter()
            .map(|s| format!("{} {}", s.path, s.set))
            .collect())
    }

    #[test]
    fn the_runtimes_ranges_come_first_then_the_single_one_then_the_list() {
        let got = sets(concat!(
            r#""runtimeConfig":{"ipRanges":[[{"subnet":"10.3.0.0/24"}]]},"#,
            r#""ipam":{"ranges":[[{"subnet":"10.1.0.0/24"},{"subnet":"10.4.0.0/24"}]],"subnet":"10.2.0.0/24","rangeStart":"10.2.0.9"}"#,
        ));
        assert_eq!(
            got.unwrap(),
            [
                "runtimeConfig.ipRanges[0] 10.3.0.1-10.3.0.254",
                "ipam 10.2.0.9-10.2.0.254",
                "ipam.ranges[0] 10.1.0.1-10.1.0.254,10.4.0.1-10.4.0.254",
            ]
        );
    }

    #[test]
    fn null_is_as_good_as_nothing() {
        let got = sets(concat!(
            r#""runtimeConfig":{"ipRanges":null},"#,
            r#""ipam":{"ranges":[[{"subnet":"10.1.0.0/24","gateway":null}]],"subnet":null}"#,
        ));
        assert_eq!(got.unwrap().len(), 1);
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        const NONE: &str =
            "ipam.ranges is missing or empty: no range is configured to give addresses from";
        for (ipam, msg) in [
            ("{}", NONE),
            (r#"{"ranges":[]}"#, NONE),
            (
                r#"{"ranges":[[]]}"#,
                "ipam.ranges[0]: the range set is empty",
            ),
            (
                r#"{"ranges":[{"subnet":"10.0.0.0/24"}]}"#,
                "ipam.ranges[0]: invalid type: map, expected a sequence",
            ),
            (
                r#"{"ranges":[[{"subnet":7}]]}"#,
                "ipam.ranges[0][0].subnet: invalid type: integer `7`, expected a string",
            ),
            (
                r#"{"ranges":[[{"subnet":"10.0.0.5/24"}]]}"#,
                "ipam.ranges[0][0].subnet: \"10.0.0.5/24\" has host bits set; its network is 10.0.0.0/24",
            ),
            (
                r#"{"ranges":[[{"subnet":"10.0.0.0/24","rangestart":"10.0.0.9"}]]}"#,
                "ipam.ranges[0][0].rangestart: write it as rangeStart",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","rangeStart":"10.0.1.9"}"#,
                "ipam.rangeStart: 10.0.1.9 is not in the subnet 10.0.0.0/24",
            ),
            (
                r#"{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.0.0.0/25"}]]}"#,
                "ipam.ranges[1]: 10.0.0.1-10.0.0.126 overlaps 10.0.0.1-10.0.0.254 of ipam.ranges[0]",
            ),
        ] {
            let error = sets(&format!(r#""ipam":{ipam}"#)).unwrap_err();
            assert_eq!(
                (error.code, error.msg.as_str()),
                (cni::code::INVALID_CONFIG, msg)
            );
        }
    }
}
