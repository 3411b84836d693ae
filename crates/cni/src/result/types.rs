//! Types of a result's fields, as the main plugin's library (`pkg/types`, in Go) reads them. A value
//! of another type would be found by the main plugin, which doesn't undo the ADD then.

use std::net::IpAddr;

use crate::{Dns, Error, Object};

/// Type of a field. `null` is a missing field, except for a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    Text,
    /// A number without fraction and exponent, of 64 bits.
    Integer,
    /// An IP address, or an empty text.
    Address,
    /// An IP address with the length of its prefix.
    Subnet,
    /// A subnet that isn't missing: the main plugin reads it without asking whether it is there.
    NeededSubnet,
}

use FieldType::{Address, Integer, NeededSubnet, Subnet, Text};

/// A field with its type.
pub(super) type Field = (&'static str, FieldType);

const INTERFACE: [Field; 6] = [
    ("name", Text),
    ("mac", Text),
    ("mtu", Integer),
    ("sandbox", Text),
    ("socketPath", Text),
    ("pciID", Text),
];

const IP: [Field; 4] = [
    ("address", NeededSubnet),
    ("gateway", Address),
    ("interface", Integer),
    ("version", Text),
];

/// All attributes of a route; those after `gw` came with version 1.1.0.
const ROUTE: [Field; 7] = [
    ("dst", Subnet),
    ("gw", Address),
    ("mtu", Integer),
    ("advmss", Integer),
    ("priority", Integer),
    ("table", Integer),
    ("scope", Integer),
];

/// The lists of a result, each with the fields of its entries.
pub(super) const LISTS: [(&str, &[Field]); 3] =
    [("interfaces", &INTERFACE), ("ips", &IP), ("routes", &ROUTE)];

/// Verifies the types of all fields of a result; `path` is its name in messages.
///
/// # Errors
///
/// Code 7, naming the key and the value.
pub(super) fn verify(path: &str, result: &Object) -> Result<(), Error> {
    result.read::<String>(path, "cniVersion")?;
    for (list, fields) in LISTS {
        let entries: Vec<Object> = result.read(path, list)?.unwrap_or_default();
        for (i, entry) in entries.iter().enumerate() {
            verify_fields(&format!("{path}.{list}[{i}]"), entry, fields)?;
        }
    }
    let dns = result.section(path, "dns")?.unwrap_or_default();
    Dns::read(&format!("{path}.dns"), dns).map(drop)
}

/// Verifies the types of a route's attributes; `path` is its name in messages.
///
/// # Errors
///
/// Code 7, naming the attribute and the value.
pub fn verify_route(path: &str, route: &Object) -> Result<(), Error> {
    verify_fields(path, route, &ROUTE)
}

fn verify_fields(path: &str, entry: &Object, fields: &[Field]) -> Result<(), Error> {
    for (key, field_type) in fields {
        verify_field(path, entry, key, *field_type)?;
    }
    Ok(())
}

fn verify_field(path: &str, entry: &Object, key: &str, of: FieldType) -> Result<(), Error> {
    let wrong = |value: &str, kind| Err(Error::config(format!("{path}.{key}: {value} is {kind}")));
    if of == Integer {
        return match entry.field(path, key)?.map(|raw| raw.get()) {
            Some(text) if text.parse::<i64>().is_err() => wrong(text, "no integer of 64 bits"),
            _ => Ok(()),
        };
    }
    let text: Option<String> = entry.read(path, key)?;
    match (of, text) {
        (Address, Some(text)) if !text.is_empty() && text.parse::<IpAddr>().is_err() => {
            wrong(&format!("{text:?}"), "no IP address")
        }
        (Subnet | NeededSubnet, Some(text)) if parse_cidr(&text).is_none() => {
            wrong(&format!("{text:?}"), "no subnet (such as 0.0.0.0/0)")
        }
        (Subnet | NeededSubnet, None) if entry.get(key).is_some() => wrong("null", "no subnet"),
        (NeededSubnet, None) => Err(Error::config(format!("{path}.{key} is missing"))),
        _ => Ok(()),
    }
}

/// Reads an address and the length of its prefix, as in `10.1.0.5/16`.
pub fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, length) = text.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse().ok().filter(|length| *length <= longest)?;
    is_number.then_some((ip, length))
}

#[cfg(test)]
mod tests;
