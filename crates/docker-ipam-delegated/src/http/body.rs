use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::http::refusal::Refusal;

/// Reads the JSON body of a call. A key whose value is `null` counts as missing.
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
    let mut body = Value::Object(object);
    remove_nulls(&mut body);
    serde_json::from_value(body).map_err(wrong)
}

/// Removes the keys whose value is `null`, at any depth: Go writes an empty list, map or pointer so.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(remove_nulls);
        }
        Value::Array(array) => array.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
