//! The ways to name an attachment on the command line.

use std::fmt;
use std::net::IpAddr;

/// An attachment, as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A container ID, the beginning of one, or an address.
    Word(String),
    /// An address, and the network or pool that it belongs to.
    Address(IpAddr, String),
    /// Options; what is missing may be anything.
    Exact(Exact),
}

/// Names of an attachment, each of one kind. What is missing may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exact {
    pub(crate) container: Option<String>,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) network: Option<String>,
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
                Ok(ip) => Ok(Self::Address(ip, network.clone())),
                Err(_) => Err(format!(
                    "{address:?} is not an address; name ID, ADDRESS, or NETWORK ADDRESS"
                )),
            },
            [word] if !word.is_empty() => Ok(Self::Word(word.clone())),
            _ => Err("the ID is empty".to_owned()),
        }
    }

    /// The address, if it may name one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Word(word) => word.parse().ok(),
            Self::Address(ip, _) => Some(*ip),
            Self::Exact(exact) => exact.ip,
        }
    }

    /// The network or pool, if it names one.
    pub(crate) fn network(&self) -> Option<&str> {
        match self {
            Self::Word(_) => None,
            Self::Address(_, network) => Some(network),
            Self::Exact(exact) => exact.network.as_deref(),
        }
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = self.ip.map(|ip| ip.to_string());
        let names = [
            ("container", &self.container),
            ("address", &ip),
            ("network", &self.network),
            ("interface", &self.ifname),
        ];
        let given = names.iter().filter(|(_, name)| name.is_some());
        for (i, (kind, name)) in given.enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(
                f,
                "{separator}{kind} {}",
                name.as_deref().unwrap_or_default()
            )?;
        }
        Ok(())
    }
}
