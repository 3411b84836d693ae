//! Bodies of Docker's calls of an IPAM driver, and of their answers.
//!
//! Docker is written in Go: an empty map may come as `null`, and a text that is missing
//! is empty.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::refusal::Refusal;

/// Options, as Docker passes them on.
pub(crate) type Options = BTreeMap<String, String>;

/// Body of `IpamDriver.RequestPool`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct RequestPool {
    #[serde(deserialize_with = "or_default")]
    pub(crate) address_space: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) pool: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) sub_pool: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) options: Options,
    #[serde(deserialize_with = "or_default")]
    pub(crate) v6: bool,
}

/// Body of `IpamDriver.ReleasePool`.
#[derive(Debug, Deserialize)]
pub(crate) struct ReleasePool {
    #[serde(rename = "PoolID")]
    pub(crate) pool_id: String,
    /// The name of the file of the reference that is to go; not of Docker's calls, but of
    /// `ipamctl`'s.
    #[serde(rename = "Reference", default)]
    pub(crate) reference: Option<String>,
}

/// Body of `IpamDriver.RequestAddress`.
#[derive(Debug, Deserialize)]
pub(crate) struct RequestAddress {
    #[serde(rename = "PoolID")]
    pub(crate) pool_id: String,
    #[serde(rename = "Address", default, deserialize_with = "or_default")]
    pub(crate) address: String,
    #[serde(rename = "Options", default, deserialize_with = "or_default")]
    pub(crate) options: Options,
}

/// Body of `IpamDriver.ReleaseAddress`.
#[derive(Debug, Deserialize)]
pub(crate) struct ReleaseAddress {
    #[serde(rename = "PoolID")]
    pub(crate) pool_id: String,
    #[serde(rename = "Address", default, deserialize_with = "or_default")]
    pub(crate) address: String,
}

/// Answer to `IpamDriver.RequestPool`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Pool {
    #[serde(rename = "PoolID")]
    pub(crate) pool_id: String,
    pub(crate) pool: String,
    pub(crate) data: Options,
}

/// Answer to `IpamDriver.RequestAddress`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Address {
    pub(crate) address: String,
    pub(crate) data: Options,
}

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

pub(crate) fn or_default<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_writes_for_nothing_is_nothing() {
        let body = r#"{"AddressSpace":"a","Pool":"","SubPool":"","Options":null,"V6":false}"#;
        let it: RequestPool = decode(body).unwrap();
        assert!(it.options.is_empty() && it.pool.is_empty());
        let it: RequestPool = decode(r#"{"AddressSpace":"a","Later":[1]}"#).unwrap();
        assert_eq!((it.address_space.as_str(), it.v6), ("a", false));
        let it: RequestAddress = decode(r#"{"PoolID":"p","Address":"","Options":null}"#).unwrap();
        assert!(it.address.is_empty() && it.options.is_empty());
    }

    #[test]
    fn what_is_no_call_is_undecodable() {
        for body in ["", "{", "[]", r#"{"Pool":7}"#, r#"{"Options":["a"]}"#] {
            let refused = decode::<RequestPool>(body);
            assert!(matches!(refused, Err(Refusal::Undecodable(_))), "{body}");
        }
        assert!(decode::<ReleasePool>("{}").is_err());
        assert!(decode::<RequestAddress>(r#"{"PoolID":null}"#).is_err());
    }
}
