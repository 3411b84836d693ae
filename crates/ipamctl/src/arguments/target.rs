//! The ways to name an attachment on the command line.

use std::fmt;
use std::net::IpAddr;

/// What a person names an attachment by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The beginning of a container ID, or the whole of it.
    Container(String),
    /// An address, and the network or pool that it is of, if that was said.
    Address(IpAddr, Option<String>),
    /// A word that is an address, and may be a container ID: the word and the address.
    Either(String, IpAddr),
    /// Names, each of one kind.
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

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = self.ip.map(|ip| ip.to_string());
        let names = [
            ("container", &self.container),
            ("address", &ip),
            ("network", &self.network),
            ("interface", &self.ifname),
        ];
        let names = names.into_iter();
        let texts = names.filter_map(|(kind, name)| Some(format!("{kind} {}", name.as_ref()?)));
        f.write_str(&texts.collect::<Vec<_>>().join(", "))
    }
}

impl Target {
    /// The address, if it names one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Container(_) => None,
            Self::Address(ip, _) | Self::Either(_, ip) => Some(*ip),
            Self::Exact(it) => it.ip,
        }
    }

    /// The network or pool, if it names one.
    pub(crate) fn network(&self) -> Option<&str> {
        match self {
            Self::Container(_) | Self::Either(..) => None,
            Self::Address(_, network) => network.as_deref(),
            Self::Exact(it) => it.network.as_deref(),
        }
    }

    /// Reads one or two words.
    ///
    /// # Errors
    ///
    /// The reason, if a word is empty, or the second of two is no address.
    pub(crate) fn read(words: &[String]) -> Result<Self, String> {
        match words {
            [network, address] => match address.parse() {
                Ok(ip) => Ok(Self::Address(ip, Some(network.clone()))),
                Err(_) => Err(format!(
                    "{address:?} is no address; name ID, ADDRESS, or NETWORK ADDRESS"
                )),
            },
            [word, ..] if word.is_empty() => Err("the ID is empty".to_owned()),
            [word, ..] => Ok(match word.parse() {
                Ok(ip) => Self::Either(word.clone(), ip),
                Err(_) => Self::Container(word.clone()),
            }),
            [] => Err("nothing is named".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_is_named_in_three_ways() {
        let read = |words: &[&str]| {
            Target::read(&words.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
        };
        let ip: IpAddr = "10.0.0.2".parse().unwrap();
        assert_eq!(read(&["8f3e"]), Ok(Target::Container("8f3e".into())));
        let either = Target::Either("10.0.0.2".into(), ip);
        assert_eq!(read(&["10.0.0.2"]), Ok(either));
        assert_eq!(
            read(&["mynet", "10.0.0.2"]),
            Ok(Target::Address(ip, Some("mynet".into())))
        );
        assert!(read(&["mynet", "8f3e"]).unwrap_err().contains("8f3e"));
    }
}
