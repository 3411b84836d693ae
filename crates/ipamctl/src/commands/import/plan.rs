//! What the import of whereabouts' addresses would do with each of them, without asking anybody.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use cluster::contents::{DefinedPool, HeldAddress};
use cluster::restore::Reconciled;
use cluster::{HeldKey, Holder};
use cni::Attachment;
use kubernetes::whereabouts::{Allocation, PodAttachment};
use serde::Serialize;

/// An address of whereabouts. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) address: IpAddr,
    pub(super) pool: String,
    /// Namespace and name of the `IPPool`.
    ip_pool: String,
    /// Namespace and name of the pod.
    pod: String,
    #[serde(rename = "containerID")]
    container_id: String,
    node: Option<String>,
    network: Option<String>,
    ifname: Option<String>,
    /// `claimed`, `held`, `would-claim`, `not-imported`, `conflict`.
    pub(super) outcome: &'static str,
    reason: Option<String>,
}

/// An address to claim, and its row.
pub(super) struct Planned<'g> {
    pub(super) row: Row,
    /// The claim; `None` if the row's outcome is known.
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
    pub(super) addresses: Vec<Planned<'g>>,
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
            let pool = pools
                .iter()
                .find(|pool| pool.definition.pool.ranges.range_of(ip).is_some());
            let Some(pool) = pool else {
                *plan.of_no_pool.entry(&allocation.ip_pool).or_default() += 1;
                continue;
            };
            let mut row = Row::new(allocation, pool, attachment.as_ref().ok());
            let claim = claim(allocation, pool, attachment);
            let other = by_ip[&ip].iter().find(|other| **other != allocation);
            let conflict = conflict(
                pool,
                ip,
                claim.as_ref().ok(),
                held.get(&ip).copied(),
                other.copied(),
            );
            let claim = match (claim, conflict) {
                (_, Some(reason)) => row.decided("conflict", Some(reason)),
                (Err(reason), None) => row.decided("not-imported", Some(reason)),
                (Ok(claim), None) => Some(claim),
            };
            plan.addresses.push(Planned { row, claim });
        }
        plan
    }
}

/// The claim of an address, or the reason why it isn't known whose it is.
fn claim<'g>(
    allocation: &Allocation,
    pool: &'g DefinedPool,
    attachment: &'g Result<PodAttachment, String>,
) -> Result<Claim<'g>, String> {
    let attachment = attachment.as_ref().map_err(Clone::clone)?;
    let wrong =
        |what: &str, text: &str, why: &dyn std::fmt::Display| format!("{what} {text:?}: {why}");
    let container_id = &allocation.container_id;
    let held = HeldKey {
        node: attachment.node.clone(),
        network: attachment
            .network
            .parse()
            .map_err(|why| wrong("network", &attachment.network, &why))?,
        attachment: Attachment {
            container_id: container_id
                .parse()
                .map_err(|why| wrong("container", container_id, &why))?,
            ifname: attachment
                .ifname
                .parse()
                .map_err(|why| wrong("interface", &attachment.ifname, &why))?,
        },
        pool: pool.name.clone(),
        ip: allocation.ip,
    };
    Ok(Claim {
        pool,
        held,
        attachment,
    })
}

/// The reason why an address can't be claimed, whoever has it.
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
    // What isn't known isn't claimed in any case.
    (claim.is_some() && !is_same).then(|| format!("it is {holder}, in pool {}", held.pool))
}

impl Row {
    fn new(
        allocation: &Allocation,
        pool: &DefinedPool,
        attachment: Option<&PodAttachment>,
    ) -> Self {
        Self {
            address: allocation.ip,
            pool: pool.name.to_string(),
            ip_pool: allocation.ip_pool.clone(),
            pod: allocation.pod.clone(),
            container_id: allocation.container_id.clone(),
            node: attachment.map(|attachment| attachment.node.clone()),
            network: attachment.map(|attachment| attachment.network.clone()),
            ifname: attachment.map_or_else(
                || allocation.ifname.clone(),
                |attachment| Some(attachment.ifname.clone()),
            ),
            outcome: "would-claim",
            reason: None,
        }
    }

    fn decided<T>(&mut self, outcome: &'static str, reason: Option<String>) -> Option<T> {
        (self.outcome, self.reason) = (outcome, reason);
        None
    }

    /// Notes what the engine has answered.
    pub(super) fn answered(&mut self, state: Reconciled) {
        (self.outcome, self.reason) = match state {
            Reconciled::Claimed => ("claimed", None),
            Reconciled::Held => ("held", None),
            Reconciled::Conflict(other) => ("conflict", Some(format!("it is {other}"))),
        };
    }

    pub(super) fn text(&self) -> String {
        let Self {
            address, pool, pod, ..
        } = self;
        let ifname = self.ifname.as_deref().unwrap_or("(unknown interface)");
        let place = match (&self.node, &self.network) {
            (Some(node), Some(network)) => format!(" on {node}, network {network}"),
            _ => format!(", IPPool {}", self.ip_pool),
        };
        let outcome = match self.outcome {
            "would-claim" => "would be claimed",
            "not-imported" => "not imported",
            other => other,
        };
        let reason = self.reason.as_ref();
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
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
        let rows = plan.addresses.into_iter().map(|planned| planned.row);
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
