//! The settings of a DHCP client: `ipam.dhcp`, the reference plugin's `provide`, `request` and
//! `priority`, and the keys of a pool.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use cni::{Attachment, Call, Error, NetworkConfig, Object};
use ipam::{Facts, Pool, Pools};
use serde::Deserialize;

use crate::client::{CLIENT_ID, Client};

/// The default of `ipam.dhcp.timeout`.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The options that are requested by default: subnet mask, routers, name servers, domain, MTU,
/// static routes, T1, T2, search list, classless routes.
const REQUESTED: [u8; 10] = [1, 3, 6, 15, 26, 33, 58, 59, 119, 121];

/// The names that the reference plugin has for options.
const NAMES: [(&str, u8); 6] = [
    ("dhcp-client-identifier", CLIENT_ID),
    ("subnet-mask", 1),
    ("routers", 3),
    ("host-name", 12),
    ("user-class", 77),
    ("vendor-class-identifier", 60),
];

/// Keys of a pool that only a chooser of addresses can honour, which is the server here.
const REFUSED: [&str; 4] = ["owner", "requested-ip", "exclude", "or"];

/// The name of the pool in messages.
const POOL: &str = "prevResult.pools[0]";

/// A family of addresses, as `ipam.dhcp.families` names it.
#[derive(Clone, Copy, Deserialize)]
enum Family {
    #[serde(rename = "4")]
    V4,
    #[serde(rename = "6")]
    V6,
}

/// The settings of a call.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The client of each family of `ipam.dhcp.families`, behind the family's unspecified address.
    pub(crate) clients: Vec<(IpAddr, Client)>,
    /// `ipam.dhcp.timeout`: the longest that ADD waits for servers.
    pub(crate) timeout: Duration,
    /// `ipam.priority`: the metric of the server's routes.
    pub(crate) priority: Option<u32>,
}

impl Settings {
    /// Reads the settings of a call for an attachment.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: an unknown option or family, several pools, a
    /// pool with ranges or with a key that only a chooser of addresses can honour.
    pub(crate) fn read(call: &Call<'_>, attachment: &Attachment) -> Result<Self, Error> {
        let ipam = call.config.ipam()?;
        let dhcp: Object = ipam.read("ipam", "dhcp")?.unwrap_or_default();
        let families: Option<Vec<Family>> = dhcp.read("ipam.dhcp", "families")?;
        let families = families.unwrap_or_else(|| vec![Family::V4]);
        if families.is_empty() {
            let why = "ipam.dhcp.families is []: it must list \"4\", \"6\" or both";
            return Err(Error::config(why));
        }
        let pool = pool(&call.config)?;
        let mut options = Options {
            facts: Facts::of(call)?,
            provide: BTreeMap::new(),
            request: REQUESTED.to_vec(),
        };
        options.read("ipam", &ipam)?;
        options.read(POOL, &pool)?;
        let sticky: Option<String> = pool.read(POOL, "sticky")?;
        let Options {
            provide, request, ..
        } = options;
        let (network, sticky) = (call.config.name(), sticky.as_deref());
        let client = Client::new(network, attachment, sticky, provide, request);
        let client_of = |family| match family {
            Family::V4 => (Ipv4Addr::UNSPECIFIED.into(), client.clone()),
            Family::V6 => (Ipv6Addr::UNSPECIFIED.into(), client.in_v6()),
        };
        Ok(Self {
            clients: families.into_iter().map(client_of).collect(),
            timeout: dhcp.duration("ipam.dhcp", "timeout")?.unwrap_or(TIMEOUT),
            priority: ipam.read("ipam", "priority")?,
        })
    }
}

/// The pool of the call; an empty object without one.
fn pool(config: &NetworkConfig) -> Result<Object, Error> {
    let mut pools = Pools::of_call(config)?.into_entries();
    let count = pools.len();
    let pool = pools.pop().unwrap_or_default();
    let refused = if count > 1 {
        format!("prevResult.pools has {count} entries")
    } else if Pool::has_ranges(&pool) {
        format!("{POOL} has ranges")
    } else if let Some(key) = REFUSED.iter().find(|key| pool.get(key).is_some()) {
        format!("{POOL}.{key}")
    } else {
        return Ok(pool);
    };
    let why = "a DHCP server gives one address, and chooses it";
    Err(Error::config(format!("{refused}: {why}")))
}

/// An entry of `provide`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provide {
    option: String,
    value: Option<String>,
    from_arg: Option<String>,
}

/// An entry of `request`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request {
    skip_default: bool,
    option: String,
}

/// Options that are sent and requested.
struct Options {
    facts: Facts,
    provide: BTreeMap<u8, String>,
    request: Vec<u8>,
}

impl Options {
    /// Adds those of an object's `provide` and `request`.
    fn read(&mut self, path: &str, object: &Object) -> Result<(), Error> {
        let provide: Vec<Provide> = object.read(path, "provide")?.unwrap_or_default();
        for (i, entry) in provide.into_iter().enumerate() {
            let path = format!("{path}.provide[{i}]");
            let number = number(&path, &entry.option)?;
            let named = entry
                .from_arg
                .and_then(|key| self.facts.get(&key).map(str::to_owned));
            let Some(value) = named.or(entry.value).filter(|value| !value.is_empty()) else {
                continue;
            };
            self.provide.insert(number, value);
        }
        let request: Vec<Request> = object.read(path, "request")?.unwrap_or_default();
        if request.iter().any(|entry| entry.skip_default) {
            self.request.clear();
        }
        for (i, entry) in request.into_iter().enumerate() {
            if !entry.option.is_empty() {
                let path = format!("{path}.request[{i}]");
                self.request.push(number(&path, &entry.option)?);
            }
        }
        Ok(())
    }
}

/// The number of an option, by its name or its number.
fn number(path: &str, option: &str) -> Result<u8, Error> {
    let named = NAMES.iter().find(|(name, _)| *name == option);
    let number = named.map(|(_, number)| *number);
    let number = number.or_else(|| option.parse().ok());
    // 0 and 255 pad and end the list; 53 is the kind of message.
    let may_be_sent = |number: &u8| ![0, 53, 255].contains(number);
    number.filter(may_be_sent).ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        Error::config(format!(
            "{path}.option: {option:?} is neither an option's number nor one of {}",
            names.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::Environment;

    fn read(ipam: &str, prev_result: &str) -> Result<Settings, Error> {
        let json = format!(
            r#"{{"cniVersion":"1.0.0","name":"lan","ipam":{ipam},"prevResult":{prev_result}}}"#
        );
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let environment = Environment::default().with("CNI_ARGS", "K8S_POD_NAME=web-0;EMPTY=");
        let attachment = Attachment {
            container_id: "c1".parse().unwrap(),
            ifname: "net1".parse().unwrap(),
        };
        Settings::read(&Call::new(config, &environment), &attachment)
    }

    #[test]
    fn options_are_those_of_the_reference_plugin_and_of_the_pool() {
        let ipam = r#"{"dhcp":{"families":["4","6"],"timeout":3},"priority":50,
            "provide":[{"option":"host-name","fromArg":"K8S_POD_NAME"},{"option":"60","value":"x"},
                       {"option":"77","fromArg":"EMPTY"}],
            "request":[{"skipDefault":true},{"option":"routers"},{"option":"42"}]}"#;
        let pools = r#"{"facts":{"label:app":"shop"},
            "pools":[{"name":"a","provide":[{"option":"60","fromArg":"label:app"}]}]}"#;
        let settings = read(ipam, pools).unwrap();
        let [(v4, client), (v6, _)] = settings.clients.as_slice() else {
            panic!("{settings:?}");
        };
        assert_eq!(
            (v4.to_string(), v6.to_string()),
            ("0.0.0.0".into(), "::".into())
        );
        assert_eq!(settings.timeout, Duration::from_secs(3));
        assert_eq!(client.request, [3, 42]);
        let provided = [(12, "web-0"), (60, "shop")].map(|(number, value)| (number, value.into()));
        assert_eq!(client.provide, provided);
        let default = read("{}", "null").unwrap().clients;
        assert_eq!(default.len(), 1);
        assert_eq!(default[0].1.request, REQUESTED);
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (ipam, prev_result, message) in [
            (
                r#"{"dhcp":{"families":[]}}"#,
                "null",
                "ipam.dhcp.families is []",
            ),
            (
                r#"{"dhcp":{"families":["5"]}}"#,
                "null",
                "ipam.dhcp.families[0]",
            ),
            (
                r#"{"provide":[{"option":"colour","value":"x"}]}"#,
                "null",
                "ipam.provide[0].option: \"colour\" is neither",
            ),
            (
                r#"{"request":[{"option":"53"}]}"#,
                "null",
                "ipam.request[0].option: \"53\"",
            ),
            (
                "{}",
                r#"{"pools":[{},{}]}"#,
                "prevResult.pools has 2 entries",
            ),
            (
                "{}",
                r#"{"pools":[{"subnet":"10.0.0.0/8"}]}"#,
                "prevResult.pools[0] has ranges",
            ),
            (
                "{}",
                r#"{"pools":[{"owner":"vm"}]}"#,
                "prevResult.pools[0].owner: ",
            ),
            (
                "{}",
                r#"{"pools":[{"requested-ip":"10.0.0.1"}]}"#,
                "prevResult.pools[0].requested-ip: ",
            ),
        ] {
            let error = read(ipam, prev_result).unwrap_err();
            assert_eq!(error.code, cni::code::INVALID_CONFIG);
            assert!(error.msg.starts_with(message), "{error}");
        }
    }
}
