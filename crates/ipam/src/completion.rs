//! An allocator's answer: `prevResult` completed with addresses, `ipam.routes` and
//! `ipam.resolvConf`.

use std::fs;

use cni::{Dns, Error, IpConfig, IpamResult, NetworkConfig, Object};
use serde::de::DeserializeOwned;

use crate::{Pool, resolv_conf};

/// Keys of a result that only delegates understand.
const OF_DELEGATES: [&str; 2] = ["pools", "facts"];

/// An allocator's answer before its addresses are known.
///
/// Everything that can be wrong with it is found when it is read, hence before an
/// address is reserved.
#[derive(Clone, Debug)]
pub struct Completion {
    result: IpamResult,
    routes: Vec<Object>,
    dns: Dns,
}

impl Completion {
    /// Reads `prevResult`, `ipam.routes` and the file that `ipam.resolvConf` names. What is for
    /// delegates only (`pools`, `facts`) is dropped.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, for a `prevResult` or a route that is
    /// invalid; code 5 if the file can't be read.
    pub fn read(config: &NetworkConfig, ipam: &Object) -> Result<Self, Error> {
        let mut result = config.prev_result()?.unwrap_or_default();
        for key in OF_DELEGATES {
            result.remove_other(key);
        }
        Ok(Self {
            result,
            routes: read_routes("ipam", ipam)?,
            dns: dns(ipam)?.unwrap_or_default(),
        })
    }

    /// Another key of `prevResult`, which the answer has, too.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key: it has another type.
    pub fn earlier<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Error> {
        let raw = self.result.other(key);
        raw.map(|raw| cni::read(key, raw)).transpose()
    }

    /// The answer, with these addresses, each of a pool, after those of `prevResult`. The pools'
    /// routes and DNS come after those of `prevResult`, and before those of the `ipam` section.
    #[must_use]
    pub fn with_addresses<'p>(
        mut self,
        given: impl IntoIterator<Item = (&'p Pool, IpConfig)>,
    ) -> IpamResult {
        let mut ips = Vec::new();
        for (pool, ip) in given {
            ips.push(ip);
            self.result.routes.extend(pool.routes.iter().cloned());
            self.result.dns.append(pool.dns.clone());
        }
        self.with_ips(ips)
    }

    /// The answer, with these addresses, which are of no pool.
    #[must_use]
    pub fn with_ips(mut self, ips: impl IntoIterator<Item = IpConfig>) -> IpamResult {
        self.result.ips.extend(ips);
        self.result.routes.extend(self.routes);
        self.result.dns.append(self.dns);
        self.result
    }
}

/// Reads the key `routes` of an object, as the routes are written; `path` is the object's
/// name in messages.
///
/// # Errors
///
/// Code 7, naming the key and the value, for a route without `dst`, and for an attribute of a wrong
/// type.
pub fn read_routes(path: &str, object: &Object) -> Result<Vec<Object>, Error> {
    let routes: Vec<Object> = object.read(path, "routes")?.unwrap_or_default();
    for (i, route) in routes.iter().enumerate() {
        let path = format!("{path}.routes[{i}]");
        cni::verify_route(&path, route)?;
        route.required::<String>(&path, "dst")?;
    }
    Ok(routes)
}

/// The content of the file that `ipam.resolvConf` names.
fn dns(ipam: &Object) -> Result<Option<Dns>, Error> {
    let path: Option<String> = ipam.read("ipam", "resolvConf")?;
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let content =
        fs::read(&path).map_err(|e| Error::io(format_args!("ipam.resolvConf: {path}"), e))?;
    let content = String::from_utf8_lossy(&content);
    Ok(Some(resolv_conf::parse(&content)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::SpecVersion;

    fn completed(ipam: &str, prev_result: &str) -> Result<String, Error> {
        let json = format!(
            r#"{{"cniVersion":"1.0.0","name":"net","ipam":{ipam},"prevResult":{prev_result}}}"#
        );
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let completion = Completion::read(&config, &config.ipam()?)?;
        let ip = IpConfig::new("10.0.0.3".parse().unwrap(), 24, None);
        let pool =
            r#"{"subnet":"10.0.0.0/24","routes":[{"dst":"10.9.0.0/16"}],"dns":{"search":["p"]}}"#;
        let pool = Pool::read("pool", serde_json::from_str(pool).unwrap()).unwrap();
        let result = completion.with_addresses([(&pool, ip)]);
        Ok(result.to_raw(SpecVersion::V1_0_0).get().to_owned())
    }

    #[test]
    fn prev_result_comes_first_then_the_pool_and_what_is_for_delegates_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("resolv.conf");
        fs::write(&file, "nameserver 10.0.0.9\nsearch b\n").unwrap();
        let ipam =
            format!(r#"{{"routes":[{{"dst":"0.0.0.0/0","mtu":1400}}],"resolvConf":{file:?}}}"#);
        let prev_result = concat!(
            r#"{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.2/24"}],"routes":[{"dst":"10.0.0.0/8"}],"#,
            r#""dns":{"nameservers":["10.0.0.1"],"domain":"a"},"pools":[{}],"facts":{"a":"b"},"x":1.50}"#
        );
        assert_eq!(
            completed(&ipam, prev_result).unwrap(),
            concat!(
                r#"{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.2/24"},{"address":"10.0.0.3/24"}],"#,
                r#""routes":[{"dst":"10.0.0.0/8"},{"dst":"10.9.0.0/16"},{"dst":"0.0.0.0/0","mtu":1400}],"#,
                r#""dns":{"nameservers":["10.0.0.1","10.0.0.9"],"domain":"a","search":["p","b"]},"x":1.50}"#
            )
        );
    }

    #[test]
    fn a_gateway_may_be_empty() {
        for gw in ["", "10.0.0.1"] {
            let ipam = format!(r#"{{"routes":[{{"dst":"0.0.0.0/0","gw":"{gw}"}}]}}"#);
            assert!(completed(&ipam, "null").unwrap().contains("0.0.0.0/0"));
        }
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (ipam, message) in [
            (r#"{"routes":[{}]}"#, "ipam.routes[0].dst is missing"),
            (
                r#"{"routes":[{"dst":"x"}]}"#,
                "ipam.routes[0].dst: \"x\" is no subnet (such as 0.0.0.0/0)",
            ),
            (
                r#"{"routes":[{"dst":"0.0.0.0/0","gw":"x"}]}"#,
                "ipam.routes[0].gw: \"x\" is no IP address",
            ),
            (
                r#"{"Routes":[{"dst":"0.0.0.0/0","MTU":"1400"}]}"#,
                "ipam.routes[0].mtu: \"1400\" is no integer of 64 bits",
            ),
        ] {
            assert_eq!(completed(ipam, "null").unwrap_err().msg, message);
        }
        let error = completed(r#"{"resolvConf":"/nowhere/resolv.conf"}"#, "null").unwrap_err();
        assert_eq!(error.code, cni::code::IO);
        assert!(
            error
                .msg
                .starts_with("ipam.resolvConf: /nowhere/resolv.conf: ")
        );
    }
}
