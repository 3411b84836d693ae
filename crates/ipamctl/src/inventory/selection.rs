//! Selects the attachments that a command line names: by address, owner, or container ID.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::attachment::NetworkAttachment;
use crate::arguments::Target;
use crate::output::joined;

/// The attachments that a target names: the holder of the address, or all of the container or owner.
///
/// The beginning of an ID is accepted only if the ID was generated: after the release of `web-1`,
/// `web-1` must not mean `web-10`.
///
/// # Errors
///
/// None matches, or the name is ambiguous.
pub(crate) fn select<'s, 'a>(
    all: &'s [NetworkAttachment<'a>],
    target: &Target,
) -> Result<Vec<&'s NetworkAttachment<'a>>> {
    let word = target.word.as_str();
    let matching = |is_named: &dyn Fn(&NetworkAttachment<'_>) -> bool| {
        let (network, ifname) = (target.network.as_deref(), target.ifname.as_deref());
        let is_wanted = |one: &&NetworkAttachment<'_>| {
            network.is_none_or(|network| network == one.network)
                && (ifname.is_none() || ifname == one.ifname)
                && is_named(one)
        };
        all.iter().filter(is_wanted).collect::<Vec<_>>()
    };
    let ip = ipam::parse_address(word).map(|ip| ip.to_canonical());
    let mut holders = matching(&|one| one.ips().any(|held| Some(held) == ip));
    // A container has its owner's address.
    if holders.iter().any(|one| one.container.is_some()) {
        holders.retain(|one| one.owner().is_none());
    }
    let is_named = |one: &NetworkAttachment<'_>| [one.container, one.owner()].contains(&Some(word));
    let named = matching(&is_named);
    match (&holders[..], &named[..]) {
        ([_], []) => return Ok(holders),
        ([], [_, ..]) => return Ok(named),
        ([], []) => {}
        ([..], []) => bail!(
            "{word} is held {} times: {}; choose by --network",
            holders.len(),
            joined(holders, "; ")
        ),
        _ => bail!(
            "{word} is an address of {}, and the container ID of {}: name the first by its container \
             ID, or the second by its address",
            joined(holders, "; "),
            joined(named, "; ")
        ),
    }
    let beginning = matching(&|one| one.container.is_some_and(|id| id.starts_with(word)));
    let ids: BTreeSet<&str> = beginning.iter().filter_map(|one| one.container).collect();
    match ids.len() {
        0 => bail!("nothing is held by {word}; ipamctl ls shows what is"),
        1 if ids.iter().all(|id| is_generated(id)) => Ok(beginning),
        1 => bail!(
            "nothing is held by {word}; {} begins with it, and has to be named whole",
            joined(ids, ", ")
        ),
        number => bail!(
            "{word} is the beginning of {number} container IDs; name one of them whole: {}",
            joined(ids, ", ")
        ),
    }
}

/// True for an ID that a runtime has made: it has at least 32 hexadecimal digits. None of these is the
/// beginning of another by accident, as `web-1` is of `web-10`.
fn is_generated(id: &str) -> bool {
    id.bytes().filter(u8::is_ascii_hexdigit).count() >= 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{Row, RowState, attachments};

    const WEB: &str = "8f3e01aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn held(network: &str, container: &str, ip: &str) -> Row {
        Row {
            network: Some(network.to_owned()),
            container: Some(container.to_owned()),
            ifname: Some("eth0".to_owned()),
            ip: Some(ip.parse().unwrap()),
            ..Row::default()
        }
    }

    /// The attachments that this word names on this network, or the reason why there is none.
    fn find(rows: &[Row], word: &str, network: Option<&str>) -> Result<String, String> {
        let target = Target {
            word: word.to_owned(),
            network: network.map(str::to_owned),
            ifname: None,
        };
        let all = attachments(rows);
        let found = select(&all, &target).map_err(|error| error.to_string());
        found.map(|found| joined(found, "; "))
    }

    #[test]
    fn an_address_may_have_its_prefix_and_be_written_as_ipv6() {
        let rows = [held("net", "c1", "10.1.0.2")];
        let found = find(&rows, "10.1.0.2", None);
        for word in ["10.1.0.2/24", "::ffff:10.1.0.2"] {
            assert_eq!(find(&rows, word, None), found);
        }
    }

    #[track_caller]
    fn assert_refused(found: &Result<String, String>, part: &str) {
        let reason = found.as_ref().unwrap_err();
        assert!(reason.contains(part), "{reason}");
    }

    #[test]
    fn an_attachment_is_found_by_its_container_by_a_unique_beginning_and_by_its_address() {
        let other = WEB.replace("8f3e01", "8f3e02");
        let rows = [
            held("a", WEB, "10.0.0.2"),
            held("a", WEB, "fd00::2"),
            held("b", &other, "10.0.0.2"),
            held("b", "8f3e", "10.0.0.3"),
        ];
        let of_web = Ok(format!("{WEB} eth0 on a (10.0.0.2, fd00::2)"));
        for word in [WEB, "8f3e01", "fd00::2"] {
            assert_eq!(find(&rows, word, None), of_web, "{word}");
        }
        // Whole, though it is also the beginning of others.
        let whole = Ok("8f3e eth0 on b (10.0.0.3)".to_owned());
        assert_eq!(find(&rows, "8f3e", None), whole);
        assert_refused(&find(&rows, "8f3e0", None), &format!("{WEB}, {other}"));
        assert_refused(&find(&rows, "9", None), "nothing is held by 9");
        assert_refused(&find(&rows, "10.0.0.2", None), "choose by --network");
        assert_eq!(find(&rows, "10.0.0.2", Some("a")), of_web);
        assert_refused(&find(&rows, "10.0.0.9", None), "nothing is held");
    }

    #[test]
    fn a_word_that_is_an_address_and_a_containers_id_is_refused() {
        let rows = [
            held("a", "10.0.0.3", "10.0.0.2"),
            held("a", "web", "10.0.0.3"),
            held("a", "10.0.0.9", "10.0.0.4"),
        ];
        assert_refused(
            &find(&rows, "10.0.0.3", None),
            "the container ID of 10.0.0.3",
        );
        let by_address = find(&rows, "10.0.0.2", None).unwrap();
        assert!(by_address.starts_with("10.0.0.3 eth0"), "{by_address}");
        let by_id = find(&rows, "10.0.0.9", None).unwrap();
        assert!(by_id.ends_with("(10.0.0.4)"), "{by_id}");
    }

    #[test]
    fn an_address_without_an_interface_or_a_container_is_an_attachment_by_itself() {
        let of_c1 = |ip: &str| held("a", "c1", ip);
        let without = |ip: &str| Row {
            ifname: None,
            ..of_c1(ip)
        };
        let torn = Row {
            container: None,
            state: RowState::Torn,
            ..without("10.0.0.5")
        };
        let rows = [
            without("10.0.0.2"),
            without("10.0.0.3"),
            of_c1("10.0.0.4"),
            torn,
        ];
        assert_eq!(attachments(&rows).len(), 4);
        let found = find(&rows, "10.0.0.3", None).unwrap();
        assert_eq!(found, "c1 (any interface) on a (10.0.0.3)");
        let found = find(&rows, "10.0.0.5", None).unwrap();
        assert_eq!(found, "(no container) (any interface) on a (10.0.0.5)");
    }

    #[test]
    fn the_beginning_of_a_name_that_a_person_has_made_is_not_enough() {
        let rows = [held("a", "web-10", "10.0.0.2")];
        assert!(find(&rows, "web-10", None).is_ok());
        assert_refused(&find(&rows, "web-1", None), "has to be named whole");
    }
}
