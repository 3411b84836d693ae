//! A selector: the container's label `pool`, which the runtime passes in
//! `args.cni.labels`, names the entry of `ipam.pools` that its address comes from.

use std::process::ExitCode;

use cni::{About, Attachment, Call, Error, Object, Plugin, Reply};
use serde::Deserialize;

struct IpamDsLabels;

#[derive(Deserialize)]
struct Label {
    key: String,
    value: String,
}

/// Appends the selected pool to the pools of earlier selectors.
fn select(call: &Call<'_>) -> Result<Reply, Error> {
    let args: Object = call.config.read("args")?.unwrap_or_default();
    let cni: Object = args.read("args", "cni")?.unwrap_or_default();
    let labels: Vec<Label> = cni.read("args.cni", "labels")?.unwrap_or_default();
    let name = labels
        .into_iter()
        .find(|label| label.key == "pool")
        .map(|label| label.value)
        .ok_or_else(|| Error::config("args.cni.labels: there is no label pool"))?;

    let pools: Object = call
        .config
        .ipam()?
        .read("ipam", "pools")?
        .unwrap_or_default();
    let mut pool: Object = pools
        .read("ipam.pools", &name)?
        .ok_or_else(|| Error::config(format!("ipam.pools: there is no {name:?}")))?;
    pool.set("name", &name);

    ipam::append_pools(&call.config, [pool]).map(Reply::Result)
}

impl Plugin for IpamDsLabels {
    fn about(&self) -> About {
        About {
            name: "ipam-ds-labels",
            version: "1.0.0",
            summary: "selects the pool that the container's label names",
        }
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        select(call)
    }

    // Runtimes need not pass the labels again. The allocator finds what it has to
    // release without the pools.
    fn del(&self, _: &Attachment, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    fn check(&self, _: &Attachment, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    fn gc(&self, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    fn status(&self, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }
}

fn main() -> ExitCode {
    cni_plugin::main(&IpamDsLabels)
}
