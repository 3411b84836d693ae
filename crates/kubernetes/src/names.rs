//! Names of `Address` objects: `[<space>.]<ip>`, with an IPv6 address as eight groups with `-`
//! between them, so each address has one name.

use std::net::IpAddr;

use cluster::AddressKey;

/// Name of an address's object.
///
/// # Errors
///
/// The reason why no object can have this name: the space isn't a DNS name in lower case.
pub(crate) fn object_name(key: &AddressKey) -> Result<String, String> {
    let ip = match key.ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => ip.segments().map(|group| format!("{group:x}")).join("-"),
    };
    let Some(space) = &key.space else {
        return Ok(ip);
    };
    let name = format!("{space}.{ip}");
    if !is_dns_subdomain(&name) {
        return Err(format!(
            "the space {:?} can't be in the name of an Address: it must be a DNS name in lower case",
            space.as_str()
        ));
    }
    Ok(name)
}

/// The address that an object's name stands for; `None` if no address has this name.
pub(crate) fn address_key(name: &str) -> Option<AddressKey> {
    // Within an address, IPv4 has three dots, and IPv6 has none.
    let (_, last) = name.rsplit_once('.').unwrap_or(("", name));
    let dots = if last.contains('-') { 0 } else { 3 };
    let dot = name.rmatch_indices('.').nth(dots).map(|(dot, _)| dot);
    let (space, ip) = match dot {
        Some(dot) => (Some(name[..dot].parse().ok()?), &name[dot + 1..]),
        None => (None, name),
    };
    let ip = ip.replace('-', ":").parse().ok()?;
    let key = AddressKey { space, ip };
    // Another spelling of an address isn't its name.
    (object_name(&key).as_deref() == Ok(name)).then_some(key)
}

/// True for a valid name of an object: an RFC 1123 subdomain in lower case.
pub(crate) fn is_dns_subdomain(name: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_alphanumeric)
            && part.ends_with(is_alphanumeric)
            && part.chars().all(|c| is_alphanumeric(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(space: Option<&str>, ip: IpAddr) -> AddressKey {
        AddressKey {
            space: space.map(|space| space.parse().unwrap()),
            ip,
        }
    }

    #[test]
    fn an_address_has_one_name() {
        let name = |space, ip: &str| object_name(&key(space, ip.parse().unwrap()));
        assert_eq!(name(None, "10.0.0.5").unwrap(), "10.0.0.5");
        assert_eq!(name(Some("blue"), "10.0.0.5").unwrap(), "blue.10.0.0.5");
        assert_eq!(name(None, "fd00::5").unwrap(), "fd00-0-0-0-0-0-0-5");
        assert!(
            name(Some("Blue_1"), "10.0.0.5")
                .unwrap_err()
                .contains("Blue_1")
        );
    }

    #[test]
    fn other_spellings_name_no_address() {
        for name in [
            "",
            "web",
            "10.0.0",
            "10.0.0.05",
            "10.0.0.256",
            ".10.0.0.5",
            "fd00--5",
            "FD00-0-0-0-0-0-0-5",
            "fd00-0-0-0-0-0-0-05",
        ] {
            assert_eq!(address_key(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_leads_back_to_its_address(
            space in prop::option::of("[a-z0-9]{1,3}(\\.[0-9]{1,3}){0,4}"),
            ip in any::<IpAddr>(),
        ) {
            let key = key(space.as_deref(), ip);
            prop_assert_eq!(address_key(&object_name(&key).unwrap()), Some(key));
        }
    }
}
