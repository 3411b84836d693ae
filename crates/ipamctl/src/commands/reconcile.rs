//! `ipamctl reconcile`: claims the addresses of this node's records again, after a cluster's engine was
//! restored from an older state. May be repeated.

use std::path::PathBuf;

use anyhow::{Context as _, Error, Result, ensure};
use chain::WhenBusy;
use chain::record::{AttachmentRecord, ListedRecord, RecordState, with_locked};
use cluster::{RecordedAdd, reconcile};
use cni::Args;
use conflist::Listing;
use kubernetes::ENGINE as KUBERNETES;

use super::address_outcome::{AddressOutcome, print};
use crate::Context;
use crate::clusters::{Cluster, with_kubeconfig};
use crate::inventory::Inventory;
use crate::network::engine_of;
use crate::output::warn;

pub(crate) fn run(name: Option<&str>, context: &Context<'_>) -> Result<bool> {
    // This machine's records, also with a kubeconfig.
    let found = Listing::in_folders(&context.sources.conf_dir);
    let node = &context.node_with(found);
    let inventory = Inventory::from_records(node);
    let kubeconfig = context.sources.kubeconfig.as_ref();
    let missing = "--node is missing: the name of this node";
    ensure!(kubeconfig.is_none() || name.is_some(), missing);
    // clap would look for it only behind the command.
    let missing = "--kubeconfig is missing: --node is a name in its cluster";
    ensure!(kubeconfig.is_some() || name.is_none(), missing);
    let person = kubeconfig.zip(name);
    let unread = node.problems.iter().chain(&inventory.problems);
    let mut unread: Vec<String> = unread.map(ToString::to_string).collect();
    let mut rows = Vec::new();
    for record in &inventory.records {
        let claim = |content: &AttachmentRecord| match content.state {
            RecordState::Added => claim_again(person, record, content),
            // A DEL that has begun releases them; of an ADD that didn't end, nobody has them.
            RecordState::Adding | RecordState::Deleting => Ok(Vec::new()),
        };
        let claimed = with_locked(record, WhenBusy::Wait, claim).map_err(Error::from);
        match claimed.and_then(Option::transpose) {
            Ok(claimed) => rows.extend(claimed.into_iter().flatten()),
            Err(error) => unread.push(format!("{}: {error:#}", record.file.display())),
        }
    }
    let has_conflicts = print(&rows, context)?;
    unread.iter().for_each(warn);
    ensure!(
        unread.is_empty(),
        "the addresses of some attachments are not claimed, for the reasons above; repeat it then"
    );
    Ok(has_conflicts)
}

/// Claims the addresses of a record, by its configuration or by a person's kubeconfig.
fn claim_again(
    person: Option<(&PathBuf, &str)>,
    record: &ListedRecord,
    content: &AttachmentRecord,
) -> Result<Vec<AddressOutcome>> {
    let names = content.delegates.iter().map(|delegate| &delegate.name);
    let Some((at, engine)) = engine_of(names) else {
        return Ok(Vec::new());
    };
    let mut ipam = content.config()?.ipam()?;
    if let Some((file, node)) = person.filter(|_| engine.name() == KUBERNETES.name()) {
        ipam = with_kubeconfig(ipam, file);
        ipam.set("node", node);
    }
    let cluster = Cluster::read(engine, ipam)?;
    let node = cluster.node.as_ref().context("the node is unknown")?;
    let answer_of = |at: usize| content.delegates.get(at)?.result.as_deref();
    let add = RecordedAdd {
        network: record.network.as_str(),
        attachment: &record.attachment,
        args: &Args::parse(&content.args).unwrap_or_default(),
        since: content.added,
        given: at.checked_sub(1).and_then(answer_of),
        answer: answer_of(at),
    };
    let claimed = reconcile(&mut *cluster.open()?, node, &add)?;
    Ok(claimed.into_iter().map(AddressOutcome::restored).collect())
}
