//! Checks the settings of a network: values, pools, rules, names.

use std::collections::BTreeSet;

use cni::{Command, Object};
use ipam::{IpNet, Pools, Range, ranges_of_pool};

use crate::check::conflist_check::ConflistCheck;
use crate::check::findings::key_of;
use crate::network::{IPAM_DA_HOST_LOCAL, Network};

/// The text that another project's program replaces by the node's subnet.
const USE_POD_CIDR: &str = "usePodCidr";

/// What to write in the place of settings that a plugin refuses.
const SETTINGS: &str = "settings, pools and rules as docs/configuration.md has them";

impl ConflistCheck<'_> {
    pub(super) fn check_settings(&mut self) {
        let (checked, conflist) = (self.checked, self.checked.conflist);
        let problems = checked.pools.problems.iter().map(|(_, reason)| reason);
        for reason in checked.refusal.iter().chain(problems) {
            let instead = if reason.contains(USE_POD_CIDR) {
                "\"subnet\": \"${podCIDR}\" in a conflist of the installer (docs/kubernetes.md)"
            } else {
                SETTINGS
            };
            self.error(key_of(reason), reason, instead);
        }
        let mut earlier = self.all[..self.index].iter();
        if let Some(earlier) = earlier.find(|earlier| earlier.conflist.name == conflist.name) {
            let (name, file) = (&conflist.name, earlier.conflist.file.display());
            let twice = format!("{name} is the name of the network in {file}, too");
            let problem = twice + "; runtimes use the first file";
            self.error("name", problem, "a different name");
        }
    }

    /// The directory of some names is shared by networks.
    pub(super) fn check_name(&mut self, network: &Network) {
        if network.has_delegate(IPAM_DA_HOST_LOCAL)
            && let Err(error) = ipam::refuse_reserved_name(&network.name)
        {
            self.error("name", error.msg, "a different name");
        }
    }

    /// `bridge` with `isGateway` serves one IPv4 subnet. A catalogue may have pools of other networks.
    fn check_bridge_subnets(&mut self, network: &Network, pools: Vec<Object>) {
        let main = &network.main;
        let mut keys = ["isGateway", "isDefaultGateway"].into_iter();
        let Some(key) = keys.find(|key| main.kind == "bridge" && main.is_set(key)) else {
            return;
        };
        let each = Pools::new(pools).each().into_iter();
        let mut subnets: BTreeSet<IpNet> = BTreeSet::new();
        for set in each.filter_map(|(path, pool)| ranges_of_pool(&path, &pool).ok()) {
            subnets.extend(set.ranges().iter().map(Range::subnet));
        }
        let mut of_ipv4 = subnets.iter().filter(|net| net.addr().is_ipv4());
        if let (Some(one), Some(other)) = (of_ipv4.next(), of_ipv4.next()) {
            let refused = format!("refuses the second of {one} and {other}");
            let problem = format!("bridge serves one IPv4 subnet, and {refused}");
            let own = "a router of your own (docs/bridges-and-subnets.md)";
            self.error(key, problem, format!("slices of one subnet, or {own}"));
        }
    }

    /// Selectors that refuse each container, as those do without a range, and the pools of the others.
    pub(super) fn check_selectors(&mut self, network: &Network) {
        match network.selected(Command::Status, &network.config, self.environment) {
            Err(error) => self.error(key_of(&error.msg), &error.msg, SETTINGS),
            Ok(pools) => {
                let pools = pools.into_iter().flatten().flatten();
                self.check_bridge_subnets(network, pools.collect());
            }
        }
    }
}
