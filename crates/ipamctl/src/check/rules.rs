//! Rules of `ipam-ds-rules` that no container reaches.

use crate::check::Findings;
use crate::network::{Network, RULES};

pub(crate) fn check(network: &Network, findings: &mut Findings<'_>) {
    if !network.has_delegate(RULES) {
        return;
    }
    // An invalid catalogue is found elsewhere.
    let unreached = ipam_ds_rules::tools::unreached(&network.config).unwrap_or_default();
    for it in unreached {
        let problem = format!(
            "{}: it is never reached, since {} holds whenever it does",
            it.rule, it.earlier
        );
        findings.warning(
            super::key_of(&problem),
            problem.clone(),
            format!("this rule before {}, or none", it.earlier),
        );
    }
}
