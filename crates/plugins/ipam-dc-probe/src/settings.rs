//! The settings of a probe: the interface on the host's side, and how long to wait for answers.

use std::time::Duration;

use cni::{Error, NetworkConfig, Object};

/// The settings of a probe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The key that names the interface.
    pub(crate) key: &'static str,
    /// The interface, on the host.
    pub(crate) interface: String,
    /// True if it is the bridge of the main plugin.
    pub(crate) is_bridge: bool,
    /// `ipam.probe.count`: how often each address is asked for.
    pub(crate) count: u32,
    /// `ipam.probe.wait`: the longest wait for answers, each time.
    pub(crate) wait: Duration,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// Code 7 for a wrong key, or if the configuration doesn't tell which wire the containers are
    /// on.
    pub(crate) fn read(config: &NetworkConfig) -> Result<Self, Error> {
        let probe: Object = config.ipam()?.read("ipam", "probe")?.unwrap_or_default();
        let count = probe.read("ipam.probe", "count")?.unwrap_or(2);
        if !(1..=10).contains(&count) {
            let wrong = format!("ipam.probe.count: {count} is not a number from 1 to 10");
            return Err(Error::config(wrong));
        }
        let wait = probe.duration("ipam.probe", "wait")?;
        let bridge = bridge(config)?;
        let (key, interface) = match filled(probe.read("ipam.probe", "interface")?) {
            Some(interface) => ("ipam.probe.interface", interface),
            None => of_main_plugin(config, bridge.as_deref())?,
        };
        Ok(Self {
            key,
            is_bridge: bridge.as_ref() == Some(&interface),
            interface,
            count,
            wait: wait.unwrap_or(Duration::from_millis(150)),
        })
    }
}

/// The bridge that the main plugin makes if it is missing: the plugin `bridge` has a default name.
fn bridge(config: &NetworkConfig) -> Result<Option<String>, Error> {
    let kind: Option<String> = config.read("type")?;
    let by_default = (kind.as_deref() == Some("bridge")).then(|| "cni0".to_owned());
    Ok(filled(config.read("bridge")?).or(by_default))
}

/// The main plugin's interface, which is on the containers' wire, with its key.
fn of_main_plugin(
    config: &NetworkConfig,
    bridge: Option<&str>,
) -> Result<(&'static str, String), Error> {
    let refused = |why: String| {
        let needed = "ipam.probe.interface must name the interface that is on the containers' wire";
        Err(Error::config(format!("{why}: {needed}")))
    };
    for key in ["vlan", "vlanId"] {
        if let Some(vlan @ 1..) = config.read::<u64>(key)? {
            return refused(format!("{key}: the containers are on VLAN {vlan}"));
        }
    }
    if config.read("linkInContainer")? == Some(true) {
        return refused("linkInContainer: master isn't the host's".to_owned());
    }
    match (bridge, filled(config.read("master")?)) {
        (Some(bridge), _) => Ok(("bridge", bridge.to_owned())),
        (None, Some(master)) => Ok(("master", master)),
        (None, None) => refused("master and bridge are missing".to_owned()),
    }
}

/// The value, unless it is empty: to the main plugins, which are written in Go, that is a missing
/// one.
fn filled(value: Option<String>) -> Option<String> {
    value.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(keys: &str, probe: &str) -> Result<Settings, String> {
        let json = format!(
            r#"{{"cniVersion":"1.0.0","name":"n",{keys}"ipam":{{"type":"ipam-delegated"{probe}}}}}"#
        );
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        Settings::read(&config).map_err(|error| error.msg)
    }

    #[test]
    fn the_interface_is_the_main_plugins_unless_it_is_named() {
        let of = |keys: &str, probe: &str| {
            let settings = read(keys, probe).unwrap();
            (settings.key, settings.interface, settings.is_bridge)
        };
        let macvlan = r#""type":"macvlan","master":"eth1","#;
        let named = r#","probe":{"interface":"br7"}"#;
        let expected = |key, interface: &str, is_bridge| (key, interface.to_owned(), is_bridge);
        assert_eq!(of(macvlan, ""), expected("master", "eth1", false));
        assert_eq!(
            of(macvlan, named),
            expected("ipam.probe.interface", "br7", false)
        );
        let bridge = r#""type":"bridge","bridge":"br7","vlan":0,"#;
        assert_eq!(of(bridge, ""), expected("bridge", "br7", true));
        assert_eq!(
            of(bridge, named),
            expected("ipam.probe.interface", "br7", true)
        );
        let unnamed = r#""type":"bridge","bridge":"","#;
        assert_eq!(of(unnamed, ""), expected("bridge", "cni0", true));
    }

    #[test]
    fn a_wire_that_is_not_told_is_refused_with_the_key() {
        for (keys, first) in [
            (
                "",
                "master and bridge are missing: ipam.probe.interface must",
            ),
            (
                r#""type":"ptp","master":"","#,
                "master and bridge are missing",
            ),
            (
                r#""type":"vlan","master":"eth1","vlanId":7,"#,
                "vlanId: the containers are on VLAN 7",
            ),
            (
                r#""type":"bridge","vlan":7,"#,
                "vlan: the containers are on VLAN 7",
            ),
            (
                r#""master":"eth1","linkInContainer":true,"#,
                "linkInContainer: master isn't the host's",
            ),
        ] {
            let why = read(keys, "").unwrap_err();
            assert!(why.starts_with(first), "{why}");
            assert!(
                read(keys, r#","probe":{"interface":"eth1.7"}"#).is_ok(),
                "{keys}"
            );
        }
    }

    #[test]
    fn count_and_wait_have_defaults_and_bounds() {
        let master = r#""master":"eth1","#;
        let settings = read(master, "").unwrap();
        assert_eq!(
            (settings.count, settings.wait),
            (2, Duration::from_millis(150))
        );
        let settings = read(master, r#","probe":{"count":1,"wait":"1s"}"#).unwrap();
        assert_eq!((settings.count, settings.wait), (1, Duration::from_secs(1)));
        for (probe, first) in [
            (
                r#"{"count":0}"#,
                "ipam.probe.count: 0 is not a number from 1 to 10",
            ),
            (
                r#"{"count":11}"#,
                "ipam.probe.count: 11 is not a number from 1 to 10",
            ),
            (r#"{"count":"2"}"#, "ipam.probe.count: "),
            (r#"{"wait":"soon"}"#, "ipam.probe.wait: "),
            (r#"{"wait":"0s"}"#, "ipam.probe.wait: "),
            (r#"{"interface":7}"#, "ipam.probe.interface: "),
        ] {
            let why = read(master, &format!(r#","probe":{probe}"#)).unwrap_err();
            assert!(why.starts_with(first), "{why}");
        }
    }
}
