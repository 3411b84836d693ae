//! The explanation: its JSON, and its text for people.

use std::net::IpAddr;

use ipam_ds_rules::explain::Tried;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::node::large;
use crate::output::{Output, Style, joined};

/// The explanation. The keys are documented, and don't change their meaning.
#[derive(Debug, Default, Serialize)]
pub(super) struct Explanation {
    pub(super) network: String,
    pub(super) delegates: Vec<String>,
    /// The rules that were tried, up to the one that holds.
    pub(super) rules: Vec<Rule>,
    /// What each selector has answered.
    pub(super) selectors: Vec<Selector>,
    pub(super) pools: Vec<ChosenPool>,
    /// The reason why the pools or the addresses are not known.
    pub(super) unknown: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    rule: String,
    holds: bool,
    /// The reason why it doesn't: the fact, its value, the value that is required.
    fact: Option<String>,
    is: Option<String>,
    must_be: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Selector {
    pub(super) name: String,
    pub(super) answer: Option<Box<RawValue>>,
    pub(super) error: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct ChosenPool {
    pub(super) pool: Option<String>,
    pub(super) ranges: String,
    pub(super) size: String,
    pub(super) reserved: String,
    pub(super) free: String,
    pub(super) sticky: Option<String>,
    /// The address that an ADD would get now.
    pub(super) address: Option<IpAddr>,
    pub(super) gateway: Option<IpAddr>,
    /// The reason why it would get none.
    pub(super) refusal: Option<String>,
}

impl Explanation {
    /// True if an ADD would be refused.
    pub(super) fn is_refused(&self) -> bool {
        self.selectors
            .iter()
            .any(|selector| selector.error.is_some())
            || self.pools.iter().any(|pool| pool.refusal.is_some())
    }

    /// The explanation for people, with the facts of the question.
    pub(super) fn lines(&self, facts: &[(String, String)], output: Output) -> Vec<String> {
        let facts = joined(
            facts.iter().map(|(key, value)| format!("{key}={value}")),
            ", ",
        );
        let facts = if facts.is_empty() { "none" } else { &facts };
        let mut lines = vec![
            output.styled(Style::Bold, &format!("network {}", self.network)),
            format!("  chain      {}", self.delegates.join(" → ")),
            format!("  facts      {facts}"),
        ];
        lines.extend(self.rules.iter().map(|rule| format!("  {}", rule.text())));
        for Selector { name, error, .. } in &self.selectors {
            lines.extend(
                error
                    .iter()
                    .map(|error| format!("  {name} refuses: {error}")),
            );
        }
        lines.extend(self.pools.iter().flat_map(ChosenPool::lines));
        lines.extend(
            self.unknown
                .iter()
                .map(|unknown| format!("  not known: {unknown}")),
        );
        lines
    }
}

impl From<Tried> for Rule {
    fn from(tried: Tried) -> Self {
        let (fact, is, must_be) = match tried.unmet {
            None => (None, None, None),
            Some(unmet) => (Some(unmet.fact), unmet.is, Some(unmet.must_be)),
        };
        Self {
            rule: tried.rule,
            holds: fact.is_none(),
            fact,
            is,
            must_be,
        }
    }
}

impl Rule {
    fn text(&self) -> String {
        let Self { rule, is, .. } = self;
        let (Some(fact), Some(must_be)) = (&self.fact, &self.must_be) else {
            return format!("{rule}: holds");
        };
        let is = is
            .as_ref()
            .map_or("missing".to_owned(), |is| format!("{is:?}"));
        format!("{rule}: doesn't hold: {fact} is {is}, and must be {must_be}")
    }
}

impl ChosenPool {
    fn lines(&self) -> Vec<String> {
        let name = self
            .pool
            .as_ref()
            .map_or(String::new(), |name| format!("{name}, "));
        let [reserved, size, free] = [&self.reserved, &self.size, &self.free]
            .map(|text| text.parse().map_or_else(|_| text.clone(), large));
        let mut lines = vec![format!(
            "  pool       {name}{}: {reserved} of {size} reserved, {free} free",
            self.ranges
        )];
        if let Some(key) = &self.sticky {
            lines.push(format!(
                "    sticky   {key}: the address that this key had last, if it is free"
            ));
        }
        if let Some(ip) = self.address {
            let gateway = self.gateway;
            let gateway = gateway.map_or(String::new(), |ip| format!(", gateway {ip}"));
            lines.push(format!("    an ADD would get {ip} now{gateway}"));
        } else if let Some(refusal) = &self.refusal {
            lines.push(format!("    an ADD would be refused: {refusal}"));
        }
        lines
    }
}
