//! Rules of `ipam-ds-rules`: invalid ones, and those that no container reaches.

use crate::check::Findings;
use crate::node::network::{Network, RULES};

pub(crate) fn check(network: &Network, findings: &mut Findings<'_>) {
    if !network.has_delegate(RULES) {
        return;
    }
    let unreached = match ipam_ds_rules::tools::unreached(&network.config) {
        Ok(unreached) => unreached,
        Err(error) => {
            return findings.error(
                super::key_of(&error.msg),
                error.msg.clone(),
                "rules and pools as docs/configuration.md has them",
            );
        }
    };
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
