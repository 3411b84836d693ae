//! `ipamctl etcd import`: a catalogue of pools into etcd, in one transaction.

mod catalogue;
mod taken_away;

use anyhow::{Context, Result, bail};
use cluster::restore::{is_reconciled, read_marks, refuse_marks};
use cluster::{
    Change as EngineChange, Condition, Engine as _, EngineError, Group, Key, Kind, Read,
};
use cni::NetworkName;
use conflist::Problem;
use etcd::Engine;
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
    let mut engine = cluster.engine();
    let path = |name: &str| engine.path(&Key::Pool(name.to_owned()));
    let imported = catalogue::read(&arguments.file, path)?;
    let rows = write(&cluster, &mut engine, &imported, arguments.replace)?;
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
    engine: &mut Engine<'_>,
    imported: &[Imported],
    replaces: bool,
) -> Result<Vec<Row>> {
    // What a transaction that was sent twice may have done the first time.
    let mut sent: Option<Vec<Row>> = None;
    for _ in 0..MOST_TRIES {
        let look = Look::at(cluster, engine)?;
        let (rows, changes) = look.compare(imported, replaces)?;
        if changes.is_empty() {
            return Ok(sent.unwrap_or(rows));
        }
        look.refuse_what_is_held(cluster, engine, &changes)?;
        let change = look.change(imported, &changes);
        let outcome = engine.commit(&change).map_err(explained)?;
        if outcome.done {
            return Ok(rows);
        }
        sent = outcome.resent.then_some(rows);
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
    fn at(cluster: &EtcdCluster, engine: &mut Engine<'_>) -> Result<Self> {
        // All that is read later is this old, or newer: a change after this is found by the
        // transaction.
        engine.read(&[Read::Count(Group::Pools)])?;
        let moment = engine.moment().context("etcd answers no revision")?;
        let mut problems: Vec<Problem> = Vec::new();
        let existing = cluster.definitions(engine, &mut problems)?;
        if let Some(Problem { path, reason }) = problems.first() {
            bail!("{}: {reason}", path.display());
        }
        Ok(Self {
            revision: moment.revision,
            existing,
        })
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
        engine: &mut Engine<'_>,
        changes: &[Change<'_>],
    ) -> Result<()> {
        // Until then, it isn't known what is held.
        let marks = engine.read(&[read_marks()])?;
        refuse_marks(engine, marks.first())
            .map_err(|error| anyhow::anyhow!("nothing is written: {}", error.msg))?;
        let addresses = cluster.members(engine)?;
        let blocks = claimed_blocks(engine)?;
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
    fn change(&self, imported: &[Imported], changes: &[Change<'_>]) -> EngineChange {
        let mut change = EngineChange {
            conditions: vec![
                Condition::NoneChangedSince(Group::Pools, self.revision),
                is_reconciled(),
            ],
            ..EngineChange::default()
        };
        for redefined in changes.iter().filter(|changed| changed.old.is_some()) {
            let name = Some(redefined.name.to_string());
            for group in [Group::Addresses(name.clone()), Group::Blocks(name)] {
                let condition = Condition::NoneCreatedSince(group, self.revision);
                change.conditions.push(condition);
            }
        }
        let is_changed =
            |pool: &&Imported| changes.iter().any(|changed| *changed.name == pool.name);
        for pool in imported.iter().filter(is_changed) {
            let key = Key::Pool(pool.name.to_string());
            change.write.push((key, pool.value.clone()));
        }
        change
    }
}

/// A failure to write, with what it means.
fn explained(error: EngineError) -> anyhow::Error {
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
