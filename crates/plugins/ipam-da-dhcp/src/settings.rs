//! The settings of a DHCP client: `ipam.dhcp`, the reference plugin's `provide`, `request` and
//! `priority`, and the keys of a pool.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use cni::{Attachment, Call, Error, Object};
use ipam::{Facts, Pool, Pools};

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
    /// Code 7, naming the key and the value: an unknown option or family, or one family twice;
    /// several pools, a pool with ranges or with a key that only a chooser of addresses can honour.
    pub(crate) fn read(call: &Call<'_>, attachment: &Attachment) -> Result<Self, Error> {
        Self::with_pools(Pools::of_call(&call.config)?, call, attachment)
    }

    /// Reads the settings of a call for an attachment, with these pools.
    pub(crate) fn with_pools(
        pools: Pools,
        call: &Call<'_>,
        attachment: &Attachment,
    ) -> Result<Self, Error> {
        let ipam = call.config.ipam()?;
        let dhcp = ipam.section("ipam", "dhcp")?.unwrap_or_default();
        dhcp.expect_only("ipam.dhcp", &["families", "timeout"])?;
        let families: Option<Vec<String>> = dhcp.read("ipam.dhcp", "families")?;
        let families = families.unwrap_or_else(|| vec!["4".to_owned()]);
        if families.is_empty() {
            let why = "ipam.dhcp.families is []: it must list \"4\", \"6\" or both";
            return Err(Error::config(why));
        }
        if let Some(twice) = (1..families.len()).find(|at| families[..*at].contains(&families[*at]))
        {
            let family = &families[twice];
            let why = format!("ipam.dhcp.families[{twice}]: {family:?} is there twice");
            return Err(Error::config(why));
        }
        let pool = only_pool(pools)?;
        let facts = Facts::of(call)?;
        let mut provide = BTreeMap::new();
        let mut request = REQUESTED.to_vec();
        for (path, object) in [("ipam", &ipam), (POOL, &pool)] {
            add_provided(path, object, &facts, &mut provide)?;
            add_requested(path, object, &mut request)?;
        }
        let sticky: Option<String> = pool.read(POOL, "sticky")?;
        let (network, sticky) = (call.config.name(), sticky.as_deref());
        let client = Client::new(network, attachment, sticky, provide, request);
        let clients = families
            .iter()
            .enumerate()
            .map(|(i, family)| match &**family {
                "4" => Ok((Ipv4Addr::UNSPECIFIED.into(), client.clone())),
                "6" => Ok((Ipv6Addr::UNSPECIFIED.into(), client.in_v6())),
                _ => Err(Error::config(format!(
                    "ipam.dhcp.families[{i}]: {family:?} is neither \"4\" nor \"6\""
                ))),
            });
        Ok(Self {
            clients: clients.collect::<Result<_, _>>()?,
            timeout: dhcp.duration("ipam.dhcp", "timeout")?.unwrap_or(TIMEOUT),
            priority: ipam.read("ipam", "priority")?,
        })
    }
}

/// The pool of these; an empty object without one.
fn only_pool(pools: Pools) -> Result<Object, Error> {
    let mut pools = pools.into_entries();
    let count = pools.len();
    let pool = pools.pop().unwrap_or_default();
    let key = REFUSED.iter().find(|key| pool.get(key).is_some());
    let refused = match key {
        _ if count > 1 => format!("prevResult.pools has {count} entries"),
        _ if Pool::has_ranges(&pool) => format!("{POOL} has ranges"),
        Some(key) => format!("{POOL}.{key}"),
        None => return Ok(pool),
    };
    let why = "a DHCP server gives one address, and chooses it";
    Err(Error::config(format!("{refused}: {why}")))
}

/// Adds the options of an object's `provide`. A fact wins over `value`; an empty value isn't sent.
fn add_provided(
    path: &str,
    object: &Object,
    facts: &Facts,
    provide: &mut BTreeMap<u8, String>,
) -> Result<(), Error> {
    let entries: Vec<Object> = object.read(path, "provide")?.unwrap_or_default();
    for (i, entry) in entries.iter().enumerate() {
        let path = format!("{path}.provide[{i}]");
        let option: String = entry.required(&path, "option")?;
        let number = number(&path, &option)?;
        let named: Option<String> = entry.read(&path, "fromArg")?;
        let fact = named.and_then(|name| facts.get(&name).map(str::to_owned));
        let value = fact.or(entry.read(&path, "value")?);
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            provide.insert(number, value);
        }
    }
    Ok(())
}

/// Adds the options of an object's `request`, in the place of the earlier ones with `skipDefault`.
fn add_requested(path: &str, object: &Object, request: &mut Vec<u8>) -> Result<(), Error> {
    let entries: Vec<Object> = object.read(path, "request")?.unwrap_or_default();
    let mut more = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let path = format!("{path}.request[{i}]");
        if entry.read(&path, "skipDefault")?.unwrap_or(false) {
            request.clear();
        }
        let option: Option<String> = entry.read(&path, "option")?;
        if let Some(option) = option.filter(|option| !option.is_empty()) {
            more.push(number(&path, &option)?);
        }
    }
    request.extend(more);
    Ok(())
}

/// The number of an option, by its name or its number.
fn number(path: &str, option: &str) -> Result<u8, Error> {
    let named = NAMES.iter().find(|(name, _)| *name == option);
    let number = named.map_or_else(|| option.parse().ok(), |(_, number)| Some(*number));
    // 0 and 255 pad and end the list; 53 is the kind of message.
    let may_be_sent = |number: &u8| ![0, 53, 255].contains(number);
    number.filter(may_be_sent).ok_or_else(|| {
        let names = NAMES.map(|(name, _)| name).join(", ");
        Error::config(format!(
            "{path}.option: {option:?} is neither an option's number nor one of {names}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::{Environment, NetworkConfig};

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
                "ipam.dhcp.families[0]: \"5\" is neither",
            ),
            (
                r#"{"dhcp":{"families":["4","4"]}}"#,
                "null",
                "ipam.dhcp.families[1]: \"4\" is there twice",
            ),
            (
                r#"{"dhcp":{"family":["6"]}}"#,
                "null",
                "ipam.dhcp.family: there is no such key",
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
