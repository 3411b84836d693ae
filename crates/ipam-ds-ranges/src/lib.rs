#![doc = include_str!("../README.md")]

mod ranges;
mod requests;

use cni::{About, Attachment, Call, Error, IpamResult, Object, Plugin, Reply};
use serde_json::value::RawValue;

use ranges::ConfiguredSet;
use requests::Request;

/// The plugin.
pub struct IpamDsRanges;

impl Plugin for IpamDsRanges {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let (pools, left_over) = pools(call)?;
        if !left_over.is_empty() {
            return Err(requests::unserved(&left_over));
        }
        reply(call.config.prev_result()?, &pools)
    }

    fn del(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let (pools, _) = pools(call)?;
        let prev_result = call.config.prev_result().unwrap_or_else(|error| {
            tracing::warn!(%error, "going on without the prevResult, so that addresses are freed");
            None
        });
        reply(prev_result, &pools)
    }

    fn check(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let (pools, _) = pools(call)?;
        reply(call.config.prev_result()?, &pools)
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let (pools, _) = pools(call)?;
        reply(call.config.prev_result()?, &pools)
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let (pools, _) = pools(call)?;
        reply(call.config.prev_result()?, &pools)
    }
}

/// The configured pools, each with the request that it is to serve, and the
/// requests that none of them serves.
fn pools(call: &Call<'_>) -> Result<(Vec<Object>, Vec<Request>), Error> {
    let ipam = call.config.ipam()?;
    let sets = ranges::configured(&call.config, &ipam)?;
    let mut requests = requests::all(call)?;
    let pools = sets
        .into_iter()
        .map(|ConfiguredSet { written, set, .. }| {
            let mut pool = Object::new();
            pool.set("ranges", &written);
            // One request a pool, as a pool yields one address.
            if let Some(i) = requests.iter().position(|r| set.contains(r.ip)) {
                let request = requests.remove(i);
                tracing::debug!(pool = %set, ip = %request.ip, by = request.source, "requested");
                pool.set("requested-ip", &request.ip.to_string());
            }
            pool
        })
        .collect();
    Ok((pools, requests))
}

/// What is in `prevResult`, with these pools after those that it has.
fn reply(prev_result: Option<IpamResult>, pools: &[Object]) -> Result<Reply, Error> {
    let mut result = prev_result.unwrap_or_default();
    let mut all: Vec<Object> = match result.other("pools") {
        Some(raw) if raw.get() != RawValue::NULL.get() => cni::read("prevResult.pools", raw)?,
        _ => Vec::new(),
    };
    all.extend_from_slice(pools);
    result.set_other("pools", &all);
    Ok(Reply::Result(result))
}
