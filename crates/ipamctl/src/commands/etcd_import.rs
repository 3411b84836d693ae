//! `ipamctl etcd import`: a catalogue of pools into etcd.

use std::io::Read;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};
use cluster::Definition;
use cni::{NetworkName, Object};
use conflist::Problem;
use etcd::{Compare, Op, Txn};
use ipam::Disjoint;
use serde::Serialize;

use crate::arguments::ImportArguments;
use crate::commands::Status;
use crate::node::Node;
use crate::output::Output;
use crate::shared_pools::{DefinedPool, EtcdCluster};

/// Definitions in a transaction.
const AT_ONCE: usize = 100;

/// What has become of a pool. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    pool: NetworkName,
    /// `created`, `replaced`, `unchanged`.
    outcome: &'static str,
}

/// A pool of the file.
struct Imported {
    name: NetworkName,
    value: Vec<u8>,
    definition: Definition,
}

pub(crate) fn run(arguments: &ImportArguments, node: &Node, output: Output) -> Result<Status> {
    let cluster = EtcdCluster::one(node, arguments.cluster.network.as_deref())?;
    let keys = &cluster.cluster.keys;
    let imported = read(&arguments.file, |name| keys.pool(name))?;
    let mut problems: Vec<Problem> = Vec::new();
    let mut client = cluster.client()?;
    let existing = cluster.definitions(&mut client, &mut problems)?;
    if let Some(Problem { path, reason }) = problems.first() {
        bail!("{}: {reason}", path.display());
    }
    refuse_overlaps(&imported, &existing)?;
    let mut rows = Vec::new();
    let mut transactions: Vec<Txn> = Vec::new();
    let mut added = 0;
    for it in &imported {
        let key = keys.pool(it.name.as_str());
        let known = existing.iter().find(|known| known.name == it.name);
        let outcome = match known {
            None => "created",
            Some(known) if known.value == it.value => "unchanged",
            Some(_) if arguments.replace => "replaced",
            Some(_) => bail!(
                "pool {}: etcd has another definition of it; --replace puts this one in its place",
                it.name
            ),
        };
        rows.push(Row {
            pool: it.name.clone(),
            outcome,
        });
        if outcome == "unchanged" {
            continue;
        }
        if added % AT_ONCE == 0 {
            transactions.push(Txn::default());
        }
        added += 1;
        let txn = transactions.last_mut().expect("one was pushed");
        txn.when.push(match known {
            None => Compare::is_missing(key.as_str()),
            Some(known) => Compare::mod_revision(key.as_str(), known.mod_revision),
        });
        txn.then.push(Op::put(key, it.value.as_slice()));
    }
    for txn in transactions {
        let answer = client.txn(&txn)?;
        // Sent again after its answer was lost, it finds its own keys.
        ensure!(
            answer.succeeded || answer.resent,
            "the pools in etcd were changed meanwhile; nothing more is written: try again"
        );
    }
    if output.json {
        Output::json(&rows)?;
    } else {
        output.lines(rows.iter().map(|it| format!("{}: {}", it.pool, it.outcome)))?;
    }
    Ok(Status::Fine)
}

/// The pools of a file: `{"pools": {NAME: {…}}}`, or the inner object by itself.
fn read(file: &Path, key: impl Fn(&str) -> String) -> Result<Vec<Imported>> {
    let shown = file.display();
    let text = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("stdin")?;
        text
    } else {
        fs::read_to_string(file).with_context(|| shown.to_string())?
    };
    let object: Object = serde_json::from_str(&text).with_context(|| shown.to_string())?;
    let pools: Option<Object> = object
        .read("", "pools")
        .map_err(|error| anyhow::anyhow!("{shown}: {}", error.msg))?;
    let pools = pools.unwrap_or(object);
    let mut imported = Vec::new();
    for name in pools.keys() {
        let parsed: NetworkName = name
            .parse()
            .map_err(|error| anyhow::anyhow!("{shown}: {name:?} can't name a pool: {error}"))?;
        ensure!(
            imported.iter().all(|it: &Imported| it.name != parsed),
            "{shown}: pool {name} is defined twice"
        );
        let value = pools.get(name).map_or("", |raw| raw.get()).as_bytes();
        let definition = Definition::parse(&key(name), value)
            .map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
        imported.push(Imported {
            name: parsed,
            value: value.to_vec(),
            definition,
        });
    }
    ensure!(!imported.is_empty(), "{shown} has no pools");
    Ok(imported)
}

/// Refuses pools that overlap with each other or with those in etcd that stay: an address
/// would be given twice.
fn refuse_overlaps(imported: &[Imported], existing: &[DefinedPool]) -> Result<()> {
    let is_replaced = |name: &NetworkName| imported.iter().any(|it| it.name == *name);
    let staying = existing.iter().filter(|it| !is_replaced(&it.name));
    let all = staying.map(|it| (&it.name, &it.definition));
    let all = all.chain(imported.iter().map(|it| (&it.name, &it.definition)));
    let all: Vec<(&NetworkName, &Definition)> = all.collect();
    let mut disjoint = Disjoint::default();
    for (i, (name, definition)) in all.iter().enumerate() {
        if let Err(earlier) = disjoint.add(&definition.pool.ranges, i) {
            bail!(
                "pool {name} ({}) overlaps with pool {} ({})",
                definition.pool.ranges,
                all[earlier].0,
                all[earlier].1.pool.ranges
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(text: &str) -> Result<Vec<Imported>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pools.json");
        fs::write(&file, text).unwrap();
        let pools = read(&file, |name| format!("/ipam/v1/pools/{name}"))?;
        refuse_overlaps(&pools, &[])?;
        Ok(pools)
    }

    #[test]
    fn a_catalogue_is_read_with_and_without_its_key() {
        for text in [
            r#"{"pools":{"web":{"subnet":"10.1.0.0/24"},"db":{"subnet":"10.2.0.0/24","block":28}}}"#,
            r#"{"web":{"subnet":"10.1.0.0/24"},"db":{"subnet":"10.2.0.0/24","block":28}}"#,
        ] {
            let pools = imported(text).unwrap();
            assert_eq!(pools[0].value, br#"{"subnet":"10.1.0.0/24"}"#);
            assert_eq!(pools[1].definition.block, Some(28));
        }
    }

    #[test]
    fn a_wrong_pool_is_named() {
        for (text, why) in [
            (
                r#"{"a b":{"subnet":"10.1.0.0/24"}}"#,
                "\"a b\" can't name a pool",
            ),
            (r#"{"a":{"subnet":"10.1.0.9/24"}}"#, "/ipam/v1/pools/a"),
            (r#"{"pools":{}}"#, "has no pools"),
            (
                r#"{"a":{"subnet":"10.1.0.0/24"},"a":{"subnet":"10.2.0.0/24"}}"#,
                "twice",
            ),
            (
                r#"{"a":{"subnet":"10.1.0.0/24"},"b":{"subnet":"10.1.0.0/16"}}"#,
                "pool b (10.1.0.1-10.1.255.254) overlaps with pool a",
            ),
        ] {
            let error = imported(text).err().map(|it| it.to_string());
            assert!(
                error.as_ref().is_some_and(|it| it.contains(why)),
                "{error:?}"
            );
        }
    }
}
