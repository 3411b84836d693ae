//! Selects the attachments that a command line names.

use std::collections::BTreeSet;

use crate::arguments::target::Target;
use crate::node::attachment::NetworkAttachment;
use crate::node::container_id::is_generated;
use crate::output::joined;

/// The matching attachments, or the reason why there is none.
type Found<'s, 'a> = Result<Vec<&'s NetworkAttachment<'a>>, String>;

/// The attachments that a target names.
///
/// # Errors
///
/// The reason, if none matches, or if the name is ambiguous.
pub(crate) fn select<'s, 'a>(all: &'s [NetworkAttachment<'a>], target: &Target) -> Found<'s, 'a> {
    let Some(word) = &target.word else {
        return by_names(all, target);
    };
    let containers = |is_wanted: &dyn Fn(&str) -> bool| -> Vec<&'s NetworkAttachment<'a>> {
        all.iter().filter(|of| is_wanted(of.container)).collect()
    };
    let whole = containers(&|id| id == word);
    match target.ip() {
        Some(ip) if whole.is_empty() => by_names(all, &Target::of_address(ip)),
        Some(ip) if all.iter().any(|attachment| attachment.holds(ip)) => Err(format!(
            "{word} is a container's ID, and a reserved address: use --container or --address"
        )),
        _ if !whole.is_empty() => Ok(whole),
        _ => {
            let found = containers(&|id| id.starts_with(word));
            let ids: BTreeSet<&str> = found.iter().map(|of| of.container).collect();
            match ids.len() {
                0 => Err(format!(
                    "no attachment of a container whose ID begins with {word}"
                )),
                1 => Ok(found),
                number => Err(format!(
                    "{word} is the beginning of {number} container IDs: {}",
                    joined(ids, ", ")
                )),
            }
        }
    }
}

/// The attachments that a target names, for a release. The beginning of an ID is accepted only if
/// the ID was generated: after the release of `web-1`, `web-1` must not mean `web-10`.
///
/// # Errors
///
/// As [`select`].
pub(crate) fn select_to_release<'s, 'a>(
    all: &'s [NetworkAttachment<'a>],
    target: &Target,
) -> Found<'s, 'a> {
    let found = select(all, target)?;
    if let (Some(word), [first, ..]) = (&target.word, &found[..])
        && target.ip().is_none()
        && first.container != word
        && !is_generated(first.container)
    {
        return Err(format!(
            "no attachment of the container {word}; {} begins with it, and its ID has to be whole here",
            first.container
        ));
    }
    Ok(found)
}

/// The attachments that match all names. An address must match only one.
fn by_names<'s, 'a>(all: &'s [NetworkAttachment<'a>], target: &Target) -> Found<'s, 'a> {
    let is =
        |wanted: &Option<String>, name: Option<&str>| wanted.is_none() || wanted.as_deref() == name;
    let is_wanted = |attachment: &&NetworkAttachment<'_>| {
        let mut addresses = attachment.addresses.iter();
        is(&target.container, Some(attachment.container))
            && is(&target.network, Some(attachment.network))
            && is(&target.ifname, attachment.ifname)
            && addresses.any(|held| {
                let place = target.network_or_pool.as_ref();
                place.is_none_or(|name| held.is_of(name))
                    && (target.ip.is_none() || held.ip == target.ip)
            })
    };
    let found: Vec<_> = all.iter().filter(is_wanted).collect();
    match (target.ip, &found[..]) {
        (_, []) => Err(format!("nothing is held by {target}")),
        (Some(ip), [_, _, ..]) => Err(format!(
            "{ip} is held {} times: {}; name NETWORK ADDRESS, or --container, --network and --ifname",
            found.len(),
            joined(&found, "; ")
        )),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::attachment::attachments;
    use crate::node::held_address::HeldAddress;

    fn held<'a>(network: &'a str, container: &'a str, ip: &str) -> HeldAddress<'a> {
        HeldAddress {
            network: Some(network),
            container: Some(container),
            ifname: Some("eth0"),
            ip: Some(ip.parse().unwrap()),
            ..HeldAddress::default()
        }
    }

    /// The attachments that these words name, or the reason why there is none.
    fn find(all: &[NetworkAttachment<'_>], words: &[&str]) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Ok(joined(select(all, &Target::read(&words)?)?, ", "))
    }

    /// The container that is released by this word.
    fn to_release(all: &[NetworkAttachment<'_>], word: &str) -> Result<String, String> {
        let found = select_to_release(all, &Target::read(&[word.to_owned()])?)?;
        Ok(found[0].container.to_owned())
    }

    #[test]
    fn an_attachment_is_found_by_a_unique_beginning_and_by_its_address() {
        let all = attachments(vec![
            held("a", "8f3e01", "10.0.0.2"),
            held("a", "8f3e01", "fd00::2"),
            held("b", "8f3e02", "10.0.0.2"),
            held("b", "8f3e", "10.0.0.3"),
        ]);
        for (words, expected) in [
            (&["8f3e01"][..], Ok("8f3e01 eth0 on a")),
            // Whole, though it is also the beginning of others.
            (&["8f3e"], Ok("8f3e eth0 on b")),
            (&["8f3e0"], Err("8f3e01, 8f3e02")),
            (&["9"], Err("begins with 9")),
            (&["fd00::2"], Ok("8f3e01 eth0 on a")),
            (&["10.0.0.2"], Err("NETWORK ADDRESS")),
            (&["b", "10.0.0.2"], Ok("8f3e02 eth0 on b")),
            (&["b", "8f3e"], Err("8f3e")),
            (&["10.0.0.9"], Err("nothing is held by address 10.0.0.9")),
            (&[""], Err("empty")),
        ] {
            match (find(&all, words), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
                (found, expected) => panic!("{words:?}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_word_that_is_an_address_and_a_containers_id_is_refused() {
        let all = attachments(vec![
            held("a", "10.0.0.3", "10.0.0.2"),
            held("a", "web", "10.0.0.3"),
            held("a", "10.0.0.9", "10.0.0.4"),
        ]);
        let refused = to_release(&all, "10.0.0.3").unwrap_err();
        assert!(refused.contains("--container"), "{refused}");
        assert_eq!(to_release(&all, "10.0.0.2").as_deref(), Ok("10.0.0.3"));
        assert_eq!(to_release(&all, "10.0.0.9").as_deref(), Ok("10.0.0.9"));
        let exact = |container: Option<&str>, ip: Option<&str>| {
            let target = Target {
                container: container.map(str::to_owned),
                ip: ip.map(|ip| ip.parse().unwrap()),
                ..Target::default()
            };
            Ok::<_, String>(select(&all, &target)?[0].container.to_owned())
        };
        assert_eq!(exact(Some("10.0.0.3"), None).as_deref(), Ok("10.0.0.3"));
        assert_eq!(exact(None, Some("10.0.0.3")).as_deref(), Ok("web"));
        let beginning = exact(Some("we"), None).unwrap_err();
        assert!(beginning.contains("container we"), "{beginning}");
    }

    #[test]
    fn an_address_without_an_interface_is_an_attachment_by_itself() {
        let without = |ip: &str| HeldAddress {
            ifname: None,
            ..held("a", "c1", ip)
        };
        let all = attachments(vec![
            without("10.0.0.2"),
            without("10.0.0.3"),
            held("a", "c1", "10.0.0.4"),
        ]);
        assert_eq!(all.len(), 3);
        let target = Target::read(&["10.0.0.3".to_owned()]).unwrap();
        let found = select_to_release(&all, &target).unwrap();
        assert_eq!(found[0].ips_text("-"), "10.0.0.3");
        assert!(found[0].attachment().is_err());
    }

    #[test]
    fn only_the_beginning_of_a_generated_id_is_enough_to_release_it() {
        let digits = "8f".repeat(32);
        let all = attachments(vec![
            held("a", "web-10", "10.0.0.2"),
            held("a", &digits, "10.0.0.3"),
        ]);
        assert_eq!(to_release(&all, "8f8f"), Ok(digits.clone()));
        assert_eq!(to_release(&all, "web-10").as_deref(), Ok("web-10"));
        let refused = to_release(&all, "web-1").unwrap_err();
        assert!(refused.contains("has to be whole"), "{refused}");
        assert!(to_release(&all, "").unwrap_err().contains("empty"));
    }
}
