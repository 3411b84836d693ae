mod types;

use std::net::IpAddr;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::object::{self, Object};
use crate::{Error, SpecVersion, is_field};

pub use types::{parse_cidr, verify_route};

/// An IPAM plugin's success result: `ips`, `routes`, `dns`, and every other key
/// as it came. Specification, section 5, "Delegated plugins (IPAM)".
///
/// It is read in the shape of any version, and written in the shape of one.
///
/// ```
/// # use cni::{IpConfig, IpamResult, SpecVersion};
/// let mut result = IpamResult::default();
/// result.ips.push(IpConfig::new("10.1.0.5".parse().unwrap(), 16, None));
/// assert_eq!(
///     result.to_raw(SpecVersion::V0_4_0).get(),
///     concat!(
///         r#"{"cniVersion":"0.4.0","ips":[{"address":"10.1.0.5/16","version":"4"}],"#,
///         r#""routes":[],"dns":{}}"#,
///     )
/// );
/// ```
#[derive(Clone, Debug)]
pub struct IpamResult {
    /// `ips`: addresses with prefix length and gateway.
    pub ips: Vec<IpConfig>,
    /// The routes, as they came.
    pub routes: Vec<Object>,
    /// `dns`: the container's name servers and domains.
    pub dns: Dns,
    /// The result as it came: the keys not named here, and the order of all.
    object: Object,
}

/// The keys that every result of ours has.
const OWN_KEYS: [&str; 4] = ["cniVersion", "ips", "routes", "dns"];

impl Default for IpamResult {
    /// No addresses, no routes, no DNS.
    fn default() -> Self {
        Self {
            ips: Vec::new(),
            routes: Vec::new(),
            dns: Dns::default(),
            object: with_own_keys(Object::new()),
        }
    }
}

impl IpamResult {
    /// Verifies that each field that CNI defines has its type, as the main plugin will read it;
    /// `path` is the result's name in messages.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key that is wrong and its value.
    pub fn verify_types(path: &str, raw: &RawValue) -> Result<(), Error> {
        types::verify(path, &object::read(path, raw)?)
    }

    /// Reads a result; `path` is its name in messages (`prevResult`).
    ///
    /// # Errors
    ///
    /// Code 7, naming the key that is wrong and its value.
    pub fn read(path: &str, raw: &RawValue) -> Result<Self, Error> {
        let object: Object = object::read(path, raw)?;
        let entries: Vec<Object> = object.read(path, "ips")?.unwrap_or_default();
        let ips = entries
            .into_iter()
            .enumerate()
            .map(|(i, entry)| IpConfig::read(&format!("{path}.ips[{i}]"), entry))
            .collect::<Result<_, _>>()?;
        let dns = object.section(path, "dns")?.unwrap_or_default();
        Ok(Self {
            ips,
            routes: object.read(path, "routes")?.unwrap_or_default(),
            dns: Dns::read(&format!("{path}.dns"), dns)?,
            object: with_own_keys(object),
        })
    }

    /// A key other than `ips`, `routes` and `dns`.
    pub fn other(&self, key: &str) -> Option<&RawValue> {
        self.object.get(key)
    }

    /// The keys other than `cniVersion`, `ips`, `routes` and `dns`, in order.
    pub fn others(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        let is_own = |key: &str| OWN_KEYS.iter().any(|own| is_field(key, own));
        let others = self.object.keys().filter(move |key| !is_own(key));
        others.filter_map(|key| Some((key, self.object.get(key)?)))
    }

    /// Sets a key other than `ips`, `routes` and `dns`.
    pub fn set_other<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        self.object.set(key, value);
    }

    /// Takes a key other than `ips`, `routes` and `dns` out.
    pub fn remove_other(&mut self, key: &str) {
        self.object.remove(key);
    }

    /// The result in the shape of `version`, as a JSON value in one line.
    pub fn to_raw(&self, version: SpecVersion) -> Box<RawValue> {
        let mut object = self.object.clone();
        object.set("cniVersion", version.as_str());
        let ips: Vec<Object> = self.ips.iter().map(|ip| ip.in_shape(version)).collect();
        object.set("ips", &ips);
        object.set("routes", &self.routes);
        object.set("dns", &self.dns.to_object());
        to_raw_value(&object).expect("an object is JSON")
    }
}

/// The object with all [`OWN_KEYS`], those that it lacks at its end. A result of 1.0.0 need not have
/// them all; ours always do.
fn with_own_keys(mut object: Object) -> Object {
    for key in OWN_KEYS {
        if object.get(key).is_none() {
            object.set(key, &());
        }
    }
    object
}

/// One entry of a result's `ips`: an address on its subnet, and the entry's other
/// keys.
#[derive(Clone, Debug)]
pub struct IpConfig {
    ip: IpAddr,
    object: Object,
}

impl IpConfig {
    /// An address with the length of its subnet's prefix, and its gateway.
    pub fn new(ip: IpAddr, prefix_len: u8, gateway: Option<IpAddr>) -> Self {
        let mut object = Object::new();
        object.set("address", &format!("{ip}/{prefix_len}"));
        if let Some(gateway) = gateway {
            object.set("gateway", &gateway.to_string());
        }
        Self { ip, object }
    }

    fn read(path: &str, object: Object) -> Result<Self, Error> {
        let address: String = object.required(path, "address")?;
        let (ip, _prefix) = address.split_once('/').unwrap_or((&address, ""));
        let ip = ip
            .parse()
            .map_err(|_| Error::config(format!("{path}.address: {address:?} is no address")))?;
        Ok(Self { ip, object })
    }

    /// The address, without its prefix.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    fn in_shape(&self, version: SpecVersion) -> Object {
        let mut object = self.object.clone();
        if version.ips_carry_version() {
            object.set("version", if self.ip.is_ipv4() { "4" } else { "6" });
        } else {
            object.remove("version");
        }
        object
    }
}

/// A result's `dns`. Specification, section 5.
#[derive(Clone, Debug, Default)]
pub struct Dns {
    /// Name servers, the preferred one first.
    pub nameservers: Vec<String>,
    /// `domain`: the one of unqualified names.
    pub domain: String,
    /// Search domains, the preferred one first.
    pub search: Vec<String>,
    /// Options for the resolver.
    pub options: Vec<String>,
    /// The object as it came, for the keys not named here.
    object: Object,
}

impl Dns {
    /// Reads an object with these keys; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key, for a value of another type.
    pub fn read(path: &str, object: Object) -> Result<Self, Error> {
        Ok(Self {
            nameservers: object.read(path, "nameservers")?.unwrap_or_default(),
            domain: object.read(path, "domain")?.unwrap_or_default(),
            search: object.read(path, "search")?.unwrap_or_default(),
            options: object.read(path, "options")?.unwrap_or_default(),
            object,
        })
    }

    /// Appends `later`: its lists follow the existing ones, and its domain is used if
    /// there was none.
    pub fn append(&mut self, later: Self) {
        self.nameservers.extend(later.nameservers);
        self.search.extend(later.search);
        self.options.extend(later.options);
        if self.domain.is_empty() {
            self.domain = later.domain;
        }
    }

    fn to_object(&self) -> Object {
        let mut object = self.object.clone();
        for (key, list) in [
            ("nameservers", &self.nameservers),
            ("search", &self.search),
            ("options", &self.options),
        ] {
            if !list.is_empty() {
                object.set(key, list);
            }
        }
        if !self.domain.is_empty() {
            object.set("domain", &self.domain);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<IpamResult, Error> {
        IpamResult::read(
            "prevResult",
            &RawValue::from_string(json.to_owned()).unwrap(),
        )
    }

    fn rewritten(json: &str, version: SpecVersion) -> String {
        read(json).unwrap().to_raw(version).get().to_owned()
    }

    #[test]
    fn a_result_is_written_in_the_shape_of_every_version() {
        let old = r#"{"cniVersion":"0.3.1","ips":[{"version":"6","address":"fd00::2/64"}]}"#;
        for &version in SpecVersion::ALL {
            let family = if version < SpecVersion::V1_0_0 {
                r#""version":"6","#
            } else {
                ""
            };
            assert_eq!(
                rewritten(old, version),
                format!(
                    r#"{{"cniVersion":"{version}","ips":[{{{family}"address":"fd00::2/64"}}],"routes":[],"dns":{{}}}}"#
                )
            );
        }
    }

    #[test]
    fn unknown_keys_stay_at_every_level() {
        let json = concat!(
            r#"{"cniVersion":"1.0.0","pools":[1.0],"ips":[{"interface":2,"address":"10.0.0.2/24","x":1e3}],"#,
            r#""routes":[{"dst":"0.0.0.0/0","mtu":1400}],"interfaces":[{"name":"eth0"}],"#,
            r#""dns":{"x":[0.10],"nameservers":["10.0.0.1"]}}"#
        );
        assert_eq!(rewritten(json, SpecVersion::V1_0_0), json);
    }

    #[test]
    fn null_lists_read_as_empty() {
        let result = read(r#"{"ips":null,"routes":null,"dns":null}"#).unwrap();
        assert!(result.ips.is_empty() && result.routes.is_empty());
    }

    #[test]
    fn a_wrong_value_is_named() {
        for (json, msg) in [
            (
                r#"{"ips":{}}"#,
                "prevResult.ips: invalid type: map, expected a sequence",
            ),
            (r#"{"ips":[{}]}"#, "prevResult.ips[0].address is missing"),
            (
                r#"{"ips":[{"address":"10.0.0/8"}]}"#,
                "prevResult.ips[0].address: \"10.0.0/8\" is no address",
            ),
            (
                r#"{"dns":{"search":"x"}}"#,
                "prevResult.dns.search: invalid type: string \"x\", expected a sequence",
            ),
        ] {
            assert_eq!(read(json).unwrap_err().msg, msg);
        }
    }

    #[test]
    fn appended_dns_comes_after_what_was_there() {
        let mut dns = Dns {
            nameservers: vec!["10.0.0.1".into()],
            ..Dns::default()
        };
        let later = Dns {
            nameservers: vec!["10.0.0.2".into()],
            domain: "later".into(),
            search: vec!["s".into()],
            options: vec!["ndots:2".into()],
            ..Dns::default()
        };
        dns.append(later);
        dns.append(Dns {
            domain: "last".into(),
            ..Dns::default()
        });
        assert_eq!(dns.nameservers, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(dns.domain, "later");
    }
}
