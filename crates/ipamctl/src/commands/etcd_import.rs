//! `ipamctl etcd import`: a catalogue of pools into etcd, in one transaction.

mod catalogue;
mod taken_away;

use anyhow::{Context, Result, bail};
use cni::NetworkName;
use conflist::Problem;
use etcd::{Client, Compare, Kind, Op, Range, Txn};
use serde::Serialize;

use crate::arguments::ImportArguments;
use crate::exit_status::Status;
use crate::node::Node;
use crate::output::Output;
use crate::shared_pools::{DefinedPool, EtcdCluster, claimed_blocks};

use catalogue::Imported;
use taken_away::{Change, taken_away};

/// Times that an import looks at the pools again, because they were changed meanwhile.
const MOST_TRIES: u32 = 20;

/// Addresses and blocks that a refusal names one by one.
const NAMED: usize = 20;

/// What has become of a pool. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    pool: NetworkName,
    /// `created`, `replaced`, `unchanged`.
    outcome: &'static str,
}

pub(crate) fn run(arguments: &ImportArguments, node: &Node, output: Output) -> Result<Status> {
    let cluster = EtcdCluster::one(node, arguments.cluster.network.as_deref())?;
    let keys = &cluster.cluster.keys;
    let imported = catalogue::read(&arguments.file, |name| keys.pool(name))?;
    let mut client = cluster.client()?;
    let rows = write(&cluster, &mut client, &imported, arguments.replace)?;
    if output.json {
        Output::json(&rows)?;
    } else {
        output.lines(rows.iter().map(|it| format!("{}: {}", it.pool, it.outcome)))?;
    }
    Ok(Status::Fine)
}

/// Writes the definitions, all of them or none.
fn write(
    cluster: &EtcdCluster,
    client: &mut Client<'_>,
    imported: &[Imported],
    replaces: bool,
) -> Result<Vec<Row>> {
    // What a transaction that was sent twice may have done the first time.
    let mut sent: Option<Vec<Row>> = None;
    for _ in 0..MOST_TRIES {
        let look = Look::at(cluster, client)?;
        let (rows, changes) = look.compare(imported, replaces)?;
        if changes.is_empty() {
            return Ok(sent.unwrap_or(rows));
        }
        look.refuse_what_is_held(cluster, client, &changes)?;
        let answer = client
            .txn(&look.transaction(cluster, imported, &changes))
            .map_err(explained)?;
        if answer.succeeded {
            return Ok(rows);
        }
        sent = answer.resent.then_some(rows);
    }
    bail!(
        "nothing is written: pools, addresses or blocks were changed by others all the time; try again"
    )
}

/// The pools of etcd at one time.
struct Look {
    /// The time.
    revision: i64,
    existing: Vec<DefinedPool>,
}

impl Look {
    fn at(cluster: &EtcdCluster, client: &mut Client<'_>) -> Result<Self> {
        // All that is read later is this old, or newer: a change after this is found by the
        // transaction.
        let first = Range::prefix(cluster.cluster.keys.pools()).count_only();
        let revision = client.range(&first)?.revision;
        let mut problems: Vec<Problem> = Vec::new();
        let existing = cluster.definitions(client, &mut problems)?;
        if let Some(Problem { path, reason }) = problems.first() {
            bail!("{}: {reason}", path.display());
        }
        Ok(Self { revision, existing })
    }

    /// The outcomes, and the definitions to write.
    fn compare<'a>(
        &'a self,
        imported: &'a [Imported],
        replaces: bool,
    ) -> Result<(Vec<Row>, Vec<Change<'a>>)> {
        catalogue::refuse_overlaps(imported, &self.existing)?;
        let (mut rows, mut changes) = (Vec::new(), Vec::new());
        for it in imported {
            let known = self.existing.iter().find(|known| known.name == it.name);
            let outcome = match known {
                None => "created",
                Some(known) if known.value == it.value => "unchanged",
                Some(_) if replaces => "replaced",
                Some(_) => bail!(
                    "pool {}: etcd has another definition of it; --replace puts this one in its place",
                    it.name
                ),
            };
            rows.push(Row {
                pool: it.name.clone(),
                outcome,
            });
            if outcome != "unchanged" {
                changes.push(Change {
                    name: &it.name,
                    old: known.map(|it| &it.definition),
                    new: &it.definition,
                });
            }
        }
        Ok((rows, changes))
    }

    /// Refuses what takes something away from addresses and blocks that are held.
    fn refuse_what_is_held(
        &self,
        cluster: &EtcdCluster,
        client: &mut Client<'_>,
        changes: &[Change<'_>],
    ) -> Result<()> {
        // Until then, it isn't known what is held.
        let marks = client.range(&cluster_client::read_marks(&cluster.cluster.keys))?;
        cluster_client::refuse_marks(&cluster.cluster.keys, Some(&marks))
            .map_err(|error| anyhow::anyhow!("nothing is written: {}", error.msg))?;
        let addresses = cluster.members(client)?;
        let blocks = claimed_blocks(cluster, client)?;
        let taken = taken_away(changes, &addresses, &blocks);
        if taken.is_empty() {
            return Ok(());
        }
        let mut named = taken[..taken.len().min(NAMED)].join("\n  ");
        if taken.len() > NAMED {
            named += &format!("\n  … and {} more", taken.len() - NAMED);
        }
        bail!("nothing is written, since addresses or blocks are held:\n  {named}")
    }

    /// Writes the definitions on the condition that no pool has changed since, and that no
    /// address and no block of a pool that is redefined was added.
    fn transaction(
        &self,
        cluster: &EtcdCluster,
        imported: &[Imported],
        changes: &[Change<'_>],
    ) -> Txn {
        let keys = &cluster.cluster.keys;
        let mut txn = Txn {
            when: vec![
                Compare::none_changed_since(keys.pools(), self.revision),
                cluster_client::is_reconciled(keys),
            ],
            ..Txn::default()
        };
        for change in changes.iter().filter(|it| it.old.is_some()) {
            let name = change.name.as_str();
            for prefix in [keys.addresses(name), keys.blocks(name)] {
                let condition = Compare::none_created_since(prefix, self.revision);
                txn.when.push(condition);
            }
        }
        let is_changed = |it: &&Imported| changes.iter().any(|change| *change.name == it.name);
        for it in imported.iter().filter(is_changed) {
            let key = keys.pool(it.name.as_str());
            txn.then.push(Op::put(key, it.value.as_slice()));
        }
        txn
    }
}

/// A failure to write, with what it means.
fn explained(error: etcd::Error) -> anyhow::Error {
    let (may_have_changed, kind) = (error.may_have_changed(), error.kind);
    let is_too_large = error.msg.contains("too many operations") || error.msg.contains("too large");
    let result = Err::<(), _>(error);
    match kind {
        _ if may_have_changed => {
            result.context("it isn't known whether the pools are written, all of them or none: run the same import again")
        }
        Kind::Unable if is_too_large => result.context(
            "nothing is written: the pools are more than etcd takes in one transaction (--max-txn-ops, 128 unless set; --max-request-bytes): import the file in parts",
        ),
        _ => result.context("nothing is written"),
    }
    .expect_err("it is an error")
}
