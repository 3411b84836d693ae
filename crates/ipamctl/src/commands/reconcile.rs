//! `ipamctl reconcile`: tells an etcd that was restored what lives on this node.

mod addresses;
mod begin;
mod blocks;
mod living;
mod same_cluster;

use anyhow::{Context, Result, ensure};
use cluster_client::{Identity, LatestState};
use etcd::{Client, Compare, Op, Txn};
use serde::Serialize;

use crate::arguments::ReconcileArguments;
use crate::exit_status::Status;
use crate::node::Node;
use crate::output::{Output, warn};
use crate::shared_pools::EtcdCluster;

/// An address or a block that lives on this node. The keys are documented, and don't change
/// their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// The address, or the block.
    what: String,
    pool: String,
    /// The container, the interface and the network; `null` for a block.
    holder: Option<String>,
    /// `held`: etcd has it so; `claimed`: etcd has it again; `conflict`.
    outcome: &'static str,
    /// Of a conflict: what etcd has.
    other: Option<String>,
}

/// What etcd has of an address or a block.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Held,
    Claimed,
    Conflict(String),
}

/// The node in etcd.
struct Engine<'a> {
    cluster: &'a EtcdCluster,
    client: Client<'a>,
    identity: Identity<'a>,
}

pub(crate) fn run(arguments: &ReconcileArguments, node: &Node, output: Output) -> Result<Status> {
    let cluster = EtcdCluster::one(node, arguments.cluster.network.as_deref())?;
    let mut client = cluster.client()?;
    if arguments.begin {
        return begin::run(&cluster, &mut client, &arguments.nodes, output);
    }
    let name = cluster.cluster.node.as_str();
    let mut seen = LatestState::open(&cluster.cluster).map_err(failed)?;
    let mark_key = cluster.cluster.keys.reconcile(name);
    let mut mark = client.get(mark_key.as_str())?;
    if let Err(error) = seen.refuse_older(&cluster.cluster, &mut client) {
        warn(&error.msg);
        mark = client.get(mark_key.as_str())?;
    }
    let mut problems = Vec::new();
    let id = client
        .moment()
        .context("etcd answers no cluster ID")?
        .cluster;
    let mut same = same_cluster::SameCluster::new(&cluster, id);
    let living = living::by_records(node, name, &mut same, &mut problems);
    let identity = Identity::on(&cluster.cluster, &node.environment, &mut client);
    let mut engine = Engine {
        cluster: &cluster,
        client,
        identity: identity.map_err(failed)?,
    };
    let mut rows = blocks::claim_all(&mut engine)?;
    rows.extend(addresses::claim_all(&mut engine, &living)?);
    show(&rows, output)?;
    for problem in &problems {
        warn(problem);
    }
    let conflicts = rows.iter().filter(|it| it.other.is_some()).count();
    // A conflist that can't be read may name a folder of further records.
    let problems = problems.len() + node.problems.len();
    ensure!(
        problems == 0,
        "it isn't known what all attachments hold: {problems} records, folders or conflists can't be used now; node {name} has not said everything"
    );
    if conflicts > 0 {
        warn(&format!(
            "{conflicts} conflicts: end one of the two containers of each (here: ipamctl release; there: the same, or ipamctl node-forget for a node that is gone), then run this again"
        ));
        return Ok(Status::Found);
    }
    let mut client = engine.client;
    if let Some(mark) = mark {
        let cleared = client.txn(&Txn {
            when: vec![Compare::mod_revision(mark_key.as_str(), mark.mod_revision)],
            then: vec![Op::delete(mark_key.as_str())],
            otherwise: Vec::new(),
        })?;
        ensure!(
            cleared.succeeded || cleared.resent,
            "ipamctl reconcile --begin has run meanwhile: run this again"
        );
    }
    let rest = begin::marked(&cluster, &mut client)?;
    seen.remember(&client);
    if !rest.is_empty() {
        warn(&format!(
            "these nodes have not run ipamctl reconcile yet, and nothing new is given before they have: {}",
            rest.join(", ")
        ));
    }
    Ok(Status::Fine)
}

fn failed(error: cni::Error) -> anyhow::Error {
    anyhow::Error::msg(error.msg)
}

fn show(rows: &[Row], output: Output) -> Result<()> {
    if output.json {
        return Ok(Output::json(&rows)?);
    }
    output.lines(rows.iter().map(|it| {
        let holder = it
            .holder
            .as_ref()
            .map_or(String::new(), |it| format!(" ({it})"));
        let other = it
            .other
            .as_ref()
            .map_or(String::new(), |it| format!(": {it}"));
        format!(
            "{} of pool {}{holder}: {}{other}",
            it.what, it.pool, it.outcome
        )
    }))?;
    let claimed = rows.iter().filter(|it| it.outcome == "claimed").count();
    output.lines([format!(
        "{} addresses and blocks live here; etcd had lost {claimed} of them",
        rows.len()
    )])?;
    Ok(())
}

impl Engine<'_> {
    /// The conditions of a claim: etcd has this node's name as this machine's.
    fn conditions(&self) -> Vec<Compare> {
        vec![self.identity.is_current()]
    }

    /// Refuses if the node's name is another's by now.
    fn verify_name(&mut self) -> Result<()> {
        let found = self.client.range(&self.identity.read())?;
        let found = found.kvs.first().map(|it| it.value.as_slice());
        let verified = self.identity.verify(&mut self.client, found);
        verified.map(|_| ()).map_err(failed)
    }
}

impl Row {
    fn new(what: String, pool: &str, holder: Option<String>, outcome: Outcome) -> Self {
        let (outcome, other) = match outcome {
            Outcome::Held => ("held", None),
            Outcome::Claimed => ("claimed", None),
            Outcome::Conflict(other) => ("conflict", Some(other)),
        };
        Self {
            what,
            pool: pool.to_owned(),
            holder,
            outcome,
            other,
        }
    }
}

/// The failure of a claim that etcd has refused for no reason that is seen.
fn changes_all_the_time(what: &str) -> anyhow::Error {
    anyhow::anyhow!("{what} is changed by others all the time: run this again")
}
