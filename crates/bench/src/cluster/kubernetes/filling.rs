//! Reserves addresses before a measurement. Copies in etcd an address that the API server has
//! written: creations through the API would take minutes.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use cni::Object;
use etcd::{Client, Op, Range, Settings, Txn};
use kubernetes::Resource;
use serde_json::{Value, json};

use super::counters::ETCD;
use super::target::Kubernetes;
use crate::cluster::interrupt;
use crate::cluster::target::Target;

/// Operations of a transaction: half of etcd's limit.
const OPERATIONS: usize = 64;

/// The prefix of addresses in the API server's etcd.
const ADDRESSES: &str = "/registry/ipam-delegated.io/addresses/";

/// Settings of a client of the API server's etcd.
pub(super) fn settings() -> Result<Settings> {
    let etcd = json!({"etcd": {"endpoints": [format!("http://{ETCD}")], "timeout": "60s"}});
    let ipam: Object = serde_json::from_value(etcd)?;
    Settings::read(&ipam).map_err(|error| anyhow!("{error}"))
}

/// An address from a bare creation, as the API server stores it in etcd.
pub(super) fn stored_address(client: &mut Client<'_>) -> Result<Value> {
    let found = client.range(&Range {
        limit: 1,
        ..Range::between(format!("{ADDRESSES}bare."), format!("{ADDRESSES}bare/"))
    });
    let found = found.map_err(|error| anyhow!("{error}"))?.kvs;
    let first = found.first().context("no address was created yet")?;
    Ok(serde_json::from_slice(&first.value)?)
}

/// Reserves this number of addresses of `10.NET.0.0/16` in this pool, beginning with the first, and
/// waits until the API server has all of them in its cache.
pub(super) fn fill(target: &Kubernetes, pool: &str, net: u8, count: u32) -> Result<()> {
    let settings = settings()?;
    let reached: &dyn Target = target;
    reached.inside(|| {
        let mut client = Client::new(&settings, None);
        let template = stored_address(&mut client)?;
        let mut ops = Vec::with_capacity(OPERATIONS);
        // The first address is .0.2, because .0.1 is the gateway.
        for n in 2..count + 2 {
            let object = address(&template, pool, net, n);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            ops.push(Op::put(format!("{ADDRESSES}{name}"), object.to_string()));
            if ops.len() < OPERATIONS && n < count + 1 {
                continue;
            }
            let txn = Txn {
                then: std::mem::take(&mut ops),
                ..Txn::default()
            };
            client.txn(&txn).map_err(|error| anyhow!("{error}"))?;
            // A client has one time limit for all of its requests, so a new client is used.
            if n % 4096 < OPERATIONS as u32 {
                interrupt::check()?;
                client = Client::new(&settings, None);
            }
        }
        wait_until_seen(target, pool, count)
    })
}

/// The address with this number. Another node holds it.
fn address(template: &Value, pool: &str, net: u8, n: u32) -> Value {
    let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, net, 0, 0)) + n);
    let [_, _, third, _] = ip.octets();
    let ip = ip.to_string();
    let mut object = template.clone();
    let metadata = &mut object["metadata"];
    metadata["name"] = format!("{pool}.{ip}").into();
    metadata["uid"] = format!(
        "00000000-0000-4000-8000-{:012x}",
        u64::from(n) << 16 | u64::from(fastrand::u16(..))
    )
    .into();
    metadata["labels"]["ipam-delegated.io/pool"] = pool.into();
    metadata["labels"]["ipam-delegated.io/prefix"] = format!("10.{net}.{third}.0-24").into();
    metadata["labels"]["ipam-delegated.io/node"] = "another-node".into();
    let spec = &mut object["spec"];
    spec["pool"] = pool.into();
    spec["node"] = "another-node".into();
    spec["ip"] = ip.into();
    spec["containerID"] = format!("{n:064x}").into();
    object
}

fn wait_until_seen(target: &Kubernetes, pool: &str, count: u32) -> Result<()> {
    let labels = format!("ipam-delegated.io/pool={pool}");
    loop {
        let listed = target.client().list(Resource::Address, Some(&labels), true);
        let listed = listed.map_err(|error| anyhow!("{error}"))?;
        if listed.items.len() == count as usize {
            return Ok(());
        }
        sleep(Duration::from_secs(1));
    }
}
