//! `ipamctl import`: defines the pools of a catalogue in etcd, or claims the addresses that whereabouts has
//! given to pods.

use anyhow::{Context as _, Result, anyhow, bail};
use cluster::{
    AddressKey, Held, Holder, Inventory, Remembered, Store as _, restore, until_answered,
};
use ipam::Pool;

use super::address_outcome::{AddressOutcome, print};
use crate::Context;
use crate::arguments::{ImportArguments, read_text};
use crate::clusters::{Cluster, addresses, open_kubeconfig};
use crate::output::warn;

pub(crate) fn run(arguments: &ImportArguments, context: &Context<'_>) -> Result<bool> {
    let Some(file) = &arguments.file else {
        return from_whereabouts(arguments, context);
    };
    let content = read_text(file)?;
    let pools = ipam_ds_rules::pools_of_file(&file.to_string_lossy(), content.as_bytes())?;
    let cluster = Cluster::one(context)?;
    let mut store = cluster.open_etcd()?;
    for (name, definition) in &pools {
        let definition = Pool::read(name.as_str(), definition.clone());
        let pool = definition.map_err(|error| anyhow!(error.msg))?;
        refuse_other_space(&mut store, name.as_str(), &pool)?;
    }
    for (name, definition) in &pools {
        until_answered(&mut store, |store| store.define(name.as_str(), definition))?;
    }
    let names: Vec<&str> = pools.keys().map(ipam::PoolName::as_str).collect();
    context.print(&names, || &names)?;
    Ok(false)
}

/// Refuses another space than that of the addresses that the pool has given: they would be free there.
/// The definition may have been deleted meanwhile, so the addresses say it.
fn refuse_other_space(store: &mut dyn Inventory, name: &str, pool: &Pool) -> Result<()> {
    let is_other = |held: &Held| {
        let mut holder = held.holder.iter();
        holder.any(|holder| holder.pool == name) && held.key.space != pool.space
    };
    if let Some(Held { key, .. }) = addresses(store, is_other)?.first() {
        bail!(
            "pool {name}: {key} is reserved. The space of a pool never changes while it has addresses: \
             define another pool"
        );
    }
    Ok(())
}

/// Claims the addresses of a pool for the same containers, which may run meanwhile. May be repeated.
fn from_whereabouts(arguments: &ImportArguments, context: &Context<'_>) -> Result<bool> {
    let store = &mut open_kubeconfig(context.sources.kubeconfig.as_ref())?;
    let name = arguments.pool.as_ref().context("--pool is missing")?;
    let network = arguments.network.as_ref().context("--network is missing")?;
    let definition = until_answered(store, |store| store.pool(name.as_str()))?;
    let place = store.path_of_pool(name.as_str());
    let definition = definition.with_context(|| format!("{place} is missing"))?;
    let pool = Pool::read(&place, definition).map_err(|error| anyhow!(error.msg))?;
    let (mut rows, mut is_complete) = (Vec::new(), true);
    let mut all = until_answered(store, |store| store.whereabouts())?;
    all.retain(|(ip, _)| pool.ranges.contains(*ip));
    for (ip, allocation) in all {
        let holder = match until_answered(store, |store| store.holder_of(ip, &allocation))? {
            Ok(holder) => holder,
            Err(reason) => {
                let pod = allocation.pod;
                warn(format!("{ip} of pod {pod} is not imported: {reason}"));
                is_complete = false;
                continue;
            }
        };
        let space = pool.space.clone();
        let remembered = Remembered {
            key: AddressKey { space, ip },
            holder: Holder {
                network: network.to_string(),
                pool: name.to_string(),
                ..holder
            },
        };
        let restored = restore(store, &remembered)?;
        rows.push(AddressOutcome::restored((remembered, restored)));
    }
    Ok(print(&rows, context)? || !is_complete)
}
