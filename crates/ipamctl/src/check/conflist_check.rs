//! What the other files of this folder work on: one conflist, among all others, and its findings.

use std::fmt::Display;

use cni::Environment;
use conflist::Conflist;

use crate::check::findings::{Finding, Severity};
use crate::inventory::Inventory;
use crate::network::{IPAM_DELEGATED, Network};
use crate::pools::KnownPools;

/// A conflist with the network and the pools of its configuration.
pub(super) struct CheckedConflist<'a> {
    pub(super) conflist: &'a Conflist,
    pub(super) network: Option<Network>,
    pub(super) pools: KnownPools,
    /// The reason why the network's configuration is unusable.
    pub(super) refusal: Option<String>,
}

impl<'a> CheckedConflist<'a> {
    pub(super) fn read(conflist: &'a Conflist, environment: &Environment) -> Self {
        let (network, refusal) = match Network::of(conflist, environment) {
            Ok(network) => (network, None),
            Err(error) => (None, Some(error.msg)),
        };
        let mut pools = KnownPools::default();
        if let Some(network) = &network {
            pools.add_configured(network, environment);
        }
        let mut plugins = conflist.plugins.iter();
        let has_chain = plugins.any(|plugin| plugin.ipam_type.as_deref() == Some(IPAM_DELEGATED));
        let unknown = conflist.unsupported_version.as_ref().filter(|_| has_chain);
        let refused = |version| format!("cniVersion: ipam-delegated doesn't know {version}");
        Self {
            conflist,
            network,
            pools,
            refusal: refusal.or(unknown.map(refused)),
        }
    }
}

/// The check of one conflist.
pub(super) struct ConflistCheck<'a> {
    /// The conflist's index.
    pub(super) index: usize,
    /// All conflists.
    pub(super) all: &'a [CheckedConflist<'a>],
    pub(super) checked: &'a CheckedConflist<'a>,
    pub(super) no_exec: bool,
    /// Reservations and records of this machine; empty if they aren't compared.
    pub(super) inventory: &'a Inventory,
    /// The environment of calls.
    pub(super) environment: &'a Environment,
    /// Each once.
    pub(super) findings: Vec<Finding>,
}

impl ConflistCheck<'_> {
    pub(super) fn error(&mut self, key: &str, problem: impl Display, instead: impl Display) {
        self.add(Severity::Error, key, problem, instead);
    }

    pub(super) fn warning(&mut self, key: &str, problem: impl Display, instead: impl Display) {
        self.add(Severity::Warning, key, problem, instead);
    }

    pub(super) fn add(
        &mut self,
        severity: Severity,
        key: &str,
        problem: impl Display,
        instead: impl Display,
    ) {
        let file = &self.checked.conflist.file;
        let new = Finding {
            key: key.to_owned(),
            severity,
            ..Finding::of_file(file, problem.to_string(), &instead.to_string())
        };
        let mut known = self.findings.iter();
        if !known.any(|known| (&known.key, &known.problem) == (&new.key, &new.problem)) {
            self.findings.push(new);
        }
    }
}
