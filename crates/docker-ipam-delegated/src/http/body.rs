//! JSON bodies of Docker's calls.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::http::refusal::Refusal;

/// The answer that something could not be done. Docker reads `Err` of a network driver's
/// answers (`drivers/remote/api`), and `Error` of an IPAM driver's (`ipams/remote/api`),
/// whatever its documentation says.
pub(crate) fn failure(message: &str) -> Value {
    json!({"Err": message, "Error": message})
}

/// Reads a body.
///
/// # Errors
///
/// [`Refusal::Undecodable`], with the key that is wrong.
pub(crate) fn decode<T: DeserializeOwned>(body: &str) -> Result<T, Refusal> {
    if body.is_empty() {
        let why = "the body is empty: the daemon has ended while it served the call; do it again";
        return Err(Refusal::Undecodable(why.to_owned()));
    }
    // By itself, serde takes an array for an object's values.
    if !body.trim_start().starts_with('{') {
        return Err(Refusal::Undecodable(
            "the body is no JSON object".to_owned(),
        ));
    }
    serde_json::from_str(body).map_err(|error| Refusal::Undecodable(error.to_string()))
}

/// Reads a value that Go writes as `null` if it is empty.
///
/// # Errors
///
/// The value has another type.
pub(crate) fn or_default<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
