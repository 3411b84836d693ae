//! The ranges of a pool: a list, or one range whose keys are the pool's own.

use cni::{Error, Object};

use crate::{ADDRESS_KEYS, Range, RangeSet, exclude};

/// Reads the ranges of a pool, without what the pool or a range excludes.
///
/// # Errors
///
/// Code 7, naming the key and the value; `path` is the pool's name in messages.
pub fn ranges_of_pool(path: &str, pool: &Object) -> Result<RangeSet, Error> {
    let is_one = ADDRESS_KEYS.iter().any(|key| is_set(pool, key));
    match pool.read::<Vec<Object>>(path, "ranges")? {
        Some(_) if is_one => Err(Error::config(format!(
            "{path} has ranges and a range's own keys; a pool has the one or the other"
        ))),
        Some(ranges) => {
            let excluded = exclude::read(path, pool)?;
            RangeSet::read(&format!("{path}.ranges"), &ranges, &excluded)
        }
        None if is_one => Range::read(path, pool).map(RangeSet::from),
        None => Err(Error::config(format!(
            "{path}.ranges is missing, and subnet is, too"
        ))),
    }
}

/// The ranges of a pool, as they are written: its list, or one of its own keys; none if it
/// is known only by its name. What the pool excludes is not theirs.
///
/// # Errors
///
/// Code 7 if `ranges` is no list of objects; `path` is the pool's name in messages.
pub fn range_objects(path: &str, pool: &Object) -> Result<Vec<Object>, Error> {
    if let Some(ranges) = pool.read(path, "ranges")? {
        return Ok(ranges);
    }
    let mut own = Object::new();
    for key in ADDRESS_KEYS {
        if let Some(value) = pool.get(key) {
            own.set(key, value);
        }
    }
    Ok(Vec::from_iter(is_set(pool, "subnet").then_some(own)))
}

/// True if a key has a value other than `null`.
pub(crate) fn is_set(object: &Object, key: &str) -> bool {
    object.get(key).is_some_and(|raw| raw.get() != "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_written() {
        let ranges = |json: &str| {
            let pool = serde_json::from_str(json).unwrap();
            let ranges = range_objects("it", &pool).map_err(|error| error.msg);
            ranges.map(|ranges| serde_json::to_string(&ranges).unwrap())
        };
        for (json, expected) in [
            (
                r#"{"ranges":[{"subnet":"x"}],"exclude":["y"]}"#,
                r#"[{"subnet":"x"}]"#,
            ),
            (
                r#"{"name":"n","subnet":"x","gateway":"g","exclude":["y"]}"#,
                r#"[{"subnet":"x","gateway":"g"}]"#,
            ),
            (r#"{"name":"n"}"#, "[]"),
            (r#"{"name":"n","subnet":null}"#, "[]"),
        ] {
            assert_eq!(ranges(json).as_deref(), Ok(expected), "{json}");
        }
        assert!(
            ranges(r#"{"ranges":1}"#)
                .unwrap_err()
                .starts_with("it.ranges")
        );
    }
}
