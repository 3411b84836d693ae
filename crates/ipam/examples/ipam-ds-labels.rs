//! A selector: the container's label `pool` names the entry of `ipam.pools` that its address comes
//! from.

use std::process::ExitCode;

use cni::{About, Call, Error, Object};
use ipam::{Facts, Selector, SelectorPlugin};

struct IpamDsLabels;

impl Selector for IpamDsLabels {
    fn about(&self) -> About {
        About {
            name: "ipam-ds-labels",
            version: "1.0.0",
            summary: "selects the pool that the container's label names",
        }
    }

    fn pools(&self, call: &Call<'_>) -> Result<Vec<Object>, Error> {
        let facts = Facts::of(call)?;
        let name = facts.get("label:pool");
        let name = name.ok_or_else(|| Error::config("there is no label pool"))?;

        let ipam = call.config.ipam()?;
        let pools = ipam.section("ipam", "pools")?.unwrap_or_default();
        // The user has chosen the names of the pools.
        let pool: Option<Object> = pools.read_exact("ipam.pools", name)?;
        let mut pool =
            pool.ok_or_else(|| Error::config(format!("ipam.pools: there is no {name:?}")))?;
        pool.set("name", name);
        Ok(vec![pool])
    }
}

fn main() -> ExitCode {
    plugin::main(&SelectorPlugin(IpamDsLabels))
}
