//! An address that a rule requests: a text, or the address of a range that a number selects.

use std::net::IpAddr;

use cni::{Error, Object};
use ipam::Interval;

use crate::template::Template;
use crate::text_or::TextOr;

/// The keys of [`Replica`].
const KEYS: [&str; 2] = ["range", "index"];

/// An address that a rule requests.
#[derive(Clone, Debug)]
pub(crate) enum Requested {
    /// This address.
    Address(Template),
    /// The address of a replica.
    Replica(Replica),
}

/// Addresses for replicas: all of them are pinned, and a replica's number selects its own.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    /// The addresses, that of number 0 first.
    pub(crate) range: Interval,
    /// The number, or a text with the number behind its last hyphen, such as a pod's name.
    pub(crate) index: Template,
}

impl Requested {
    /// Reads a request; `path` is its name in messages.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub(crate) fn read(path: &str, written: TextOr<Object>) -> Result<Self, Error> {
        let object = match written {
            TextOr::Text(template) => return Ok(Self::Address(template)),
            TextOr::Longer(object) => object,
        };
        object.expect_only(path, &KEYS)?;
        let range: String = object.required(path, "range")?;
        let invalid = |why| Error::config(format!("{path}.range: {range:?} {why}"));
        Ok(Self::Replica(Replica {
            range: range.parse().map_err(invalid)?,
            index: object.required(path, "index")?,
        }))
    }

    /// The text that must be expanded.
    pub(crate) fn template(&self) -> &Template {
        match self {
            Self::Address(template) => template,
            Self::Replica(replica) => &replica.index,
        }
    }

    /// True if the addresses are kept for the rule.
    pub(crate) fn is_pin(&self) -> bool {
        match self {
            Self::Address(template) => template.literal().is_some(),
            Self::Replica(_) => true,
        }
    }

    /// The address, with the expanded text; `source` names the request in messages. An IPv4 address
    /// that is written as IPv6 (`::ffff:10.0.0.1`) is an IPv4 address.
    ///
    /// # Errors
    ///
    /// Code 7, naming the text, and the range if there is one.
    pub(crate) fn address(&self, source: &str, text: &str) -> Result<IpAddr, Error> {
        match self {
            Self::Address(_) => ipam::parse_address(text)
                .map(|ip| ip.to_canonical())
                .ok_or_else(|| Error::config(format!("{source}: {text:?} is no IP address"))),
            Self::Replica(replica) => replica
                .address(text)
                .map_err(|why| Error::config(format!("{source}: {why}"))),
        }
    }
}

impl Replica {
    fn address(&self, text: &str) -> Result<IpAddr, String> {
        let range = self.range;
        let (_, digits) = text.rsplit_once('-').unwrap_or(("", text));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!(
                "{text:?} neither is nor ends in -NUMBER, which selects an address of {range}"
            ));
        }
        let ip = digits.parse().ok().and_then(|index| range.nth(index));
        ip.ok_or_else(|| {
            let size = range.size();
            format!("{text:?}: number {digits} is beyond {range}, which has {size} addresses")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(json: &str) -> Result<Requested, String> {
        let written = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Requested::read("ip", written).map_err(|error| error.msg)
    }

    #[test]
    fn the_number_of_a_replica_selects_its_address() {
        let v4 = requested(r#"{"range":"10.0.0.20-10.0.0.39","index":"x"}"#).unwrap();
        let v6 = requested(r#"{"Range":"fd00::10-fd00::1f","Index":"x"}"#).unwrap();
        for (text, [ipv4, ipv6]) in [
            ("0", ["10.0.0.20", "fd00::10"]),
            ("db-0", ["10.0.0.20", "fd00::10"]),
            ("my-db-3", ["10.0.0.23", "fd00::13"]),
            ("db-007", ["10.0.0.27", "fd00::17"]),
            ("-15", ["10.0.0.35", "fd00::1f"]),
        ] {
            let ip = |requested: &Requested| requested.address("ip", text).unwrap().to_string();
            assert_eq!([ip(&v4), ip(&v6)], [ipv4, ipv6], "{text}");
        }
        let refused = |text: &str| v4.address("ip", text).unwrap_err().msg;
        for text in ["", "db", "db-", "web-5d4f-x2x47", "db-0x1", "db-+1", "db0"] {
            let why =
                "neither is nor ends in -NUMBER, which selects an address of 10.0.0.20-10.0.0.39";
            assert_eq!(refused(text), format!("ip: {text:?} {why}"));
        }
        for number in ["20", "99999999999999999999999999999999999999999"] {
            let why = "is beyond 10.0.0.20-10.0.0.39, which has 20 addresses";
            let expected = format!("ip: \"db-{number}\": number {number} {why}");
            assert_eq!(refused(&format!("db-{number}")), expected);
        }
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (json, message) in [
            ("{}", "ip.range is missing"),
            (r#"{"range":"10.0.0.1"}"#, "ip.index is missing"),
            (
                r#"{"range":"10.0.0.9-10.0.0.1","index":"x"}"#,
                "ip.range: \"10.0.0.9-10.0.0.1\" is no interval: 10.0.0.1 is before 10.0.0.9, or of another family",
            ),
            (
                r#"{"range":"10.0.0.1","index":"x","pool":"a"}"#,
                "ip.pool: there is no such key, only range, index",
            ),
        ] {
            assert_eq!(requested(json).unwrap_err(), message);
        }
        let number = requested("7").unwrap_err();
        assert!(number.contains("expected a text or an object"), "{number}");
    }
}
