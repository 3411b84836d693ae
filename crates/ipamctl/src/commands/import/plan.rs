//! Plans the import of whereabouts' addresses, without a request.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::str::FromStr;

use cluster::contents::{DefinedPool, HeldAddress};
use cluster::{HeldKey, Holder};
use cni::{Attachment, InvalidName, NetworkName};
use kubernetes::whereabouts::{Allocation, PodAttachment};
use serde::Serialize;

/// An address of whereabouts. The keys are documented, and don't change their meaning.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row<'g> {
    address: IpAddr,
    pool: &'g NetworkName,
    /// Namespace and name of the `IPPool`.
    ip_pool: &'g str,
    /// Namespace and name of the pod.
    pod: &'g str,
    #[serde(rename = "containerID")]
    container_id: &'g str,
    node: Option<&'g str>,
    network: Option<&'g str>,
    ifname: Option<&'g str>,
    /// `claimed`, `held`, `would-claim`, `not-imported`, `conflict`.
    pub(super) outcome: &'static str,
    pub(super) reason: Option<String>,
    /// `None` if the address can't be claimed.
    #[serde(skip)]
    pub(super) claim: Option<Claim<'g>>,
}

/// A claim of an address.
pub(super) struct Claim<'g> {
    pub(super) pool: &'g DefinedPool,
    pub(super) held: HeldKey,
    pub(super) attachment: &'g PodAttachment,
}

/// The plan.
#[derive(Default)]
pub(super) struct Plan<'g> {
    pub(super) rows: Vec<Row<'g>>,
    /// Number of addresses that no pool has, by `IPPool`.
    pub(super) of_no_pool: BTreeMap<&'g str, usize>,
}

impl<'g> Plan<'g> {
    /// The plan for these allocations.
    pub(super) fn new(
        given: &'g [(Allocation, Result<PodAttachment, String>)],
        pools: &'g [DefinedPool],
        held: &[HeldAddress],
    ) -> Self {
        let held: HashMap<IpAddr, &HeldAddress> = held.iter().map(|held| (held.ip, held)).collect();
        let mut by_ip: HashMap<IpAddr, Vec<&Allocation>> = HashMap::new();
        for (allocation, _) in given {
            by_ip.entry(allocation.ip).or_default().push(allocation);
        }
        let mut plan = Self::default();
        for (allocation, attachment) in given {
            let ip = allocation.ip;
            let has = |pool: &&DefinedPool| pool.definition.pool.ranges.range_of(ip).is_some();
            let Some(pool) = pools.iter().find(has) else {
                *plan.of_no_pool.entry(&allocation.ip_pool).or_default() += 1;
                continue;
            };
            let claim = claim(allocation, pool, attachment);
            let mut others = by_ip[&ip].iter().copied();
            let other = others.find(|other| *other != allocation);
            let known = claim.as_ref().ok();
            let conflict = conflict(pool, ip, known, held.get(&ip).copied(), other);
            let (outcome, reason, claim) = match (claim, conflict) {
                (_, Some(reason)) => ("conflict", Some(reason), None),
                (Err(reason), None) => ("not-imported", Some(reason), None),
                (Ok(claim), None) => ("would-claim", None, Some(claim)),
            };
            let attachment = attachment.as_ref().ok();
            let ifname = attachment.map(|attachment| &attachment.ifname);
            plan.rows.push(Row {
                address: ip,
                pool: &pool.name,
                ip_pool: &allocation.ip_pool,
                pod: &allocation.pod,
                container_id: &allocation.container_id,
                node: attachment.map(|attachment| attachment.node.as_str()),
                network: attachment.map(|attachment| attachment.network.as_str()),
                ifname: ifname.or(allocation.ifname.as_ref()).map(String::as_str),
                outcome,
                reason,
                claim,
            });
        }
        plan
    }
}

/// The claim of an address, or the reason why its holder is unknown.
fn claim<'g>(
    allocation: &Allocation,
    pool: &'g DefinedPool,
    attachment: &'g Result<PodAttachment, String>,
) -> Result<Claim<'g>, String> {
    let attachment = attachment.as_ref().map_err(Clone::clone)?;
    Ok(Claim {
        pool,
        held: HeldKey {
            node: attachment.node.clone(),
            network: parsed("network", &attachment.network)?,
            attachment: Attachment {
                container_id: parsed("container", &allocation.container_id)?,
                ifname: parsed("interface", &attachment.ifname)?,
            },
            pool: pool.name.clone(),
            ip: allocation.ip,
        },
        attachment,
    })
}

fn parsed<T: FromStr<Err = InvalidName>>(what: &str, text: &str) -> Result<T, String> {
    let name = text.parse();
    name.map_err(|error| format!("{what} {text:?}: {error}"))
}

/// The reason why an address can't be claimed.
fn conflict(
    pool: &DefinedPool,
    ip: IpAddr,
    claim: Option<&Claim<'_>>,
    held: Option<&HeldAddress>,
    other: Option<&Allocation>,
) -> Option<String> {
    if pool.definition.block.is_some() {
        return Some(format!("pool {} is given in blocks", pool.name));
    }
    let ranges = pool.definition.pool.ranges.ranges();
    if ranges.iter().any(|range| range.gateway() == ip) {
        return Some(format!(
            "it is a gateway of pool {}: define the pool with another gateway",
            pool.name
        ));
    }
    if let Some(other) = other {
        let (container, ip_pool) = (&other.container_id, &other.ip_pool);
        return Some(format!(
            "IPPool {ip_pool} has it for {container} of pod {}, too",
            other.pod
        ));
    }
    let held = held?;
    let is_same = claim.is_some_and(|claim| {
        let key = &claim.held;
        let is_of = |holder: &Holder| {
            holder.node == key.node && holder.is(&key.attachment, key.network.as_str())
        };
        held.pool == key.pool && held.holder.as_ref().is_some_and(is_of)
    });
    let holder = match &held.holder {
        Some(holder) => Holder::describe(&holder.to_value()),
        None => "held by content that isn't ours".to_owned(),
    };
    // An address of an unknown attachment isn't claimed in any case.
    (claim.is_some() && !is_same).then(|| format!("it is {holder}, in pool {}", held.pool))
}

impl Row<'_> {
    pub(super) fn text(&self) -> String {
        let (address, pool, pod) = (self.address, self.pool, self.pod);
        let ifname = self.ifname.unwrap_or("(unknown interface)");
        let place = match (self.node, self.network) {
            (Some(node), Some(network)) => format!(" on {node}, network {network}"),
            _ => format!(", IPPool {}", self.ip_pool),
        };
        let outcome = match self.outcome {
            "would-claim" => "would be claimed",
            "not-imported" => "not imported",
            other => other,
        };
        let reason = self.reason.iter().map(|reason| format!(": {reason}"));
        let reason: String = reason.collect();
        format!("{address} of pool {pool} ({pod} {ifname}{place}): {outcome}{reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: &str = r#"{"subnet":"10.40.0.0/24"}"#;

    fn given(ip: &str, container: &str) -> (Allocation, Result<PodAttachment, String>) {
        let allocation = Allocation {
            ip: ip.parse().unwrap(),
            ip_pool: "kube-system/p".into(),
            container_id: container.into(),
            ifname: None,
            pod: "shop/web".into(),
        };
        let attachment = PodAttachment {
            node: "n1".into(),
            network: "net".into(),
            ifname: "net1".into(),
            namespace: "shop".into(),
            pod: "web".into(),
            definition: None,
        };
        (allocation, Ok(attachment))
    }

    fn held(container: &str) -> HeldAddress {
        HeldAddress {
            pool: "lan".parse().unwrap(),
            ip: "10.40.0.7".parse().unwrap(),
            holder: Some(Holder {
                node: "n1".into(),
                network: "net".into(),
                container_id: container.into(),
                ifname: "net1".into(),
                since: String::new(),
                call: None,
            }),
        }
    }

    /// Outcome and reason of each address.
    fn outcomes(
        given: &[(Allocation, Result<PodAttachment, String>)],
        pool: &str,
        held: &[HeldAddress],
    ) -> Vec<(&'static str, String)> {
        let pools = [DefinedPool::read("lan", "lan", pool.as_bytes().to_vec()).unwrap()];
        let plan = Plan::new(given, &pools, held);
        let rows = plan.rows.into_iter();
        rows.map(|row| (row.outcome, row.reason.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn an_address_is_claimed_unless_somebody_else_has_it() {
        let web = [given("10.40.0.7", "c-web")];
        let claimed = [("would-claim", String::new())];
        assert_eq!(outcomes(&web, LAN, &[]), claimed);
        assert_eq!(outcomes(&web, LAN, &[held("c-web")]), claimed);
        let blocks = r#"{"subnet":"10.40.0.0/24","block":28}"#;
        let gateway = r#"{"subnet":"10.40.0.0/24","gateway":"10.40.0.7"}"#;
        for (pool, held, why) in [
            (
                LAN,
                vec![held("c-other")],
                "it is reserved to c-other net1 of network net on node n1, in pool lan",
            ),
            (blocks, vec![], "pool lan is given in blocks"),
            (
                gateway,
                vec![],
                "it is a gateway of pool lan: define the pool with another gateway",
            ),
        ] {
            assert_eq!(outcomes(&web, pool, &held), [("conflict", why.to_owned())]);
        }
        let twice = [web[0].clone(), given("10.40.0.7", "c-other")];
        let all = outcomes(&twice, LAN, &[]);
        assert!(
            all.iter().all(|(outcome, _)| *outcome == "conflict"),
            "{all:?}"
        );
    }

    #[test]
    fn what_isnt_known_is_not_claimed_and_stops_nothing() {
        let mut gone = given("10.40.0.7", "c-gone");
        gone.1 = Err("pod shop/web doesn't exist".into());
        let expected = [("not-imported", "pod shop/web doesn't exist".to_owned())];
        assert_eq!(
            outcomes(std::slice::from_ref(&gone), LAN, &[held("c-other")]),
            expected
        );
        let outside = [given("10.99.0.7", "c-web")];
        assert!(outcomes(&outside, LAN, &[]).is_empty());
    }
}
