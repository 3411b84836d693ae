//! The ways to name an attachment on the command line.

use std::fmt;
use std::net::IpAddr;

use crate::output::joined;

/// An attachment, as a person names it. A missing name matches any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// A container ID, the beginning of one, or an address. All other names are missing then.
    pub(crate) word: Option<String>,
    pub(crate) container: Option<String>,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) network: Option<String>,
    /// The network, or the named pool, of the address.
    pub(crate) network_or_pool: Option<String>,
    pub(crate) ifname: Option<String>,
}

impl Target {
    /// Reads one or two words.
    ///
    /// # Errors
    ///
    /// The reason, if a word is empty, or the second of two is not an address.
    pub(crate) fn read(words: &[String]) -> Result<Self, String> {
        match words {
            [network, address] => match address.parse() {
                Ok(ip) => Ok(Self {
                    network_or_pool: Some(network.clone()),
                    ..Self::of_address(ip)
                }),
                Err(_) => Err(format!(
                    "{address:?} is not an address; name ID, ADDRESS, or NETWORK ADDRESS"
                )),
            },
            [word] if !word.is_empty() => Ok(Self {
                word: Some(word.clone()),
                ..Self::default()
            }),
            _ => Err("the ID is empty".to_owned()),
        }
    }

    /// The holder of this address.
    pub(crate) fn of_address(ip: IpAddr) -> Self {
        Self {
            ip: Some(ip),
            ..Self::default()
        }
    }

    /// The address, if the target is or may be one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.ip.or_else(|| self.word.as_ref()?.parse().ok())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = self.ip.map(|ip| ip.to_string());
        let names = [
            ("container", &self.container),
            ("address", &ip),
            ("network", &self.network),
            ("network or pool", &self.network_or_pool),
            ("interface", &self.ifname),
        ];
        let names = names.iter();
        let names = names.filter_map(|(kind, name)| Some(format!("{kind} {}", name.as_ref()?)));
        f.write_str(&joined(names, ", "))
    }
}
