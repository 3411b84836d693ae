//! Pools that are defined in etcd: `<prefix>/v1/pools/<pool>`.

use std::fmt;

use cni::{Error, NetworkConfig, Object, code};
use etcd::{Client, Range, RangeAnswer, Txn};
use ipam::{Pool, PoolName};

use crate::Keys;

/// The keys that a definition gives to an entry of `prevResult.pools`.
const OWN_KEYS: [&str; 6] = [
    "ranges",
    "subnet",
    "rangeStart",
    "rangeEnd",
    "gateway",
    "exclude",
];

/// Pools that are looked up in one request.
const AT_ONCE: usize = 100;

/// A pool's definition, valid.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its ranges, without what it excludes.
    pub pool: Pool,
    /// `block`: length of the prefix of the blocks that nodes claim.
    pub block: Option<u8>,
    object: Object,
}

/// The reason why a key holds no definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionError(String);

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DefinitionError {}

impl Definition {
    /// Reads the value of a key, which messages name.
    ///
    /// # Errors
    ///
    /// The reason, naming the key of etcd, the key in its JSON, and the value.
    pub fn parse(key: &str, value: &[u8]) -> Result<Self, DefinitionError> {
        let failed = |error: Error| DefinitionError(error.msg);
        let object: Object = serde_json::from_slice(value).map_err(|error| {
            let content = String::from_utf8_lossy(value);
            let content = cni::Excerpt(&content);
            DefinitionError(format!("{key}: it is no JSON object ({error}): {content}"))
        })?;
        let pool = Pool::read(key, object.clone()).map_err(failed)?;
        let block: Option<u8> = object.read(key, "block").map_err(failed)?;
        if let Some(block) = block {
            for range in pool.ranges.ranges() {
                let subnet = range.subnet();
                if block < subnet.prefix_len() || block > subnet.max_prefix_len() - 2 {
                    return Err(DefinitionError(format!(
                        "{key}.block: {block} must be at least {}, the prefix of {subnet}, and at most {}",
                        subnet.prefix_len(),
                        subnet.max_prefix_len() - 2
                    )));
                }
            }
        }
        Ok(Self {
            pool,
            block,
            object,
        })
    }

    /// The definition as it was written.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Completes an entry of `prevResult.pools`: its ranges are those of the definition.
    pub fn complete(&self, entry: &mut Object) {
        for key in OWN_KEYS {
            // What the entry excludes, it excludes besides.
            let own = entry.get(key).filter(|raw| raw.get() != "null");
            match (self.object.get(key), own) {
                (Some(raw), None) => entry.set_raw(key, raw.to_owned()),
                (Some(raw), Some(own)) if key == "exclude" => {
                    let lists = (
                        cni::read::<Vec<String>>(key, raw),
                        cni::read::<Vec<String>>(key, own),
                    );
                    if let (Ok(mut all), Ok(own)) = lists {
                        all.extend(own);
                        entry.set(key, &all);
                    }
                }
                _ => {}
            }
        }
    }
}

/// `prevResult.pools` of a call: those without ranges are looked up by their names.
#[derive(Clone, Debug)]
pub struct Asked {
    entries: Vec<Object>,
    /// Indexes of the entries to look up, with their names.
    wanted: Vec<(usize, PoolName)>,
}

/// The values of etcd's keys of the pools to look up; `None` for one that is missing.
pub type Values = Vec<Option<Vec<u8>>>;

impl Asked {
    /// Reads `prevResult.pools`.
    ///
    /// # Errors
    ///
    /// Code 7 for what is no list of pools, and for an invalid name.
    pub fn read(config: &NetworkConfig) -> Result<Self, Error> {
        let entries = ipam::pool_objects(config)?;
        let mut wanted = Vec::new();
        for (i, entry) in entries.iter().enumerate() {
            if !ipam::has_ranges(entry)
                && let Some(name) = entry.read(&format!("prevResult.pools[{i}]"), "name")?
            {
                wanted.push((i, name));
            }
        }
        Ok(Self { entries, wanted })
    }

    /// The names to look up.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().map(|(_, name)| name.as_str())
    }

    /// Reads of the definitions, in the order of the names.
    pub fn reads(&self, keys: &Keys) -> impl Iterator<Item = Range> {
        self.names().map(|name| Range::key(keys.pool(name)))
    }

    /// The values in the answers to [`Self::reads`].
    pub fn values<'r>(&self, answers: impl Iterator<Item = &'r RangeAnswer>) -> Values {
        let values = answers.take(self.wanted.len());
        values
            .map(|it| it.kvs.first().map(|kv| kv.value.clone()))
            .collect()
    }

    /// Reads the definitions from etcd.
    ///
    /// # Errors
    ///
    /// Those of etcd.
    pub fn fetch(&self, client: &mut Client<'_>, keys: &Keys) -> Result<Values, Error> {
        let reads: Vec<Range> = self.reads(keys).collect();
        let mut values = Values::with_capacity(reads.len());
        for chunk in reads.chunks(AT_ONCE) {
            let answer = client.txn(&Txn::read(chunk.iter().cloned()))?;
            values.extend(self.values(answer.ranges()));
        }
        Ok(values)
    }

    /// The pools, with the ranges of these definitions.
    ///
    /// # Errors
    ///
    /// Code 7 for an invalid pool, one without a name and without ranges, and a name that
    /// etcd doesn't know or holds no valid definition of, or that is given in blocks.
    pub fn pools(&self, keys: &Keys, values: &Values) -> Result<Vec<Pool>, Error> {
        let mut entries = self.entries.clone();
        for ((i, name), value) in self.wanted.iter().zip(values) {
            let key = keys.pool(name.as_str());
            let Some(value) = value else {
                return Err(Error::config(format!(
                    "prevResult.pools[{i}].name: etcd has no pool {:?}: {key} is missing",
                    name.as_str()
                )));
            };
            let definition = Definition::parse(&key, value)
                .map_err(|why| Error::new(code::INVALID_CONFIG, why.0))?;
            if let Some(block) = definition.block {
                // An address would be given twice: by itself here, and in a block there.
                return Err(Error::config(format!(
                    "{key}.block: {block}: this pool is given in blocks, by ipam-ds-etcd before ipam-da-host-local"
                )));
            }
            definition.complete(&mut entries[*i]);
        }
        ipam::read_pools(entries)
    }
}

/// The pools of a call, looked up in etcd.
///
/// # Errors
///
/// Those of [`Asked`], and of etcd.
pub fn pools(
    client: &mut Client<'_>,
    keys: &Keys,
    config: &NetworkConfig,
) -> Result<Vec<Pool>, Error> {
    let asked = Asked::read(config)?;
    let values = asked.fetch(client, keys)?;
    asked.pools(keys, &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(json: &str) -> Result<Definition, String> {
        Definition::parse("/ipam/v1/pools/blue", json.as_bytes()).map_err(|why| why.0)
    }

    #[test]
    fn an_entry_gets_the_ranges_and_keeps_what_it_asks_for() {
        let it = definition(
            r#"{"ranges":[{"subnet":"10.0.0.0/24"}],"exclude":["10.0.0.9"],"block":26,"vlan":7}"#,
        );
        let it = it.unwrap();
        assert_eq!(it.block, Some(26));
        let mut entry: Object = serde_json::from_str(
            r#"{"name":"blue","requested-ip":"10.0.0.7","exclude":["10.0.0.8"]}"#,
        )
        .unwrap();
        it.complete(&mut entry);
        assert_eq!(
            serde_json::to_string(&entry).unwrap(),
            r#"{"name":"blue","requested-ip":"10.0.0.7","exclude":["10.0.0.9","10.0.0.8"],"ranges":[{"subnet":"10.0.0.0/24"}]}"#
        );
    }

    #[test]
    fn each_refusal_names_etcds_key_and_the_value() {
        for (json, message) in [
            ("", "/ipam/v1/pools/blue: it is no JSON object (EOF"),
            ("[]", "/ipam/v1/pools/blue: it is no JSON object ("),
            (
                "{}",
                "/ipam/v1/pools/blue.ranges is missing, and subnet is, too",
            ),
            (
                r#"{"subnet":"x"}"#,
                "/ipam/v1/pools/blue.subnet: \"x\" is no subnet",
            ),
            (
                r#"{"ranges":[{"subnet":"10.0.0.0/24"},{"subnet":"10.0.0.0/25"}]}"#,
                "/ipam/v1/pools/blue.ranges[1].subnet: ",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","block":"26"}"#,
                "/ipam/v1/pools/blue.block: invalid type: string \"26\"",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","block":20}"#,
                "/ipam/v1/pools/blue.block: 20 must be at least 24, the prefix of 10.0.0.0/24, and at most 30",
            ),
            (
                r#"{"subnet":"10.0.0.0/24","block":31}"#,
                "/ipam/v1/pools/blue.block: 31 must be",
            ),
        ] {
            let msg = definition(json).unwrap_err();
            assert!(msg.starts_with(message), "{json}: {msg}");
        }
    }
}
