//! Reads the addresses that a call requests, from the three places that host-local
//! reads.

use std::collections::HashSet;
use std::net::IpAddr;

use cni::{Call, Error, NetworkConfig};

use crate::parse_address;

/// A requested address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedAddress {
    /// The address, without prefix length.
    pub ip: IpAddr,
    /// Its key, or its variable: `args.cni.ips[0]`.
    pub source: String,
}

/// All requests: of `CNI_ARGS`, `args.cni.ips` and `runtimeConfig.ips`; the
/// order of host-local (`backend/allocator/config.go`). An address that is
/// requested twice counts once.
///
/// # Errors
///
/// Code 4 for `CNI_ARGS`, code 7 for the configuration, naming what is no
/// address.
pub fn requests(call: &Call<'_>) -> Result<Vec<RequestedAddress>, Error> {
    let mut requests: Vec<RequestedAddress> = of_args(call)?.into_iter().collect();
    requests.extend(of_config(&call.config)?);
    let mut seen = HashSet::new();
    requests.retain(|request| seen.insert(request.ip.to_canonical()));
    Ok(requests)
}

fn of_args(call: &Call<'_>) -> Result<Option<RequestedAddress>, Error> {
    let args = call.args()?;
    let Some(text) = args.get("IP").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let wrong = || Error::environment(format!("CNI_ARGS: IP={text:?} is no IP address"));
    let ip = parse_address(text).ok_or_else(wrong)?;
    let source = "IP of CNI_ARGS".to_owned();
    Ok(Some(RequestedAddress { ip, source }))
}

fn of_config(config: &NetworkConfig) -> Result<Vec<RequestedAddress>, Error> {
    let args = config.section("args")?.unwrap_or_default();
    let cni = args.section("args", "cni")?.unwrap_or_default();
    let runtime = config.section("runtimeConfig")?.unwrap_or_default();
    let mut requests = Vec::new();
    for (section, path) in [(cni, "args.cni"), (runtime, "runtimeConfig")] {
        let texts: Option<Vec<String>> = section.read(path, "ips")?;
        for (i, text) in texts.into_iter().flatten().enumerate() {
            let source = format!("{path}.ips[{i}]");
            let ip = parse_address(&text)
                .ok_or_else(|| Error::config(format!("{source}: {text:?} is no IP address")))?;
            requests.push(RequestedAddress { ip, source });
        }
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::Environment;

    fn requested(args: &str, config: &str) -> Result<Vec<String>, String> {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"net",{config}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let environment: Environment = [("CNI_ARGS".into(), args.into())].into_iter().collect();
        let found = requests(&Call::new(config, &environment)).map_err(|error| error.msg)?;
        let text = |request: RequestedAddress| format!("{}: {}", request.source, request.ip);
        Ok(found.into_iter().map(text).collect())
    }

    #[test]
    fn each_place_is_read_and_an_address_counts_once() {
        let config = r#""args":{"cni":{"ips":["10.0.0.6","10.0.0.5"]}},"runtimeConfig":{"ips":["fd00::5/64"]}"#;
        assert_eq!(
            requested("IP=10.0.0.5", config).unwrap(),
            [
                "IP of CNI_ARGS: 10.0.0.5",
                "args.cni.ips[0]: 10.0.0.6",
                "runtimeConfig.ips[0]: fd00::5"
            ]
        );
        assert!(requested("IP=", r#""ipam":{}"#).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_address_is_refused_by_its_place() {
        let none = r#""args":{"cni":{"ips":["x"]}}"#;
        let refused = [requested("IP=x", r#""ipam":{}"#), requested("", none)];
        let expected = [
            "CNI_ARGS: IP=\"x\" is no IP address",
            "args.cni.ips[0]: \"x\" is no IP address",
        ];
        assert_eq!(refused.map(Result::unwrap_err), expected);
    }
}
