//! Bodies of Docker's calls of an IPAM driver, and of their answers.
//!
//! A text that is missing is empty.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Options, as Docker passes them on.
pub(crate) type Options = BTreeMap<String, String>;

/// Body of `IpamDriver.RequestPool`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct RequestPool {
    pub(crate) address_space: String,
    pub(crate) pool: String,
    pub(crate) sub_pool: String,
    pub(crate) options: Options,
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
    #[serde(rename = "Address", default)]
    pub(crate) address: String,
    #[serde(rename = "Options", default)]
    pub(crate) options: Options,
}

/// Body of `IpamDriver.ReleaseAddress`.
#[derive(Debug, Deserialize)]
pub(crate) struct ReleaseAddress {
    #[serde(rename = "PoolID")]
    pub(crate) pool_id: String,
    #[serde(rename = "Address", default)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body::decode;

    #[test]
    fn what_go_writes_for_nothing_is_nothing() {
        let body = r#"{"AddressSpace":"a","Pool":"","SubPool":"","Options":null,"V6":false}"#;
        let request: RequestPool = decode(body).unwrap();
        assert!(request.options.is_empty() && request.pool.is_empty());
        let request: RequestPool = decode(r#"{"AddressSpace":"a","Later":[1]}"#).unwrap();
        assert_eq!((request.address_space.as_str(), request.v6), ("a", false));
        let request: RequestAddress =
            decode(r#"{"PoolID":"p","Address":"","Options":null}"#).unwrap();
        assert!(request.address.is_empty() && request.options.is_empty());
    }

    #[test]
    fn what_is_no_call_is_undecodable() {
        for body in ["", "{", "[]", r#"{"Pool":7}"#, r#"{"Options":["a"]}"#] {
            let refused = decode::<RequestPool>(body);
            assert_eq!(refused.unwrap_err().status, 400, "{body}");
        }
        assert!(decode::<ReleasePool>("{}").is_err());
        assert!(decode::<RequestAddress>(r#"{"PoolID":null}"#).is_err());
    }
}
