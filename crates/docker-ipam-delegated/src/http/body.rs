//! JSON bodies of Docker's calls.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::http::refusal::Refusal;

/// Reads a body. A key whose value is `null` counts as missing.
///
/// # Errors
///
/// 400, with the key that is wrong.
pub(crate) fn decode<T: DeserializeOwned>(body: &str) -> Result<T, Refusal> {
    if body.is_empty() {
        let why = "the body is empty: the daemon has ended while it served the call; do it again";
        return Err(Refusal::new(400, why));
    }
    let wrong = |error: serde_json::Error| Refusal::new(400, error.to_string());
    let object: Map<String, Value> = serde_json::from_str(body).map_err(wrong)?;
    serde_json::from_value(without_nulls(Value::Object(object))).map_err(wrong)
}

/// The value without the keys whose value is `null`, at any depth: Go writes an empty list, map or
/// pointer so.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let there = object.into_iter().filter(|(_, value)| !value.is_null());
            there
                .map(|(key, value)| (key, without_nulls(value)))
                .collect()
        }
        Value::Array(array) => array.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
