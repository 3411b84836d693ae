//! Finds rules of `ipam-ds-rules` that are invalid, or that no container reaches.

use ipam_ds_rules::explain::unreached;

use crate::check::findings::{Findings, key_of};
use crate::node::Network;
use crate::node::network::RULES;

pub(crate) fn check(network: &Network, findings: &mut Findings<'_>) {
    if !network.has_delegate(RULES) {
        return;
    }
    match unreached(&network.config) {
        Err(error) => {
            let instead = "rules and pools as docs/configuration.md has them";
            findings.error(key_of(&error.msg), error.msg.as_str(), instead);
        }
        Ok(unreached) => {
            for rule in unreached {
                let (rule, earlier) = (rule.rule, rule.earlier);
                let problem =
                    format!("{rule}: it is never reached, since {earlier} holds whenever it does");
                let instead = format!("this rule before {earlier}, or none");
                findings.warning(key_of(&problem), problem.as_str(), instead);
            }
        }
    }
}
