//! Exclusions: addresses of a pool or a range that are given on request only.

use std::borrow::Cow;
use std::net::IpAddr;
use std::str::FromStr;

use cni::{Error, Object};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::{Interval, parse_subnet};

/// The key of a pool or a range.
pub(crate) const KEY: &str = "exclude";

/// Reads `exclude`: an array of `"10.0.0.5"`, `"10.0.0.64/28"` and
/// `"10.0.0.10-10.0.0.20"`.
///
/// # Errors
///
/// Code 7 for an entry that is none of these, naming it.
pub(crate) fn read(path: &str, object: &Object) -> Result<Vec<Interval>, Error> {
    Ok(object.read(path, KEY)?.unwrap_or_default())
}

/// A text that is borrowed unless it has an escape: there may be thousands.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        let read = text.parse();
        read.map_err(|why: String| D::Error::custom(format_args!("{text:?} {why}")))
    }
}

impl FromStr for Interval {
    /// The reason, to be read after the text.
    type Err = String;

    /// Reads `10.0.0.5`, `10.0.0.64/28` and `10.0.0.10-10.0.0.20`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Interval::new(ip, ip).expect("one address is an interval"));
        }
        if let Some((first, last)) = text.split_once('-') {
            let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<IpAddr>())
            else {
                return Err("is no interval (such as 10.0.0.10-10.0.0.20)".to_owned());
            };
            return Interval::new(first, last).ok_or_else(|| {
                format!("is no interval: {last} is before {first}, or of another family")
            });
        }
        if text.contains('/') {
            let subnet = parse_subnet(text).ok_or("is no subnet (such as 10.0.0.64/28)")?;
            if subnet.addr() != subnet.network() {
                return Err(format!(
                    "has host bits set; its network is {}",
                    subnet.trunc()
                ));
            }
            return Ok(subnet.into());
        }
        Err("is no address, no subnet and no interval of addresses".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(list: &str) -> Result<Vec<String>, String> {
        let object: Object = serde_json::from_str(&format!(r#"{{"exclude":{list}}}"#)).unwrap();
        let intervals = read("pool", &object).map_err(|error| error.msg)?;
        Ok(intervals.iter().map(Interval::to_string).collect())
    }

    #[test]
    fn an_address_a_subnet_and_an_interval_can_be_excluded() {
        assert_eq!(
            excluded(
                r#"["10.0.0.5","10.0.0.64/28","10.0.0.10-10.0.0.20","fd00::/126","fd00::8 - fd00::9"]"#
            ),
            Ok(vec![
                "10.0.0.5-10.0.0.5".to_owned(),
                "10.0.0.64-10.0.0.79".to_owned(),
                "10.0.0.10-10.0.0.20".to_owned(),
                "fd00::-fd00::3".to_owned(),
                "fd00::8-fd00::9".to_owned(),
            ])
        );
        assert_eq!(excluded("null"), Ok(Vec::new()));
    }

    #[test]
    fn each_refusal_names_the_key_and_the_value() {
        for (list, message) in [
            (
                r#""10.0.0.5""#,
                "pool.exclude: invalid type: string \"10.0.0.5\", expected a sequence",
            ),
            (
                r#"["10.0.0.5","x"]"#,
                "pool.exclude[1]: \"x\" is no address, no subnet and no interval of addresses",
            ),
            (
                r#"["10.0.0.5/33"]"#,
                "pool.exclude[0]: \"10.0.0.5/33\" is no subnet (such as 10.0.0.64/28)",
            ),
            (
                r#"["10.0.0.5/24"]"#,
                "pool.exclude[0]: \"10.0.0.5/24\" has host bits set; its network is 10.0.0.0/24",
            ),
            (
                r#"["10.0.0.5-20"]"#,
                "pool.exclude[0]: \"10.0.0.5-20\" is no interval (such as 10.0.0.10-10.0.0.20)",
            ),
            (
                r#"["10.0.0.5-10.0.0.4"]"#,
                "pool.exclude[0]: \"10.0.0.5-10.0.0.4\" is no interval: 10.0.0.4 is before 10.0.0.5, or of another family",
            ),
        ] {
            assert_eq!(excluded(list).unwrap_err(), message);
        }
    }
}
