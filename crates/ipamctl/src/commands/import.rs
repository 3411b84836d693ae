//! `ipamctl import`: defines all pools of a catalogue, or none; or takes over addresses of
//! whereabouts.

mod plan;
mod whereabouts;

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use cluster::Key;
use cluster::contents::DefinedPool;
use cluster::import::{Imported, import};
use cni::{NetworkName, Object};
use serde::Serialize;

use crate::arguments::ImportArguments;
use crate::context::Context;
use crate::shared_pools::{SharedCluster, failed};

/// A pool, and whether it was written. The keys are documented, and don't change their meaning.
#[derive(Serialize)]
struct Row {
    pool: NetworkName,
    outcome: Imported,
}

pub(crate) fn run(arguments: &ImportArguments, context: &Context<'_>) -> Result<bool> {
    let Some(file) = &arguments.file else {
        return whereabouts::run(arguments, context);
    };
    let cluster = SharedCluster::chosen(&arguments.cluster, context)?;
    let mut engine = cluster.engine();
    let path = |name: &str| engine.path(&Key::Pool(name.to_owned()));
    let pools = read(file, path)?;
    let imported = import(&mut *engine, &pools, arguments.replace).map_err(failed)?;
    let rows = imported.into_iter();
    let rows: Vec<Row> = rows.map(|(pool, outcome)| Row { pool, outcome }).collect();
    let line = |row: &Row| format!("{}: {}", row.pool, row.outcome);
    let lines = || rows.iter().map(line).collect();
    context.output.print(&rows, lines)?;
    Ok(false)
}

/// The pools of a file: `{"pools": {NAME: {…}}}`, or only the inner object. `path` is the
/// engine's path of a pool, for messages.
fn read(file: &Path, path: impl Fn(&str) -> String) -> Result<Vec<DefinedPool>> {
    let shown = file.display();
    let text = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("stdin")?;
        text
    } else {
        fs::read_to_string(file).with_context(|| shown.to_string())?
    };
    let object: Object = serde_json::from_str(&text).with_context(|| shown.to_string())?;
    let pools = object.read("", "pools");
    let pools: Option<Object> = pools.map_err(|error| anyhow!("{shown}: {}", error.msg))?;
    let mut imported: Vec<DefinedPool> = Vec::new();
    for (name, raw) in pools.unwrap_or(object).iter() {
        let value = raw.get().as_bytes().to_vec();
        let pool = DefinedPool::read(name, &path(name), value);
        let pool = pool.map_err(|reason| anyhow!("{shown}: {reason}"))?;
        ensure!(
            imported.iter().all(|other| other.name != pool.name),
            "{shown}: pool {name} is defined twice"
        );
        imported.push(pool);
    }
    ensure!(!imported.is_empty(), "{shown} has no pools");
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::import::refuse_overlaps;

    fn imported(text: &str) -> Result<Vec<DefinedPool>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pools.json");
        fs::write(&file, text).unwrap();
        let pools = read(&file, |name| format!("/ipam/v1/pools/{name}"))?;
        refuse_overlaps(&pools, &[]).map_err(|error| anyhow!(error.msg))?;
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
            let error = imported(text).err().map(|error| error.to_string());
            assert!(
                error.as_ref().is_some_and(|error| error.contains(why)),
                "{error:?}"
            );
        }
    }
}
