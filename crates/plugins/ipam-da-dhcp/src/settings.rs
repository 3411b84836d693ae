//! The settings of a DHCP client: `ipam.dhcp`, the reference plugin's `provide`, `request` and
//! `priority`, and the keys of a pool.

use std::collections::BTreeMap;
use std::time::Duration;

use cni::{Args, Attachment, Error, NetworkConfig, Object};
use ipam::{Pool, Pools};
use serde::Deserialize;

use crate::identity::Identity;

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

/// The number of the option "client identifier".
pub(crate) const CLIENT_ID: u8 = 61;

/// Keys of a pool that only a chooser of addresses can honour, which is the server here.
const REFUSED: [&str; 4] = ["owner", "requested-ip", "exclude", "or"];

/// A family of addresses, as `ipam.dhcp.families` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Family {
    /// DHCP.
    #[serde(rename = "4")]
    V4,
    /// DHCPv6.
    #[serde(rename = "6")]
    V6,
}

/// The settings of one attachment's client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `ipam.dhcp.families`.
    pub families: Vec<Family>,
    /// `ipam.dhcp.timeout`: the longest that ADD waits for servers.
    pub timeout: Duration,
    /// `ipam.priority`: the metric of the server's routes.
    pub priority: Option<u32>,
    /// Who asks.
    pub identity: Identity,
    /// Options that are sent, by number.
    pub(crate) provided: BTreeMap<u8, Vec<u8>>,
    /// Numbers of the options that are requested.
    pub(crate) requested: Vec<u8>,
}

impl Settings {
    /// Reads the settings of an attachment: `config` has the `prevResult` that the plugin is given.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value: an unknown option or family, a value of more than
    /// 255 bytes, several pools, a pool with ranges or with a key that only a chooser of addresses
    /// can honour.
    pub fn read(
        config: &NetworkConfig,
        args: &Args,
        attachment: &Attachment,
    ) -> Result<Self, Error> {
        let ipam = config.ipam()?;
        let dhcp: Object = ipam.read("ipam", "dhcp")?.unwrap_or_default();
        let families: Option<Vec<Family>> = dhcp.read("ipam.dhcp", "families")?;
        let families = families.unwrap_or_else(|| vec![Family::V4]);
        if families.is_empty() {
            let why = "ipam.dhcp.families is []: it must list \"4\", \"6\" or both";
            return Err(Error::config(why));
        }
        let pool = pool(config)?;
        let mut options = Options {
            facts: facts(config, args, attachment)?,
            provided: BTreeMap::new(),
            requested: REQUESTED.to_vec(),
        };
        options.read("ipam", &ipam)?;
        options.read("prevResult.pools[0]", &pool)?;
        let sticky: Option<String> = pool.read("prevResult.pools[0]", "sticky")?;
        let provided_id = options.provided.get(&CLIENT_ID).cloned();
        Ok(Self {
            families,
            timeout: dhcp.duration("ipam.dhcp", "timeout")?.unwrap_or(TIMEOUT),
            priority: ipam.read("ipam", "priority")?,
            identity: Identity::new(config.name(), attachment, sticky.as_deref(), provided_id),
            provided: options.provided,
            requested: options.requested,
        })
    }
}

/// The pool of the call; an empty object without one.
fn pool(config: &NetworkConfig) -> Result<Object, Error> {
    let mut pools = Pools::of_call(config)?.into_entries();
    let refused = |why: String| Err(Error::config(format!("prevResult.pools{why}")));
    if pools.len() > 1 {
        let count = pools.len();
        return refused(format!(
            " has {count} entries: a DHCP server gives one address"
        ));
    }
    let Some(pool) = pools.pop() else {
        return Ok(Object::new());
    };
    if Pool::has_ranges(&pool) {
        return refused("[0] has ranges: a DHCP server chooses the address".to_owned());
    }
    if let Some(key) = REFUSED.iter().find(|key| pool.get(key).is_some()) {
        return refused(format!("[0].{key}: a DHCP server chooses the address"));
    }
    Ok(pool)
}

/// What `fromArg` may name: keys of `CNI_ARGS`, the call's own names, and the facts of earlier
/// delegates, which win.
fn facts(
    config: &NetworkConfig,
    args: &Args,
    attachment: &Attachment,
) -> Result<BTreeMap<String, String>, Error> {
    let own = [
        ("containerID", attachment.container_id.as_str()),
        ("ifname", attachment.ifname.as_str()),
        ("network", config.name().as_str()),
    ];
    let said = args.iter().chain(own);
    let mut all: BTreeMap<String, String> = said
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let prev_result = config.prev_result()?;
    if let Some(raw) = prev_result
        .as_ref()
        .and_then(|result| result.other("facts"))
    {
        let found: BTreeMap<String, Option<String>> = cni::read("prevResult.facts", raw)?;
        let known = found.into_iter();
        all.extend(known.filter_map(|(key, value)| Some((key, value?))));
    }
    Ok(all)
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
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    #[serde(default)]
    skip_default: bool,
    option: Option<String>,
}

/// Options that are sent and requested.
struct Options {
    facts: BTreeMap<String, String>,
    provided: BTreeMap<u8, Vec<u8>>,
    requested: Vec<u8>,
}

impl Options {
    /// Adds those of an object's `provide` and `request`.
    fn read(&mut self, path: &str, object: &Object) -> Result<(), Error> {
        let provide: Vec<Provide> = object.read(path, "provide")?.unwrap_or_default();
        for (i, entry) in provide.into_iter().enumerate() {
            let path = format!("{path}.provide[{i}]");
            let number = number(&path, &entry.option)?;
            let named = entry.from_arg.and_then(|key| self.facts.get(&key).cloned());
            let Some(value) = named.or(entry.value).filter(|value| !value.is_empty()) else {
                continue;
            };
            if value.len() > usize::from(u8::MAX) {
                let why = format!("{path}: {value:?} is longer than 255 bytes");
                return Err(Error::config(why));
            }
            self.provided.insert(number, value.into_bytes());
        }
        let request: Vec<Request> = object.read(path, "request")?.unwrap_or_default();
        if request.iter().any(|entry| entry.skip_default) {
            self.requested.clear();
        }
        for (i, entry) in request.into_iter().enumerate() {
            let Some(option) = entry.option.filter(|option| !option.is_empty()) else {
                continue;
            };
            let number = number(&format!("{path}.request[{i}]"), &option)?;
            if !self.requested.contains(&number) {
                self.requested.push(number);
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

    fn read(ipam: &str, prev_result: &str) -> Result<Settings, Error> {
        let json = format!(
            r#"{{"cniVersion":"1.0.0","name":"lan","ipam":{ipam},"prevResult":{prev_result}}}"#
        );
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let args = Args::parse("K8S_POD_NAME=web-0;EMPTY=").unwrap();
        Settings::read(&config, &args, &attachment())
    }

    fn attachment() -> Attachment {
        Attachment {
            container_id: "c1".parse().unwrap(),
            ifname: "net1".parse().unwrap(),
        }
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
        assert_eq!(settings.families, [Family::V4, Family::V6]);
        assert_eq!(settings.timeout, Duration::from_secs(3));
        assert_eq!(settings.requested, [3, 42]);
        let provided = [(12, b"web-0".to_vec()), (60, b"shop".to_vec())];
        assert_eq!(settings.provided, BTreeMap::from(provided));
        let default = read("{}", "null").unwrap();
        assert_eq!(default.families, [Family::V4]);
        assert_eq!(default.requested, REQUESTED);
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
