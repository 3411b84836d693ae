//! A pool's definition: its ranges, its exclusions, the length of its blocks.

use cni::{Error, Object};
use ipam::Pool;

/// Keys of a definition that are copied into an entry of `prevResult.pools`.
const OWN_KEYS: [&str; 6] = [
    "ranges",
    "subnet",
    "rangeStart",
    "rangeEnd",
    "gateway",
    "exclude",
];

/// A valid definition of a pool.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its ranges, without its exclusions.
    pub pool: Pool,
    /// `block`: length of the prefix of the blocks that nodes claim.
    pub block: Option<u8>,
    object: Object,
}

impl Definition {
    /// Reads the value of an object. Messages name `path`.
    ///
    /// # Errors
    ///
    /// Code 7, naming the path, the key in the JSON, and the value.
    pub fn parse(path: &str, value: &[u8]) -> Result<Self, Error> {
        let object: Object = serde_json::from_slice(value).map_err(|error| {
            let content = String::from_utf8_lossy(value);
            let content = cni::Excerpt(&content);
            Error::config(format!("{path}: it is no JSON object ({error}): {content}"))
        })?;
        let pool = Pool::read(path, object.clone())?;
        let block: Option<u8> = object.read(path, "block")?;
        if let Some(block) = block {
            for range in pool.ranges.ranges() {
                let subnet = range.subnet();
                if block < subnet.prefix_len() || block > subnet.max_prefix_len() - 2 {
                    return Err(Error::config(format!(
                        "{path}.block: {block} must be at least {}, the prefix of {subnet}, and at most {}",
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

    /// The definition as JSON.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Adds the definition's ranges to an entry of `prevResult.pools`.
    pub fn complete(&self, entry: &mut Object) {
        for key in OWN_KEYS {
            // The exclusions of the entry are added to those of the definition.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(json: &str) -> Result<Definition, String> {
        Definition::parse("/ipam/v1/pools/blue", json.as_bytes()).map_err(|error| error.msg)
    }

    #[test]
    fn an_entry_gets_the_ranges_and_keeps_what_it_asks_for() {
        let pool = definition(
            r#"{"ranges":[{"subnet":"10.0.0.0/24"}],"exclude":["10.0.0.9"],"block":26,"vlan":7}"#,
        );
        let pool = pool.unwrap();
        assert_eq!(pool.block, Some(26));
        let mut entry: Object = serde_json::from_str(
            r#"{"name":"blue","requested-ip":"10.0.0.7","exclude":["10.0.0.8"]}"#,
        )
        .unwrap();
        pool.complete(&mut entry);
        assert_eq!(
            serde_json::to_string(&entry).unwrap(),
            r#"{"name":"blue","requested-ip":"10.0.0.7","exclude":["10.0.0.9","10.0.0.8"],"ranges":[{"subnet":"10.0.0.0/24"}]}"#
        );
    }

    #[test]
    fn each_refusal_names_the_path_and_the_value() {
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
