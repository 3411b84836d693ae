//! The state of an interface: whether somebody on its wire can be asked.

use cni::{Error, code};
use pnet_datalink::NetworkInterface;

use crate::settings::Settings;

/// The interface of the settings; `None` for a bridge without carrier: nobody is connected, so nobody
/// can answer.
///
/// # Errors
///
/// Code 5: it is missing, down, or not of Ethernet. Code 11: it isn't a bridge, and has no carrier:
/// who is on its wire is unknown.
pub(crate) fn find(settings: &Settings) -> Result<Option<NetworkInterface>, Error> {
    let name = &settings.interface;
    let refused = |code, why: &str| {
        let msg = format!(
            "{}: the host's interface {name:?} {why}, so nobody can be asked",
            settings.key
        );
        Err(Error::new(code, msg))
    };
    let mut all = pnet_datalink::interfaces().into_iter();
    let Some(interface) = all.find(|interface| interface.name == *name) else {
        return refused(code::IO, "is missing");
    };
    if interface.mac.is_none_or(|mac| mac.is_zero()) {
        return refused(code::IO, "has no MAC address");
    }
    if !interface.is_up() {
        return refused(code::IO, "is down");
    }
    match interface.is_lower_up() {
        true => Ok(Some(interface)),
        false if settings.is_bridge => Ok(None),
        false => refused(code::TRY_AGAIN_LATER, "has no carrier"),
    }
}
