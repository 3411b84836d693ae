//! DEL, GC, and the undoing of an ADD: release what a node holds for attachments.

use std::collections::HashSet;

use cluster::{Cluster, HeldKey, Holder, Keys};
use cluster_client::{DiskToken, TokenError, former_names};
use cni::{Attachment, Call, Error};
use etcd::{Client, Compare, KeyValue, Op, Range, Txn};

/// Entries in a page.
const PAGE: u32 = 1000;

/// Entries that one transaction releases: each takes two comparisons.
const AT_ONCE: usize = 60;

/// What a node holds: the key below `nodes`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The network, the attachment, the pool and the address.
    pub held: HeldKey,
    /// The value, which is that of the address, too: a [`Holder`].
    pub value: Vec<u8>,
    key: Vec<u8>,
    mod_revision: i64,
}

/// Releases the attachment's addresses, whatever pools they are of. A selector isn't needed.
pub(crate) fn del(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let cluster = Cluster::read(&config.ipam()?)?;
    let mut client = cluster_client::client(&cluster, call)?;
    for named in by_own_names(&mut client, &cluster)? {
        let Cluster { keys, node, .. } = &named;
        let prefix = keys.attachment(node, config.name().as_str(), attachment);
        let entries = entries(&mut client, keys, node, &prefix)?;
        let released = release(&mut client, keys, node, &entries)?;
        tracing::debug!(released, requests = client.requests(), "released");
    }
    Ok(())
}

/// Releases what this node holds on this network for attachments that aren't valid any more.
/// Refused if the node's name is another node's: its attachments would be taken for stale.
pub(crate) fn gc(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let cluster = Cluster::read(&config.ipam()?)?;
    let valid: HashSet<Attachment> = config.valid_attachments()?.into_iter().collect();
    let mut client = cluster_client::client(&cluster, call)?;
    verify_name(&mut client, &cluster)??;
    for named in by_own_names(&mut client, &cluster)? {
        let Cluster { keys, node, .. } = &named;
        let prefix = keys.network(node, config.name().as_str());
        let mut stale = entries(&mut client, keys, node, &prefix)?;
        stale.retain(|it| !valid.contains(&it.held.attachment));
        let released = release(&mut client, keys, node, &stale)?;
        tracing::debug!(released, node, "released in all");
    }
    Ok(())
}

/// The cluster as this node, and as each node that it was before it was renamed. A former name
/// that is another node's by now is left out.
fn by_own_names(client: &mut Client<'_>, cluster: &Cluster) -> Result<Vec<Cluster>, Error> {
    let mut all = vec![cluster.clone()];
    for node in former_names(cluster) {
        let named = Cluster {
            node,
            ..cluster.clone()
        };
        match verify_name(client, &named)? {
            Ok(()) => all.push(named),
            Err(_) => {
                let node = named.node;
                tracing::warn!(
                    node,
                    "this node's former name is another node's now: what it holds stays"
                );
            }
        }
    }
    Ok(all)
}

/// Refuses a name that etcd has as another node's.
fn verify_name(
    client: &mut Client<'_>,
    cluster: &Cluster,
) -> Result<Result<(), TokenError>, Error> {
    let token = DiskToken::open(cluster)?;
    let answer = client.range(&token.read())?;
    let found = answer.kvs.first().map(|it| it.value.as_slice());
    Ok(token.verify(found, &cluster.node))
}

/// The entries below a prefix of the node's keys. Foreign keys are logged and left alone.
///
/// # Errors
///
/// Those of etcd.
pub fn entries(
    client: &mut Client<'_>,
    keys: &Keys,
    node: &str,
    prefix: &str,
) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    client.pages::<Error>(prefix, PAGE, false, |_, page| {
        for KeyValue {
            key,
            value,
            mod_revision,
            ..
        } in page
        {
            match keys.parse_held(node, &key) {
                Some(held) => entries.push(Entry {
                    held,
                    value,
                    key,
                    mod_revision,
                }),
                None => {
                    let key = String::from_utf8_lossy(&key);
                    tracing::warn!(%key, "this key isn't ours; it is left alone");
                }
            }
        }
        Ok(())
    })?;
    Ok(entries)
}

/// Releases these entries, each with its address, if that is still its own; returns the
/// number of addresses.
///
/// Each is compared with what was read, so that a release that reaches etcd late, or twice,
/// never removes what a later ADD has reserved.
///
/// # Errors
///
/// Those of etcd.
pub fn release(
    client: &mut Client<'_>,
    keys: &Keys,
    node: &str,
    entries: &[Entry],
) -> Result<usize, Error> {
    let mut released = 0;
    for batch in entries.chunks(AT_ONCE) {
        let mut txn = Txn::default();
        for entry in batch {
            entry.add_to(keys, &mut txn);
        }
        if client.txn(&txn)?.succeeded {
            released += batch.len();
            continue;
        }
        // One of them has changed, or the transaction was applied and its answer lost.
        for entry in batch {
            released += usize::from(release_one(client, keys, node, entry)?);
        }
    }
    Ok(released)
}

impl Entry {
    fn address(&self, keys: &Keys) -> String {
        keys.address(self.held.pool.as_str(), self.held.ip)
    }

    fn add_to(&self, keys: &Keys, txn: &mut Txn) {
        let address = self.address(keys);
        let key = self.key.as_slice();
        txn.when.push(Compare::mod_revision(key, self.mod_revision));
        txn.when
            .push(Compare::value(address.as_str(), self.value.as_slice()));
        txn.then.push(Op::delete(key));
        txn.then.push(Op::delete(address));
    }
}

/// Releases one entry; false if its address was not its own.
fn release_one(
    client: &mut Client<'_>,
    keys: &Keys,
    node: &str,
    entry: &Entry,
) -> Result<bool, Error> {
    let address = entry.address(keys);
    let mut txn = Txn::default();
    entry.add_to(keys, &mut txn);
    txn.otherwise = vec![
        Op::get(Range::key(entry.key.as_slice())),
        Op::get(Range::key(address.as_str())),
    ];
    let answer = client.txn(&txn)?;
    if answer.succeeded {
        return Ok(true);
    }
    let mut found = answer.ranges().map(|it| it.kvs.first());
    let (held, now) = (found.next().flatten(), found.next().flatten());
    if held.is_none_or(|it| it.mod_revision != entry.mod_revision) {
        // It is released, or a later ADD's.
        return Ok(false);
    }
    if let Some(now) = now {
        let holder = Holder::describe(&now.value);
        tracing::warn!(key = address, node, "the address is {holder}, and stays so");
    }
    client.txn(&Txn {
        when: vec![Compare::mod_revision(
            entry.key.as_slice(),
            entry.mod_revision,
        )],
        then: vec![Op::delete(entry.key.as_slice())],
        otherwise: Vec::new(),
    })?;
    Ok(false)
}
