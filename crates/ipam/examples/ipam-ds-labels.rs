//! A selector: the container's label `pool`, which the runtime passes in
//! `args.cni.labels`, names the entry of `ipam.pools` that its address comes from.

use std::process::ExitCode;

use cni::{About, Call, Error, Object};
use ipam::{Selector, SelectorPlugin};

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
        let args = call.config.section("args")?.unwrap_or_default();
        let cni = args.section("args", "cni")?.unwrap_or_default();
        let labels: Vec<Object> = cni.read("args.cni", "labels")?.unwrap_or_default();
        let text = |label: &Object, key| label.required::<String>("args.cni.labels", key);
        let is_pool = |label: &&Object| text(label, "key").is_ok_and(|key| key == "pool");
        let label = labels.iter().find(is_pool);
        let label =
            label.ok_or_else(|| Error::config("args.cni.labels: there is no label pool"))?;
        let name = text(label, "value")?;

        let ipam = call.config.ipam()?;
        let pools = ipam.section("ipam", "pools")?.unwrap_or_default();
        // The user has chosen the names of the pools.
        let pool: Option<Object> = pools.read_exact("ipam.pools", &name)?;
        let mut pool =
            pool.ok_or_else(|| Error::config(format!("ipam.pools: there is no {name:?}")))?;
        pool.set("name", &name);
        Ok(vec![pool])
    }
}

fn main() -> ExitCode {
    plugin::main(&SelectorPlugin(IpamDsLabels))
}
