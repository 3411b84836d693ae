//! An attachment with all of its addresses, and the ways to name one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::SystemTime;

use chain::record::AttachmentRecord;
use cni::Attachment;

use crate::arguments::target::{Exact, Target};
use crate::leaks::container_id::is_made_by_a_program;
use crate::node::docker;
use crate::node::held_address::Holding;
use crate::node::inventory::NetworkRecord;
use crate::node::names::Names;

/// An attachment: a container's interface on a network; or one address of a container as a
/// whole, which an old host-local has reserved without an interface.
#[derive(Clone, Debug)]
pub(crate) struct Attached<'a> {
    pub(crate) network: &'a str,
    pub(crate) container: &'a str,
    pub(crate) ifname: Option<&'a str>,
    /// Its addresses; a record without any has one holding without an address.
    pub(crate) holdings: Vec<Holding<'a>>,
    pub(crate) record: Option<&'a NetworkRecord>,
}

/// The attachments that hold something, in the order of network and container.
pub(crate) fn attached<'a>(holdings: Vec<Holding<'a>>) -> Vec<Attached<'a>> {
    let mut all: BTreeMap<_, Attached<'a>> = BTreeMap::new();
    for holding in holdings {
        let (Some(network), Some(container)) = (holding.network, holding.container) else {
            continue;
        };
        // Without an interface, nothing says what an address belongs to.
        let single = holding.ifname.is_none().then_some(holding.ip);
        let directory = holding.directory.map(|it| it.path.as_path());
        let key = (
            network,
            container,
            holding.ifname,
            single.map(|ip| (ip, directory)),
        );
        let it = all.entry(key).or_insert_with(|| Attached {
            network,
            container,
            ifname: holding.ifname,
            holdings: Vec::new(),
            record: holding.record,
        });
        it.holdings.push(holding);
    }
    all.into_values().collect()
}

impl Attached<'_> {
    /// Its container and interface.
    ///
    /// # Errors
    ///
    /// The reason, if the file names no interface, or what can't be a container or an
    /// interface.
    pub(crate) fn attachment(&self) -> Result<Attachment, String> {
        let ifname = self.ifname.ok_or("its reservation names no interface")?;
        Ok(Attachment {
            container_id: self
                .container
                .parse()
                .map_err(|e| format!("{:?} is no container ID: {e}", self.container))?,
            ifname: ifname
                .parse()
                .map_err(|e| format!("{ifname:?} is no interface name: {e}"))?,
        })
    }

    /// Its addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.holdings.iter().filter_map(|it| it.ip)
    }

    /// True if its addresses are kept in etcd.
    pub(crate) fn is_shared(&self) -> bool {
        let mut directories = self.holdings.iter().filter_map(|it| it.directory);
        directories.any(|it| it.shared_by.is_some())
    }

    /// The addresses in one text; `-` if there are none.
    pub(crate) fn addresses_text(&self) -> String {
        let ips: Vec<String> = self.addresses().map(|ip| ip.to_string()).collect();
        if ips.is_empty() {
            return "-".to_owned();
        }
        ips.join(", ")
    }

    /// Docker's side of it, if it was made for Docker.
    pub(crate) fn docker(&self) -> Option<&docker::Holder> {
        // One address that Docker has is enough.
        let holders = self.holdings.iter().filter_map(|it| it.docker);
        holders.min_by_key(|it| it.is_lost())
    }

    /// The content of its record, if there is one that can be used.
    pub(crate) fn content(&self) -> Option<&AttachmentRecord> {
        self.record?.listed.content.as_ref().ok()
    }

    /// The last time at which something happened to it: its ADD, its DEL, a reservation.
    /// `None` if one of these times can't be read.
    pub(crate) fn last_change(&self) -> Option<SystemTime> {
        let reservations = self.holdings.iter().map(|it| it.since);
        let record = self.record.map(|it| it.listed.changed);
        let calls = self.content().map(|it| Some(it.since()));
        let times: Option<Vec<SystemTime>> = reservations.chain(record).chain(calls).collect();
        times?.into_iter().max()
    }

    /// The names of its container.
    pub(crate) fn names(&self) -> Names {
        let holding = self.holdings.first();
        holding.map_or_else(Names::default, Holding::names)
    }

    /// What people call it: `8f3e… eth0 on mynet`.
    pub(crate) fn describe(&self) -> String {
        let ifname = self.ifname.unwrap_or("(any interface)");
        let address = match self.ifname {
            Some(_) => String::new(),
            None => format!(" ({})", self.addresses_text()),
        };
        format!("{} {ifname} on {}{address}", self.container, self.network)
    }
}

/// The attachments that a target names.
///
/// # Errors
///
/// The reason, if it is none, or if the name is not unique.
pub(crate) fn named<'a>(
    all: &'a [Attached<'a>],
    target: &Target,
) -> Result<Vec<&'a Attached<'a>>, String> {
    match target {
        Target::Container(id) => of_container(all, id),
        Target::Address(ip, network) => of_address(all, *ip, |it| {
            network.as_deref().is_none_or(|name| it.is_of(name))
        }),
        Target::Either(word, ip) => of_either(all, word, *ip),
        Target::Exact(exact) => of_exact(all, exact),
    }
}

/// The attachments that a target names, to be released. A beginning is accepted of an ID
/// that a program has made: when `web-1` has been released, it is no name of `web-10`.
///
/// # Errors
///
/// As [`named`].
pub(crate) fn named_to_release<'a>(
    all: &'a [Attached<'a>],
    target: &Target,
) -> Result<Vec<&'a Attached<'a>>, String> {
    let found = named(all, target)?;
    if let (Target::Container(id), Some(it)) = (target, found.first()) {
        let is_enough = it.container == id || is_made_by_a_program(it.container);
        if !is_enough {
            return Err(format!(
                "no attachment of the container {id}; {} begins so, and its ID has to be whole here",
                it.container
            ));
        }
    }
    Ok(found)
}

/// Those that every given name is of.
fn of_exact<'a>(all: &'a [Attached<'a>], exact: &Exact) -> Result<Vec<&'a Attached<'a>>, String> {
    let is_network = |name: &str| exact.network.as_deref().is_none_or(|it| it == name);
    let is_named = |it: &&Attached<'_>| {
        let container = exact.container.as_deref();
        let ifname = exact.ifname.as_deref();
        container.is_none_or(|id| id == it.container)
            && is_network(it.network)
            && ifname.is_none_or(|name| it.ifname == Some(name))
    };
    let mut found: Vec<&Attached<'_>> = all.iter().filter(is_named).collect();
    if let Some(ip) = exact.ip {
        found.retain(|it| it.addresses().any(|its| its == ip));
        if found.len() > 1 {
            return Err(several(ip, &found));
        }
    }
    if found.is_empty() {
        return Err(format!("nothing is held by {exact}"));
    }
    Ok(found)
}

/// A word that is an address, and may be a container's ID as well.
fn of_either<'a>(
    all: &'a [Attached<'a>],
    word: &str,
    ip: IpAddr,
) -> Result<Vec<&'a Attached<'a>>, String> {
    let of_container: Vec<&Attached<'_>> = all.iter().filter(|it| it.container == word).collect();
    let holders = of_address(all, ip, |_| true);
    let is_held = all.iter().any(|it| it.addresses().any(|its| its == ip));
    match (of_container.is_empty(), is_held) {
        (false, true) => Err(format!(
            "{word} is a container's ID, and an address that is held: say --container or --address"
        )),
        (false, false) => Ok(of_container),
        (true, _) => holders,
    }
}

fn of_container<'a>(all: &'a [Attached<'a>], id: &str) -> Result<Vec<&'a Attached<'a>>, String> {
    let whole: Vec<&Attached<'_>> = all.iter().filter(|it| it.container == id).collect();
    if !whole.is_empty() {
        return Ok(whole);
    }
    let found: Vec<&Attached<'_>> = all
        .iter()
        .filter(|it| it.container.starts_with(id))
        .collect();
    let mut containers: Vec<&str> = found.iter().map(|it| it.container).collect();
    containers.sort_unstable();
    containers.dedup();
    match containers[..] {
        [] => Err(format!(
            "no attachment of a container whose ID begins with {id}"
        )),
        [_] => Ok(found),
        _ => Err(format!(
            "{id} is the beginning of {} container IDs: {}",
            containers.len(),
            containers.join(", ")
        )),
    }
}

fn of_address<'a>(
    all: &'a [Attached<'a>],
    ip: IpAddr,
    is_wanted: impl Fn(&Holding<'_>) -> bool,
) -> Result<Vec<&'a Attached<'a>>, String> {
    let holds = |it: &&Attached<'_>| {
        let mut holdings = it.holdings.iter();
        holdings.any(|holding| holding.ip == Some(ip) && is_wanted(holding))
    };
    let found: Vec<&Attached<'_>> = all.iter().filter(holds).collect();
    match found[..] {
        [] => Err(format!("nobody is known to hold {ip}")),
        [_] => Ok(found),
        _ => Err(several(ip, &found)),
    }
}

fn several(ip: IpAddr, found: &[&Attached<'_>]) -> String {
    let who: Vec<String> = found.iter().map(|it| it.describe()).collect();
    format!(
        "{ip} is held {} times: {}; name NETWORK ADDRESS, or --container, --network and --ifname",
        found.len(),
        who.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::held_address::HoldingState;

    fn holding<'a>(network: &'a str, container: &'a str, ip: &str) -> Holding<'a> {
        Holding {
            ip: Some(ip.parse().unwrap()),
            network: Some(network),
            directory: None,
            pool: None,
            container: Some(container),
            ifname: Some("eth0"),
            since: None,
            state: HoldingState::Reserved,
            record: None,
            docker: None,
        }
    }

    #[test]
    fn an_attachment_is_found_by_a_unique_beginning_and_by_its_address() {
        let all = attached(vec![
            holding("a", "8f3e01", "10.0.0.2"),
            holding("a", "8f3e01", "fd00::2"),
            holding("b", "8f3e02", "10.0.0.2"),
            holding("b", "8f3e", "10.0.0.3"),
        ]);
        let find = |words: &[&str]| -> Result<Vec<String>, String> {
            let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
            let found = named(&all, &Target::read(&words)?)?;
            Ok(found.iter().map(|it| it.describe()).collect())
        };
        assert_eq!(find(&["8f3e01"]).unwrap(), ["8f3e01 eth0 on a"]);
        // Whole, though it is also the beginning of others.
        assert_eq!(find(&["8f3e"]).unwrap(), ["8f3e eth0 on b"]);
        assert!(find(&["8f3e0"]).unwrap_err().contains("8f3e01, 8f3e02"));
        assert!(find(&["9"]).unwrap_err().contains("begins with 9"));
        assert_eq!(find(&["fd00::2"]).unwrap(), ["8f3e01 eth0 on a"]);
        assert!(find(&["10.0.0.2"]).unwrap_err().contains("NETWORK ADDRESS"));
        assert_eq!(find(&["b", "10.0.0.2"]).unwrap(), ["8f3e02 eth0 on b"]);
        assert!(
            find(&["10.0.0.9"])
                .unwrap_err()
                .contains("nobody is known to hold")
        );
    }

    #[test]
    fn a_word_that_is_an_address_and_a_containers_id_is_refused() {
        let all = attached(vec![
            holding("a", "10.0.0.3", "10.0.0.2"),
            holding("a", "web", "10.0.0.3"),
            holding("a", "10.0.0.9", "10.0.0.4"),
        ]);
        let find = |word: &str| {
            let found = named_to_release(&all, &Target::read(&[word.to_owned()])?)?;
            Ok::<_, String>(found[0].container.to_owned())
        };
        assert!(find("10.0.0.3").unwrap_err().contains("--container"));
        assert_eq!(find("10.0.0.2").as_deref(), Ok("10.0.0.3"));
        assert_eq!(find("10.0.0.9").as_deref(), Ok("10.0.0.9"));
        let exact = |container: Option<&str>, ip: Option<&str>| {
            let target = Target::Exact(Exact {
                container: container.map(str::to_owned),
                ip: ip.map(|it| it.parse().unwrap()),
                ..Exact::default()
            });
            Ok::<_, String>(named(&all, &target)?[0].container.to_owned())
        };
        assert_eq!(exact(Some("10.0.0.3"), None).as_deref(), Ok("10.0.0.3"));
        assert_eq!(exact(None, Some("10.0.0.3")).as_deref(), Ok("web"));
        assert!(
            exact(Some("we"), None)
                .unwrap_err()
                .contains("container we")
        );
    }

    #[test]
    fn an_address_without_an_interface_is_an_attachment_by_itself() {
        let without = |ip: &str| Holding {
            ifname: None,
            ..holding("a", "c1", ip)
        };
        let all = attached(vec![
            without("10.0.0.2"),
            without("10.0.0.3"),
            holding("a", "c1", "10.0.0.4"),
        ]);
        assert_eq!(all.len(), 3);
        let words = ["10.0.0.3".to_owned()];
        let found = named_to_release(&all, &Target::read(&words).unwrap()).unwrap();
        assert_eq!(found[0].addresses_text(), "10.0.0.3");
        assert!(found[0].attachment().is_err());
    }

    #[test]
    fn only_a_beginning_of_an_id_that_a_program_has_made_is_enough_to_release_it() {
        let digits = "8f".repeat(32);
        let all = attached(vec![
            holding("a", "web-10", "10.0.0.2"),
            holding("a", &digits, "10.0.0.3"),
        ]);
        let find = |word: &str| {
            let found = named_to_release(&all, &Target::read(&[word.to_owned()])?)?;
            Ok::<_, String>(found[0].container.to_owned())
        };
        assert_eq!(find("8f8f"), Ok(digits.clone()));
        assert_eq!(find("web-10").as_deref(), Ok("web-10"));
        assert!(find("web-1").unwrap_err().contains("has to be whole"));
        assert!(find("").unwrap_err().contains("empty"));
    }
}
