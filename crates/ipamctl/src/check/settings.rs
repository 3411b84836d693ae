//! Checks the settings of a network: values, pools, rules, versions, names.

use ipam_ds_rules::explain::{Unreached, unreached};

use crate::check::conflist_check::Check;
use crate::check::findings::key_of;
use crate::node::network::{CHAIN, RULES};

impl Check<'_> {
    pub(super) fn settings(&mut self) {
        let (one, conflist) = (self.one, self.one.conflist);
        let findings = &mut self.findings;
        if let Some(reason) = &one.refusal {
            findings.error(key_of(reason), reason, "a value of that kind");
        }
        for (_, reason) in &one.pools.problems {
            let instead = "ranges as docs/configuration.md has them";
            findings.error(key_of(reason), reason, instead);
        }
        let network = one.network.as_ref();
        let network = network.filter(|network| network.has_delegate(RULES));
        let unreached = network.map_or(Ok(Vec::new()), |network| unreached(&network.config));
        if let Err(error) = &unreached {
            let instead = "rules and pools as docs/configuration.md has them";
            findings.error(key_of(&error.msg), &error.msg, instead);
        }
        for Unreached { rule, earlier } in unreached.into_iter().flatten() {
            let problem =
                format!("{rule}: it is never reached, since {earlier} holds whenever it does");
            let instead = format!("this rule before {earlier}, or none");
            findings.warning(key_of(&problem), &problem, instead);
        }
        let mut plugins = conflist.plugins.iter();
        if let Some(version) = &conflist.unsupported_version
            && plugins.any(|plugin| plugin.ipam_type() == Some(CHAIN))
        {
            let problem = format!("{version} is not supported by {CHAIN}");
            findings.error("cniVersion", problem, "\"cniVersion\": \"1.0.0\"");
        }
        let mut earlier = self.all[..self.at].iter().map(|earlier| earlier.conflist);
        if let Some(earlier) = earlier.find(|earlier| earlier.name == conflist.name) {
            let (name, file) = (&conflist.name, earlier.file.display());
            findings.error(
                "name",
                format!(
                    "{name} is the name of the network in {file}, too; runtimes use the first file"
                ),
                "a different name",
            );
        }
    }
}
