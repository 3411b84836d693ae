//! The file of an import: a catalogue of pools.

use std::io::Read;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};
use cluster::Definition;
use cni::{NetworkName, Object};
use ipam::Disjoint;

use crate::shared_pools::DefinedPool;

/// A pool of the file.
pub(super) struct Imported {
    pub(super) name: NetworkName,
    /// The definition as the file has it.
    pub(super) value: Vec<u8>,
    pub(super) definition: Definition,
}

/// The pools of a file: `{"pools": {NAME: {…}}}`, or the inner object by itself.
pub(super) fn read(file: &Path, key: impl Fn(&str) -> String) -> Result<Vec<Imported>> {
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
pub(super) fn refuse_overlaps(imported: &[Imported], existing: &[DefinedPool]) -> Result<()> {
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
