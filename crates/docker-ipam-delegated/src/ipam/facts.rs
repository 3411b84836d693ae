//! Facts for a chain, in `CNI_ARGS`: the options that Docker was given, and the name of the
//! container.

use anyhow::{Result, bail};
use docker_records::pool::Options;

/// The option that names the network configuration. It is no fact.
const CONFLIST: &str = "conflist";

/// The option in which Docker 29 passes the container's name (`netlabel.EndpointName`).
const NAME_OPTION: &str = "com.docker.network.endpoint.name";

/// The fact that has this name.
const NAME: &str = "name";

/// The option in which Docker names the purpose of an address
/// (`ipamapi.RequestAddressType`), and its value for a gateway (`netlabel.Gateway`).
const TYPE_OPTION: &str = "RequestAddressType";
const GATEWAY: &str = "com.docker.network.gateway";

/// Keys of `CNI_ARGS` that have a meaning for plugins, so that they can't be facts.
const RESERVED: [&str; 4] = ["IP", "MAC", "GATEWAY", "IgnoreUnknown"];

/// The name of the network configuration, and the facts, out of a network's options.
///
/// # Errors
///
/// An option can't be expressed in `CNI_ARGS`.
pub(crate) fn of_network(mut options: Options) -> Result<(Option<String>, Options)> {
    let conflist = options.remove(CONFLIST).filter(|name| !name.is_empty());
    for (key, value) in &options {
        if RESERVED.contains(&key.as_str()) {
            bail!("option {key}={value}: {key} is a reserved key of CNI_ARGS");
        }
        if key.is_empty() || [key, value].iter().any(|text| text.contains([';', '='])) {
            bail!(
                "option {key:?}={value:?}: the key may not be empty; neither may have ';' or '='"
            );
        }
    }
    Ok((conflist, options))
}

/// True if Docker asks for the address of a gateway.
pub(crate) fn is_for_gateway(options: &Options) -> bool {
    options.get(TYPE_OPTION).is_some_and(|kind| kind == GATEWAY)
}

/// `CNI_ARGS` of an address or endpoint of the container of this name. An option of the network
/// has precedence over it.
pub(crate) fn cni_args(options: &Options, name: Option<&str>) -> String {
    let mut args = "IgnoreUnknown=1".to_owned();
    for (key, value) in options {
        args += &format!(";{key}={value}");
    }
    if let Some(name) = name.filter(|_| !options.contains_key(NAME)) {
        args += &format!(";{NAME}={name}");
    }
    args
}

/// The name of the container, in the options of an address; `None` before Docker 29.
pub(crate) fn name(options: &Options) -> Option<&str> {
    let name = options.get(NAME_OPTION).map(String::as_str);
    name.filter(|name| !name.is_empty() && !name.contains([';', '=']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Options {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_networks_options_are_facts_of_its_containers() {
        let (conflist, facts) =
            of_network(options(&[("conflist", "web"), ("team", "shop")])).unwrap();
        assert_eq!(conflist.as_deref(), Some("web"));
        let endpoint = options(&[(NAME_OPTION, "web-1"), ("other", "x;y")]);
        assert_eq!(
            cni_args(&facts, name(&endpoint)),
            "IgnoreUnknown=1;team=shop;name=web-1"
        );
        let named = options(&[("name", "own")]);
        assert_eq!(cni_args(&named, Some("web")), "IgnoreUnknown=1;name=own");
        assert_eq!(name(&options(&[(NAME_OPTION, "x;IP=1")])), None);
    }

    #[test]
    fn an_option_that_would_be_more_than_a_fact_is_refused() {
        for (key, value) in [("IP", "10.0.0.1"), ("a;b", "c"), ("a", "b=c"), ("", "x")] {
            assert!(of_network(options(&[(key, value)])).is_err(), "{key}");
        }
    }

    #[test]
    fn a_gateway_is_asked_for_by_its_type() {
        assert!(is_for_gateway(&options(&[(TYPE_OPTION, GATEWAY)])));
        assert!(!is_for_gateway(&options(&[(NAME_OPTION, "web")])));
    }
}
