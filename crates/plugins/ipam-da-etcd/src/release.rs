//! DEL, GC, and the undoing of an ADD: release what a node holds for attachments.

use std::collections::HashSet;
use std::io;
use std::time::Instant;

use cluster::{Cluster, HeldKey, Holder, Keys};
use cluster_client::Identity;
use cni::{Attachment, Call, Error, ROLLBACK, code};
use etcd::{Client, Compare, KeyValue, Op, Range, Txn};

/// Entries in a page.
const PAGE: u32 = 1000;

/// Entries that one transaction releases: each takes two comparisons.
const AT_ONCE: usize = 60;

/// Tries after which a release gives up: before each, the node was forgotten and has
/// registered again.
const MOST_TRIES: u32 = 5;

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

/// The right to release what a node holds: what etcd must have as the node's registration.
#[derive(Clone, Debug)]
pub enum Right {
    /// Exactly this machine's registration of this boot.
    Registered(Compare),
    /// None: a person has released the name.
    Forgotten,
}

/// What a release has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// So many addresses are released.
    Released(usize),
    /// Nothing more is released: etcd has this as the node's registration.
    NotOurs(Option<Vec<u8>>),
}

/// Releases the attachment's addresses, whatever pools they are of. A selector isn't needed. If
/// only an ADD is undone, an address of an earlier one, which may be in use, stays.
pub(crate) fn del(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let cluster = Cluster::read(&config.ipam()?)?;
    let mut client = cluster_client::client(&cluster, call)?;
    let Cluster { keys, node, .. } = &cluster;
    let prefix = keys.attachment(node, config.name().as_str(), attachment);
    let undone = call.environment.text(ROLLBACK);
    let is_undone = |entry: &Entry| {
        let made_by = Holder::parse(&entry.value).and_then(|it| it.call);
        undone.is_empty() || made_by.as_ref() == Some(&undone)
    };
    release_below(&mut client, &cluster, call, &prefix, is_undone)
}

/// Releases what this node holds on this network for attachments that aren't valid any more.
/// Refused if the node's name is another machine's: its attachments would be taken for stale.
pub(crate) fn gc(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let cluster = Cluster::read(&config.ipam()?)?;
    let deadline = Instant::now() + cluster.settings.timeout;
    let valid: HashSet<Attachment> = config.valid_attachments()?.into_iter().collect();
    let mut client = cluster_client::client(&cluster, call)?;
    let Cluster { keys, node, .. } = &cluster;
    let prefix = keys.network(node, config.name().as_str());
    let is_stale = |entry: &Entry| !valid.contains(&entry.held.attachment);
    release_below(&mut client, &cluster, call, &prefix, is_stale)?;
    // Of a pool that was given in blocks before: no address is given by itself until the last
    // one is given back, and a selector of blocks may not be in the chain any more.
    if has_blocks(&cluster)
        && let Err(error) = ipam_ds_etcd::give_back(call, Some(deadline))
    {
        tracing::warn!(%error, "no block is given back");
    }
    Ok(())
}

/// True unless this node has certainly never had a block.
fn has_blocks(cluster: &Cluster) -> bool {
    let folder = cluster.settings.state_dir.join("blocks");
    std::fs::metadata(folder).map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true)
}

/// Releases the entries below a prefix that are chosen. A node that holds none of them needs no
/// registration.
fn release_below(
    client: &mut Client<'_>,
    cluster: &Cluster,
    call: &Call<'_>,
    prefix: &str,
    is_chosen: impl Fn(&Entry) -> bool,
) -> Result<(), Error> {
    let Cluster { keys, node, .. } = cluster;
    let mut found = entries(client, keys, node, prefix)?;
    found.retain(&is_chosen);
    if found.is_empty() {
        return Ok(());
    }
    let mut identity = Identity::of(cluster, call, client)?;
    let released = release_as(client, &mut identity, cluster, &found)?;
    tracing::debug!(released, requests = client.requests(), "released");
    Ok(())
}

/// Releases these entries as this node; returns the number of addresses.
pub(crate) fn release_as(
    client: &mut Client<'_>,
    identity: &mut Identity<'_>,
    cluster: &Cluster,
    entries: &[Entry],
) -> Result<usize, Error> {
    let Cluster { keys, node, .. } = cluster;
    for _ in 0..MOST_TRIES {
        let right = Right::Registered(identity.is_current());
        match release(client, keys, node, entries, &right)? {
            Outcome::Released(number) => return Ok(number),
            // What was released until then isn't there any more, and isn't released again.
            Outcome::NotOurs(found) => identity.verify(client, found.as_deref())?,
        };
    }
    Err(Error::new(
        code::TRY_AGAIN_LATER,
        format!("the registration of node {node} changes all the time"),
    ))
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

/// Releases these entries, each with its address, if that is still its own, as long as the
/// right lasts.
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
    right: &Right,
) -> Result<Outcome, Error> {
    let mut released = 0;
    for batch in entries.chunks(AT_ONCE) {
        let mut txn = right.begin(keys, node);
        for entry in batch {
            entry.add_to(keys, &mut txn);
        }
        if client.txn(&txn)?.succeeded {
            released += batch.len();
            continue;
        }
        // One of them has changed, or the transaction was applied and its answer lost.
        for entry in batch {
            match release_one(client, keys, node, entry, right)? {
                Outcome::Released(number) => released += number,
                not_ours => return Ok(not_ours),
            }
        }
    }
    Ok(Outcome::Released(released))
}

impl Right {
    /// A transaction on the condition that this right lasts.
    fn begin(&self, keys: &Keys, node: &str) -> Txn {
        let condition = match self {
            Self::Registered(condition) => condition.clone(),
            Self::Forgotten => Compare::is_missing(keys.token(node)),
        };
        Txn {
            when: vec![condition],
            ..Txn::default()
        }
    }
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

/// Releases one entry; none, if its address was not its own.
fn release_one(
    client: &mut Client<'_>,
    keys: &Keys,
    node: &str,
    entry: &Entry,
    right: &Right,
) -> Result<Outcome, Error> {
    let address = entry.address(keys);
    let mut txn = right.begin(keys, node);
    entry.add_to(keys, &mut txn);
    txn.otherwise = vec![
        Op::get(Range::key(entry.key.as_slice())),
        Op::get(Range::key(address.as_str())),
    ];
    let answer = client.txn(&txn)?;
    if answer.succeeded {
        return Ok(Outcome::Released(1));
    }
    let mut found = answer.ranges().map(|it| it.kvs.first());
    let (held, now) = (found.next().flatten(), found.next().flatten());
    if held.is_none_or(|it| it.mod_revision != entry.mod_revision) {
        // It is released, or a later ADD's.
        return Ok(Outcome::Released(0));
    }
    let mut txn = right.begin(keys, node);
    if now.is_none_or(|it| it.value != entry.value) {
        // Its address is another's, and stays so; the entry alone is of no use.
        let key = entry.key.as_slice();
        txn.when
            .push(Compare::mod_revision(key, entry.mod_revision));
        txn.then.push(Op::delete(key));
        if let Some(now) = now {
            let holder = Holder::describe(&now.value);
            tracing::warn!(key = address, node, "the address is {holder}, and stays so");
        }
    } else {
        entry.add_to(keys, &mut txn);
    }
    txn.otherwise = vec![Op::get(Range::key(keys.token(node)))];
    let is_own = txn.then.len() > 1;
    let answer = client.txn(&txn)?;
    if answer.succeeded {
        return Ok(Outcome::Released(usize::from(is_own)));
    }
    let token = answer.ranges().next().and_then(|it| it.kvs.first());
    Ok(Outcome::NotOurs(token.map(|it| it.value.clone())))
}
