#![doc = include_str!("../README.md")]

mod frames;
mod link;
mod settings;
mod wire;

use std::net::IpAddr;

use cni::{About, Attachment, Call, Error, IpamResult, JsonOutput, Plugin, Reply, code};

use crate::settings::Settings;

/// What a person may do about an address that somebody on the wire uses.
const REMEDY: &str = "the next ADD gets another address, unless this one is pinned or sticky: \
                      then every ADD is refused; if it is never to be given, put it into the \
                      pool's exclude";

/// The check `ipam-dc-probe`. Only ADD asks the wire.
#[derive(Clone, Copy, Debug)]
pub struct IpamDcProbe;

impl Plugin for IpamDcProbe {
    fn about(&self) -> About {
        cni::about!()
    }

    fn add(&self, _: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let settings = Settings::read(&call.config)?;
        let raw = call.config.raw_prev_result().ok_or_else(|| {
            Error::config("prevResult is missing: an allocator must stand before this check")
        })?;
        let addresses = addresses(&IpamResult::read("prevResult", raw)?)?;
        if !addresses.is_empty() {
            verify_unused(&addresses, &settings, call)?;
        }
        let output = JsonOutput::try_from(raw.get().as_bytes().to_vec());
        output.map(Reply::Verbatim).map_err(Error::config)
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let settings = Settings::read(&call.config)?;
        let unavailable = |error: Error| Error::new(code::UNAVAILABLE, error.msg);
        // The main plugin makes its bridge, and sets it up, in its first ADD.
        if !settings.is_bridge {
            link::find(&settings).map_err(unavailable)?;
        }
        wire::packet_socket().map_err(unavailable)?;
        Ok(Reply::Nothing)
    }
}

/// The addresses of a result that nobody else may use: those of an owner (key `owned`) may be
/// another container's, too.
fn addresses(result: &IpamResult) -> Result<Vec<IpAddr>, Error> {
    let owned = result.other("owned");
    let owned = owned.map(|raw| cni::read("prevResult.owned", raw));
    let owned: Vec<IpAddr> = owned.transpose()?.unwrap_or_default();
    let ips = result.ips.iter().map(|config| config.ip());
    Ok(ips.filter(|ip| !owned.contains(ip)).collect())
}

/// Asks the wire for these addresses.
///
/// # Errors
///
/// Code 115 if somebody uses one; another code if nobody could be asked.
fn verify_unused(addresses: &[IpAddr], settings: &Settings, call: &Call<'_>) -> Result<(), Error> {
    let Some(interface) = link::find(settings)? else {
        tracing::debug!("no carrier: nobody can answer");
        return Ok(());
    };
    let mut own = interface.ips.iter().map(|own| own.ip());
    let found = match own.find(|ip| addresses.contains(ip)) {
        Some(ip) => Some((ip, interface.mac.unwrap_or_default())),
        None => wire::first_in_use(&interface, addresses, settings, call.cancellation)?,
    };
    let Some((ip, mac)) = found else {
        return Ok(());
    };
    let name = &interface.name;
    let msg = format!("{ip} is in use on the wire of {name}: {mac} has it, or asks for it, too");
    Err(Error::new(code::IN_USE_ON_THE_WIRE, msg).with_details(REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owners_addresses_are_not_asked_for() {
        let of = |json: &str| {
            let raw = serde_json::value::RawValue::from_string(json.to_owned()).unwrap();
            addresses(&IpamResult::read("prevResult", &raw).unwrap())
        };
        let ips = r#""ips":[{"address":"10.0.0.7/24"},{"address":"fd00::7/64"}]"#;
        let both: Vec<IpAddr> = ["10.0.0.7", "fd00::7"].map(|ip| ip.parse().unwrap()).into();
        assert_eq!(of(&format!("{{{ips}}}")).unwrap(), both);
        let owned = of(&format!(r#"{{{ips},"owned":["10.0.0.7"]}}"#)).unwrap();
        assert_eq!(owned, both[1..]);
        let error = of(&format!(r#"{{{ips},"owned":[7]}}"#)).unwrap_err();
        assert!(error.msg.starts_with("prevResult.owned[0]"), "{error}");
    }
}
