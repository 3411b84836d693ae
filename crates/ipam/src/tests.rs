//! Ranges and range sets as short texts, for the tests of this crate.

use cni::Object;

use crate::{RANGE_KEYS, RangeSet, exclude};

/// A range's object: `subnet start end gateway exclude…`, of which the last ones
/// may be missing, and `-` stands for none.
pub(crate) fn object(text: &str) -> Object {
    let mut object = Object::new();
    let words: Vec<&str> = text.split(' ').collect();
    for (key, word) in RANGE_KEYS.into_iter().zip(&words) {
        match key {
            exclude::KEY => object.set(key, &words[4..]),
            _ if *word == "-" => {}
            _ => object.set(key, word),
        }
    }
    object
}

/// Ranges as [`object`] reads them, separated by `, `.
pub(crate) fn set(text: &str) -> Result<RangeSet, String> {
    let objects: Vec<Object> = text.split_terminator(", ").map(object).collect();
    RangeSet::read("set", &objects, &[]).map_err(|error| error.msg)
}
