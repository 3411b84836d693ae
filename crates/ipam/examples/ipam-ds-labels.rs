//! A selector: the container's label `pool`, which the runtime passes in
//! `args.cni.labels`, names the entry of `ipam.pools` that its address comes from.

use std::process::ExitCode;

use cni::{About, Call, Error, Object};
use ipam::{Selector, SelectorPlugin};
use serde::Deserialize;

struct IpamDsLabels;

#[derive(Deserialize)]
struct Label {
    key: String,
    value: String,
}

impl Selector for IpamDsLabels {
    fn about(&self) -> About {
        About {
            name: "ipam-ds-labels",
            version: "1.0.0",
            summary: "selects the pool that the container's label names",
        }
    }

    fn pools(&self, call: &Call<'_>) -> Result<Vec<Object>, Error> {
        let args: Object = call.config.read("args")?.unwrap_or_default();
        let cni: Object = args.read("args", "cni")?.unwrap_or_default();
        let labels: Vec<Label> = cni.read("args.cni", "labels")?.unwrap_or_default();
        let label = labels.into_iter().find(|label| label.key == "pool");
        let name = label
            .ok_or_else(|| Error::config("args.cni.labels: there is no label pool"))?
            .value;

        let ipam = call.config.ipam()?;
        let pools: Object = ipam.read("ipam", "pools")?.unwrap_or_default();
        let pool: Option<Object> = pools.read("ipam.pools", &name)?;
        let mut pool =
            pool.ok_or_else(|| Error::config(format!("ipam.pools: there is no {name:?}")))?;
        pool.set("name", &name);
        Ok(vec![pool])
    }
}

fn main() -> ExitCode {
    plugin::main(&SelectorPlugin(IpamDsLabels))
}
