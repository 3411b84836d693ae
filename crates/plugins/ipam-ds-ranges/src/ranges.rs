//! Reads the range sets of the network configuration, in the order of the result's addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni::{Error, NetworkConfig, Object};
use ipam::{Disjoint, RANGE_KEYS, RangeSet, RequestedAddress, refuse_missing_gateway};

/// The range sets of a configuration. They don't overlap.
#[derive(Debug, Default)]
pub(crate) struct Configured {
    /// First the runtime's, then the one at the top of `ipam`, then those of `ipam.ranges`: the
    /// order of host-local (`backend/allocator/config.go`).
    pub(crate) sets: Vec<ConfiguredSet>,
    disjoint: Disjoint,
}

/// A range set, as JSON and parsed.
#[derive(Debug)]
pub(crate) struct ConfiguredSet {
    /// Its key: `ipam.ranges[0]`.
    pub(crate) path: String,
    /// Its ranges as JSON, with all of their keys.
    pub(crate) written: Vec<Object>,
    /// Its ranges, parsed.
    pub(crate) set: RangeSet,
}

impl Configured {
    /// Reads all range sets; may be empty.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: an invalid range or set, sets that overlap, or a range
    /// without a gateway beside a main plugin that takes one.
    pub(crate) fn read(config: &NetworkConfig, ipam: &Object) -> Result<Self, Error> {
        let mut all = Self::default();
        if let Some(runtime) = config.section("runtimeConfig")? {
            all.read_list(&runtime, "runtimeConfig", "ipRanges")?;
        }
        if ipam.get("subnet").is_some_and(|raw| raw.get() != "null") {
            let mut range = Object::new();
            for key in RANGE_KEYS {
                if let Some(value) = ipam.get(key) {
                    range.set(key, value);
                }
            }
            let set = ipam::Range::read("ipam", ipam)?.into();
            all.add("ipam".to_owned(), vec![range], set)?;
        }
        all.read_list(ipam, "ipam", "ranges")?;
        for ConfiguredSet { path, set, .. } in &all.sets {
            refuse_missing_gateway(path, set, config)?;
        }
        Ok(all)
    }

    /// The index of the set that serves a request: one yields one address. `served` has the requests
    /// that are served already, by the index of their set.
    ///
    /// # Errors
    ///
    /// The reason why none does.
    pub(crate) fn serving(
        &self,
        request: &RequestedAddress,
        served: &BTreeMap<usize, RequestedAddress>,
    ) -> Result<usize, String> {
        let at = self.set_of(request.ip).ok_or(
            "is in no range; to keep an address for requests, put it into a range and its exclude",
        )?;
        let ConfiguredSet { path, set, .. } = &self.sets[at];
        let ip = set.in_family(request.ip);
        let mut gateways = self.sets.iter().flat_map(|other| other.set.gateways());
        if let Some((_, subnet)) = gateways.find(|(gateway, _)| *gateway == ip) {
            return Err(format!("is the gateway of {subnet}"));
        }
        match served.get(&at) {
            None => Ok(at),
            Some(RequestedAddress { ip, source }) => {
                Err(format!("is in {path}, of which {source} requests {ip}"))
            }
        }
    }

    /// The index of the set that contains the address. An IPv4 address in IPv6 notation is looked
    /// up in the IPv6 sets first, then in the IPv4 sets.
    fn set_of(&self, ip: IpAddr) -> Option<usize> {
        let owner = |ip| self.disjoint.owner(ip);
        owner(ip).or_else(|| owner(ip.to_canonical()))
    }

    fn read_list(&mut self, section: &Object, path: &str, key: &str) -> Result<(), Error> {
        let lists: Vec<Vec<Object>> = section.read(path, key)?.unwrap_or_default();
        for (i, written) in lists.into_iter().enumerate() {
            let path = format!("{path}.{key}[{i}]");
            let set = RangeSet::read(&path, &written, &[])?;
            self.add(path, written, set)?;
        }
        Ok(())
    }

    fn add(&mut self, path: String, written: Vec<Object>, set: RangeSet) -> Result<(), Error> {
        if let Err(earlier) = self.disjoint.add(&set, self.sets.len()) {
            let earlier = &self.sets[earlier];
            return Err(Error::config(format!(
                "{path}: {set} overlaps {} of {}",
                earlier.set, earlier.path
            )));
        }
        self.sets.push(ConfiguredSet { path, written, set });
        Ok(())
    }
}

/// The set as an entry of a result's `pools`.
pub(crate) fn pool(set: &ConfiguredSet) -> Object {
    let mut pool = Object::new();
    pool.set("ranges", &set.written);
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(rest: &str) -> Result<Vec<String>, Error> {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"n",{rest}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let configured = Configured::read(&config, &config.ipam()?)?;
        Ok(configured
            .sets
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
    fn a_request_that_is_not_served_says_why() {
        let json = concat!(
            r#"{"cniVersion":"1.0.0","name":"n","ipam":{"ranges":["#,
            r#"[{"subnet":"10.1.0.0/24"}],[{"subnet":"10.2.0.0/24"}]]}}"#,
        );
        let config = NetworkConfig::parse(json.as_bytes().to_vec()).unwrap();
        let configured = Configured::read(&config, &config.ipam().unwrap()).unwrap();
        let request = |ip: &str| RequestedAddress {
            ip: ip.parse().unwrap(),
            source: "args.cni.ips[0]".to_owned(),
        };
        let served = BTreeMap::from([(0, request("10.1.0.9"))]);
        let serving = |ip: &str| configured.serving(&request(ip), &served);
        assert_eq!(serving("10.2.0.9"), Ok(1));
        for (ip, why) in [
            (
                "10.3.0.9",
                "is in no range; to keep an address for requests, put it into a range and its exclude",
            ),
            (
                "10.1.0.8",
                "is in ipam.ranges[0], of which args.cni.ips[0] requests 10.1.0.9",
            ),
            ("::ffff:10.2.0.1", "is the gateway of 10.2.0.0/24"),
        ] {
            assert_eq!(serving(ip).unwrap_err(), why);
        }
    }

    #[test]
    fn keys_are_read_in_any_case_and_the_last_of_two_equal_ones_counts() {
        let got = sets(concat!(
            r#""RuntimeConfig":{"ipranges":[[{"SUBNET":"10.3.0.0/24"}]]},"#,
            r#""ipam":{"Ranges":[[{"Subnet":"10.1.0.0/24","rangestart":"10.1.0.5","rangestart":"10.1.0.9"}]],"#,
            r#""SUBNET":"10.2.0.0/24","rangeend":"10.2.0.9"}"#,
        ));
        assert_eq!(
            got.unwrap(),
            [
                "runtimeConfig.ipRanges[0] 10.3.0.1-10.3.0.254",
                "ipam 10.2.0.1-10.2.0.9",
                "ipam.ranges[0] 10.1.0.9-10.1.0.254",
            ]
        );
    }

    #[test]
    fn null_is_a_missing_key() {
        let got = sets(concat!(
            r#""runtimeConfig":{"ipRanges":null},"#,
            r#""ipam":{"ranges":[[{"subnet":"10.1.0.0/24","gateway":null}]],"subnet":null}"#,
        ));
        assert_eq!(got.unwrap().len(), 1);
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (ipam, msg) in [
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
                r#"{"ranges":[[{"subnet":"10.0.0.0/24","Subnet":"10.0.1.0/24"}]]}"#,
                "ipam.ranges[0][0].subnet is there as \"Subnet\", too; write one of the two",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","gateway":"10.0.0.9","Gateway":"10.0.0.8"}"#,
                "ipam.gateway is there as \"Gateway\", too; write one of the two",
            ),
            (
                r#"{"ranges":[[{"subnet":"10.0.0.0/24"}]],"Ranges":[]}"#,
                "ipam.ranges is there as \"Ranges\", too; write one of the two",
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
