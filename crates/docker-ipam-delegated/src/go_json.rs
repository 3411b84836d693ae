//! JSON as Docker writes it. Docker is written in Go, which writes an empty list, map or pointer
//! as `null`.

use serde_json::Value;

/// The value without the keys whose value is `null`, at any depth.
pub(crate) fn without_nulls(value: Value) -> Value {
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
