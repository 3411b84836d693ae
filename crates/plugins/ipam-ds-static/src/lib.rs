#![doc = include_str!("../README.md")]

use cni::{About, Call, Error, Object};
use ipam::{Selector, SelectorPlugin};

/// The selector `ipam-ds-static`: appends the pools of the configuration.
pub const IPAM_DS_STATIC: SelectorPlugin<IpamDsStatic> = SelectorPlugin(IpamDsStatic);

/// Selects the pools that `ipam.pools` lists.
#[derive(Clone, Copy, Debug)]
pub struct IpamDsStatic;

impl Selector for IpamDsStatic {
    fn about(&self) -> About {
        cni::about!()
    }

    fn pools(&self, call: &Call<'_>) -> Result<Vec<Object>, Error> {
        let ipam = call.config.ipam()?;
        let pools = ipam.read("ipam", "pools")?;
        pools.ok_or_else(|| Error::config("ipam.pools is missing: it must be an array of pools"))
    }

    /// The pools are the same for every container.
    fn status(&self, call: &Call<'_>) -> Result<(), Error> {
        self.pools(call).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::{Environment, NetworkConfig};

    fn pools(ipam: &str) -> Result<String, String> {
        let json = format!(r#"{{"cniVersion":"1.0.0","name":"n","ipam":{ipam}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let environment = Environment::default();
        let pools = IpamDsStatic.pools(&Call::new(config, &environment));
        let pools = pools.map_err(|error| error.msg)?;
        Ok(serde_json::to_string(&pools).unwrap())
    }

    #[test]
    fn the_pools_are_selected_as_they_are_written() {
        let list = r#"[{"name":"my-pool","requested-ip":"10.0.21.123","x":1.50},{"vlan":7}]"#;
        assert_eq!(
            pools(&format!(r#"{{"pools":{list}}}"#)).as_deref(),
            Ok(list)
        );
        assert_eq!(pools(r#"{"pools":[]}"#).as_deref(), Ok("[]"));
    }

    #[test]
    fn each_refusal_names_the_key() {
        for (ipam, message) in [
            ("{}", "ipam.pools is missing: it must be an array of pools"),
            (
                r#"{"pools":{"web":{}}}"#,
                "ipam.pools: invalid type: map, expected a sequence",
            ),
            (
                r#"{"pools":["web"]}"#,
                "ipam.pools[0]: invalid type: string \"web\", expected an object",
            ),
        ] {
            assert_eq!(pools(ipam).unwrap_err(), message);
        }
    }
}
